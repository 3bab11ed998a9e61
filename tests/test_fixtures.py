"""The recorded streams of real engines, through the whole way from frames to segments."""

from dataclasses import replace
from pathlib import Path

import pytest

from latscope.attribution import Attribution, attribute, check_laws
from latscope.documents.recordings import read
from latscope.protocols import detect
from latscope.protocols.mask import mask
from latscope.recording import Attempt, Read, Recording
from latscope.timeline import build
from latscope.wire.framing import frames

FOLDER = Path(__file__).parents[1] / "fixtures" / "recordings"
NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))
STREAMS = [name for name in NAMES if name.endswith("-stream")]
BROKEN = {"vllm-chat_broken-stream"}


def recording(name: str) -> Recording:
    (found,) = read(FOLDER / f"{name}.jsonl")
    return found


def attributed(name: str) -> Attribution:
    found = attribute(recording(name))
    check_laws(found)
    return found


@pytest.mark.parametrize("name", NAMES)
def test_every_recording_is_understood(name: str) -> None:
    """The laws hold, no event is unknown, and the verdict is what happened."""
    found = attributed(name)
    assert "unknown_events" not in found.flags
    assert "unknown_dialect" not in found.flags
    failed = name.endswith("-error") or name in BROKEN
    assert found.status == ("error" if failed else "complete")
    assert found.streamed == (name.endswith("-stream"))


@pytest.mark.parametrize("name", NAMES)
def test_a_masked_recording_gives_the_same_attribution(name: str) -> None:
    """Law 7: the mask takes the content and nothing that counts."""
    plain = recording(name)
    assert attribute(mask(plain)) == attribute(plain)


def recut(attempt: Attempt, size: int) -> Attempt:
    """The same bytes in reads of `size`, each at the time its last byte came."""
    body, old = attempt.body or b"", list(attempt.reads)
    reads = []
    for end in [*range(size, len(body), size), len(body)]:
        came = next(read for read in old if read.body_offset >= end)
        reads.append(Read(came.asked_ns, came.got_ns, size, end))
    return replace(attempt, reads=tuple(reads))


@pytest.mark.parametrize("name", STREAMS)
def test_the_same_bytes_in_other_reads_are_the_same_frames(name: str) -> None:
    """Byte by byte the times are the same too; in larger cuts bytes come no earlier."""
    (attempt,) = recording(name).attempts
    whole = frames(attempt)
    assert frames(recut(attempt, 1)) == whole
    for size in (7, 4096):
        again = frames(recut(attempt, size))
        assert [(f.data, f.name, f.start, f.end) for f in again] == [
            (f.data, f.name, f.start, f.end) for f in whole
        ]
        assert all(f.last_ns >= g.last_ns for f, g in zip(again, whole, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_content_alone_gives_the_dialect_away(name: str) -> None:
    """Detection by content agrees with detection by path, error bodies aside."""
    found = recording(name)
    (attempt,) = found.attempts
    by_path = detect(found.target.path)
    by_content = detect("/", attempt.body, frames(attempt))
    assert by_path is not None
    if attempt.status == 200:
        assert by_content is by_path


@pytest.mark.parametrize(
    ("name", "arrivals"),
    [
        ("vllm-chat-stream", 32),
        ("vllm-completions-stream", 30),
        ("vllm-responses-stream", 29),
        ("vllm-messages-stream", 31),
        ("llama-chat-stream", 31),
        ("llama-completions-stream", 31),
        ("llama-responses-stream", 32),
        ("llama-messages-stream", 32),
    ],
)
def test_token_counts_are_the_servers_own(name: str, arrivals: int) -> None:
    """32 tokens in all of them, in as many events or fewer: an event is a token only where the
    numbers agree."""
    found = attributed(name)
    assert found.output_tokens == 32
    assert found.itl is not None
    assert found.itl.n == arrivals - 1
    assert found.itl.unit == ("token" if arrivals == 32 else "chunk")


@pytest.mark.parametrize(
    "name",
    [
        "vllm-chat-stream",
        "vllm-completions-stream",
        "vllm-responses-stream",
        "vllm-chat-body",
        "vllm-completions-body",
        "vllm-responses-body",
    ],
)
def test_vllms_figures_fill_queue_prefill_and_decode(name: str) -> None:
    found = attributed(name)
    stated = {figure.covers: figure.ns for figure in found.reported}
    assert found.segment("prefill").ns == stated["prefill"]
    assert found.segment("decode").ns == stated["decode"]
    assert found.segment("queue").parts[0].ns == stated["queue.engine"]


def test_role_and_first_token_share_a_read_in_vllm() -> None:
    """vLLM sends the role with the first token: first byte says nothing of the queue."""
    timeline = build(recording("vllm-chat-stream"))
    assert timeline.first_byte_ns is not None
    assert timeline.first_token_ns is not None
    assert timeline.first_token_ns - timeline.first_byte_ns < 1_000_000


def test_streamed_reasoning_is_seen_in_every_api() -> None:
    for name in STREAMS:
        if "reasoning" in name:
            timeline = build(recording(name))
            assert timeline.arrivals[0].channel == "reasoning", name
            assert not timeline.hidden_reasoning


def test_an_error_after_tokens_is_named() -> None:
    found = attributed("vllm-chat_broken-stream")
    assert found.error is not None
    assert (found.error.type, found.error.phase) == ("InternalServerError", "stream")


def test_several_choices_are_flagged() -> None:
    for engine in ("vllm", "llama"):
        assert "several_choices" in attributed(f"{engine}-chat_two-stream").flags


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("hop-")])
def test_the_truth_behind_a_real_hop_lies_inside_the_bounds(name: str) -> None:
    """Law 2 behind every proxy that was recorded, for the whole call and to the first token."""
    found, truth = attributed(name), recording(name).truth
    assert truth is not None
    assert truth.ttft is not None
    for true, pieces in ((truth.segments, found.pieces), (truth.ttft, found.ttft_pieces or ())):
        for share in true:
            least = sum(piece.ns for piece in pieces if piece.sure and piece.owner == share.name)
            most = sum(piece.ns for piece in pieces if share.name in piece.candidates)
            if share.name != "unattributed":
                assert least <= share.ns <= most, (share.name, least, share.ns, most)
