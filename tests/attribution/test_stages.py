"""What the response head and the server's events prove of where the server was."""

import pytest

from latscope.attribution import Attribution
from latscope.attribution.stages import stages
from latscope.recording import Recording
from latscope.timeline import Marker, build
from latscope.timeline.model import Timeline
from latscope.units import MS, Span
from tests.calls import DONE, attributed, finish, ms, stream, tokens, usage

GRACE = 30 * MS
LLAMA = (("server", "llama.cpp"),)


def call(
    *,
    head: float,
    start: float = 500.0,
    server: tuple[tuple[str, str], ...] = (("server", "uvicorn"),),
    vllm: bool = True,
    peer: str = "127.0.0.1:8000",
) -> Recording:
    """Twenty tokens 10 ms apart; the head at `head` ms, the first token at `start`."""
    chunks = tokens(20, start=start, step=10.0)
    if vllm:
        chunks = [
            (at, data.replace(b'"model"', b'"system_fingerprint":"vllm-0.32","model"'))
            for at, data in chunks
        ]
    chunks.append((chunks[-1][0] + 1, finish("length") + usage(20) + DONE))
    return stream(chunks, sent=3.0, headers=head, response_headers=server, peer=peer)


def bounds(found: Attribution, name: str) -> tuple[float | None, float | None]:
    low, high = next(share.bounds_ns for share in found.segments if share.name == name)
    return ms(low), ms(high)


def test_a_starved_front_end_shows_in_a_head_that_leaves_before_the_queue() -> None:
    """vLLM's head at 400 ms, the first token at 500: nearly all of it was the front end, and
    prefill cannot have been more than what followed, less what delivery may take."""
    found = attributed(call(head=400.0))
    queue = found.segment("queue")
    grace = 25 + 10 + 0.04 - 0.02
    assert ms(queue.ns) == pytest.approx(400 - 2.9 - grace, abs=0.05)
    assert [part.name for part in queue.parts] == ["frontend"]
    assert queue.provenance == "measured"
    assert bounds(found, "prefill")[1] == pytest.approx(100 + grace, abs=0.1)
    assert found.dominant == "queue"


def test_an_early_head_proves_nothing_of_what_followed() -> None:
    found = attributed(call(head=4.0))
    assert ms(found.segment("queue").ns) == 0
    assert found.unsplit[0].candidates == ("queue", "prefill")


def test_a_head_at_the_slot_bounds_the_queue_from_above() -> None:
    """llama.cpp's head leaves when a slot starts: what follows it is no queue."""
    found = attributed(call(head=200.0, server=LLAMA, vllm=False))
    low, high = bounds(found, "queue")
    assert low == pytest.approx(200 - 2.9 - 35, abs=0.1)
    assert high == pytest.approx(200 - 2.9, abs=0.1)
    assert bounds(found, "prefill")[0] == pytest.approx(300 - 35, abs=0.1)


def test_a_head_with_the_first_token_is_that_of_an_older_server() -> None:
    found = attributed(call(head=495.0, server=LLAMA, vllm=False))
    assert bounds(found, "queue")[0] == 0


def test_behind_a_hop_the_head_may_have_been_kept() -> None:
    found = attributed(call(head=400.0, peer="104.18.6.192:443"))
    assert bounds(found, "queue")[0] == 0


def with_markers(*markers: tuple[float, str], head: float = 4.0, direct: bool = True) -> Timeline:
    from dataclasses import replace

    timeline = build(call(head=head, vllm=False))
    found = tuple(
        Marker(at=Span(round(at * MS), round(at * MS)), milestone=name)  # type: ignore[arg-type]
        for at, name in markers
    )
    return replace(timeline, markers=found, path=replace(timeline.path, direct=direct))


def test_keep_alives_of_a_waiting_call_keep_prefill_out() -> None:
    """Two a second apart were not collected: the later one is late by delivery on a direct path,
    by less than the gap before it on any other."""
    near = stages(with_markers((100.0, "waiting"), (300.0, "waiting")), GRACE, hop_free=True)
    assert near.unscheduled_ns == 270 * MS
    far = stages(
        with_markers((100.0, "waiting"), (300.0, "waiting"), direct=False), GRACE, hop_free=False
    )
    assert far.unscheduled_ns == 100 * MS
    assert far.evidence == ("the server said the request still waited",)


def test_keep_alives_that_came_together_prove_nothing() -> None:
    found = stages(with_markers((300.0, "waiting"), (301.0, "waiting")), GRACE, hop_free=True)
    assert found.unscheduled_ns is None
    assert stages(with_markers((300.0, "waiting")), GRACE, hop_free=True).unscheduled_ns is None


@pytest.mark.parametrize("name", ["scheduled", "prefilled"])
def test_progress_of_the_prompt_ends_the_queue(name: str) -> None:
    found = stages(with_markers((120.0, name)), GRACE, hop_free=False)
    assert found.scheduled_ns == 120 * MS
    assert found.unscheduled_ns is None


def test_a_vendors_word_makes_an_estimate_and_no_bound() -> None:
    """DeepSeek's keep-alives are said to come while a call waits: so it is counted, not proved."""
    ping = b": keep-alive\n\n"
    chunks = [(100.0, ping), (200.0, ping), (300.0, ping), *tokens(20, start=500.0, step=10.0)]
    chunks.append((chunks[-1][0] + 1, finish("length") + usage(20) + DONE))
    found = attributed(
        stream(
            chunks,
            sent=3.0,
            host="api.deepseek.com",
            peer="104.18.6.192:443",
            response_headers=(("server", "cloudflare"),),
        )
    )
    queue = found.segment("queue")
    assert ms(queue.ns) == pytest.approx(200 - 2.9 - 0.02, abs=0.03)
    assert (queue.provenance, queue.bounds_ns[0]) == ("inferred", 0)
    assert bounds(found, "prefill")[1] == pytest.approx(500 - 2.9, abs=0.1)
