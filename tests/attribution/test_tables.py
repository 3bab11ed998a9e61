"""Owners, modes, splits, laws: the tables around the partition."""

from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latscope.attribution import LawBroken, check_laws, check_partition
from latscope.attribution.figures import Figures, figures_of
from latscope.attribution.model import OWNERS, SEGMENTS, Mode, Piece, Segment
from latscope.attribution.owners import OWNERS_TABLE, mode_of, owner_of, provider_of
from latscope.attribution.pace import bursts, pace
from latscope.attribution.shares import dominant, segment_shares
from latscope.protocols.events import Reported
from latscope.timeline import Arrival, build
from latscope.units import MS, Span
from tests.calls import DONE, attributed, delta, finish, metrics, stream, tokens, usage


def piece(ns: int, *candidates: Segment, part: str = "") -> Piece:
    return Piece(ns=ns, candidates=candidates, provenance="measured", evidence=("test",), part=part)


@pytest.mark.parametrize(
    ("host", "server", "expected"),
    [
        ("api.openai.com", None, "vendor"),
        ("api.openai.com", "uvicorn", "vendor"),
        ("my.openai.azure.com", None, "vendor"),
        ("127.0.0.1", "uvicorn", "self-hosted"),
        ("localhost", "llama.cpp", "on-device"),
        ("::1", "ollama", "on-device"),
        ("10.0.0.7", None, "self-hosted"),
        ("vllm", None, "self-hosted"),
        ("vllm.prod.svc", None, "self-hosted"),
        ("llm.example.com", "uvicorn", "self-hosted"),
        ("llm.example.com", "cloudflare", "vendor"),
    ],
)
def test_modes(host: str, server: str | None, expected: Mode) -> None:
    assert mode_of(host, server) == expected


@pytest.mark.parametrize(
    ("host", "fingerprint", "server", "expected"),
    [
        ("api.openai.com", None, None, "openai"),
        ("x.openai.azure.com", None, None, "azure.ai.openai"),
        ("us-east5-aiplatform.googleapis.com", None, None, "gcp.vertex_ai"),
        ("generativelanguage.googleapis.com", None, None, "gcp.gemini"),
        ("bedrock-runtime.eu-west-1.amazonaws.com", None, None, "aws.bedrock"),
        ("bedrock-mantle.eu-west-1.api.aws", None, None, "aws.bedrock"),
        ("r.services.ai.azure.com", None, None, "azure.ai.inference"),
        ("evilapi.openai.com.example", None, None, None),
        ("notapi.openai.com", None, None, None),
        ("127.0.0.1", "vllm-0.32.0-17ca99a3", "uvicorn", "vllm"),
        ("127.0.0.1", None, "llama.cpp", "llama.cpp"),
        ("127.0.0.1", None, "uvicorn", None),
    ],
)
def test_providers(
    host: str, fingerprint: str | None, server: str | None, expected: str | None
) -> None:
    assert provider_of(host, fingerprint, server) == expected


def test_every_segment_has_an_owner_and_a_lever_in_every_mode() -> None:
    for segment in SEGMENTS:
        for mode in ("vendor", "self-hosted", "on-device"):
            row = owner_of(segment, mode)
            assert row.segment == segment
            assert row.of(mode)
            assert row.lever


def test_a_part_may_have_an_owner_of_its_own() -> None:
    assert owner_of("queue", "vendor", "rate_limit") is not owner_of("queue", "vendor")
    assert owner_of("queue", "vendor", "engine") is owner_of("queue", "vendor")
    assert {row.segment for row in OWNERS_TABLE} == set(SEGMENTS)


@pytest.mark.parametrize(
    ("pieces", "winner", "able"),
    [
        ([piece(10, "decode"), piece(9, "queue")], "decode", {"decode"}),
        ([piece(10, "decode"), piece(10, "queue")], None, {"decode", "queue"}),
        # 100 split anyhow between two leaves one of them at least 50: 30 cannot lead
        ([piece(100, "queue", "prefill"), piece(30, "decode")], None, {"queue", "prefill"}),
        (
            [piece(40, "queue", "prefill"), piece(30, "decode")],
            None,
            {"queue", "prefill", "decode"},
        ),
        ([piece(40, "queue", "prefill"), piece(50, "decode")], "decode", {"decode"}),
        ([], None, set()),
    ],
)
def test_dominant_is_named_only_when_nothing_could_change_it(
    pieces: list[Piece], winner: Segment | None, able: set[Segment]
) -> None:
    found, names = dominant(pieces)
    assert (found, set(names)) == (winner, able)


def fits(pieces: list[Piece], leader: Segment) -> bool:
    """Whether the rest can be shared out so that none has more than the leader, by Hall's theorem:
    for every set of others, what only they can own is at most its share times their number."""
    high = sum(one.ns for one in pieces if leader in one.candidates)
    others = [name for name in OWNERS if name != leader]
    return high > 0 and all(
        sum(one.ns for one in pieces if set(one.candidates) <= set(group)) <= count * high
        for count in range(1, len(others) + 1)
        for group in combinations(others, count)
    )


@given(
    st.lists(
        st.builds(
            lambda ns, who: piece(ns, *who),
            st.integers(0, 9),
            st.lists(st.sampled_from(OWNERS), min_size=1, max_size=3, unique=True),
        ),
        max_size=7,
    )
)
def test_who_could_be_the_largest_is_whom_some_sharing_out_makes_so(pieces: list[Piece]) -> None:
    assert dominant(pieces)[1] == tuple(name for name in OWNERS if fits(pieces, name))


def test_a_segments_bounds_are_its_own_and_all_that_lists_it() -> None:
    pieces = [piece(5, "queue", part="engine"), piece(7, "queue", "network"), piece(2, "decode")]
    shares = {share.name: share for share in segment_shares(pieces, None, "vendor")}
    assert shares["queue"].bounds_ns == (5, 12)
    assert shares["network"].bounds_ns == (0, 7)
    assert shares["unattributed"].bounds_ns == (0, 7)
    assert shares["queue"].parts[0].bounds_ns == (5, 5)
    assert sum(share.ns for share in shares.values()) == 14


def test_a_part_that_is_only_a_bound_may_be_wider() -> None:
    weak = replace(piece(5, "queue", part="engine"), provenance="bound")
    shares = segment_shares([weak, piece(7, "queue", "network")], None, "vendor")
    assert shares[0].parts[0].bounds_ns == (5, 12)
    assert shares[0].provenance == "bound"


@pytest.mark.parametrize(
    ("pieces", "total"),
    [
        ([piece(5, "queue")], 6),
        ([piece(-5, "queue"), piece(11, "decode")], 6),
        ([piece(6)], 6),
        ([piece(6, "queue", "queue")], 6),
        ([replace(piece(6, "queue"), evidence=())], 6),
        ([replace(piece(6, "queue"), ns=6.0)], 6),  # type: ignore[arg-type]
    ],
)
def test_a_broken_partition_is_refused(pieces: list[Piece], total: int) -> None:
    with pytest.raises(LawBroken):
        check_partition(pieces, total)


def test_a_broken_attribution_is_refused() -> None:
    chunks = [*tokens(6, start=100.0, step=20.0), (201.0, finish() + usage(6) + DONE)]
    good = attributed(stream(chunks))
    queue = good.segments[0]
    bad = [
        replace(good, segments=good.segments[1:]),
        replace(good, wall_ns=good.wall_ns + 1),
        replace(good, ttft_pieces=None),
        replace(good, first_token_ns=(good.first_token_ns or 0) + 1),
        replace(good, segments=(replace(queue, ttft_ns=5), *good.segments[1:])),
        replace(good, segments=(replace(queue, low_ns=-1), *good.segments[1:])),
        replace(
            good,
            segments=(
                *good.segments[:2],
                replace(good.segments[2], evidence=()),
                *good.segments[3:],
            ),
        ),
        replace(
            good, segments=(*good.segments[:2], replace(good.segments[2], ns=1), *good.segments[3:])
        ),
        replace(good, first_token_ns=None, ttft_pieces=None),
    ]
    network = good.segment("network")
    part = replace(network.parts[0], ns=network.parts[0].ns + 10**9)
    wide = replace(part, bounds_ns=(0, 10**10))
    bad += [
        replace(
            good,
            segments=tuple(share if e.name == "network" else e for e in good.segments),
        )
        for share in (replace(network, parts=(part,)), replace(network, parts=(wide,)))
    ]
    for attribution in bad:
        with pytest.raises(LawBroken):
            check_laws(attribution)


def arrival(at: float, earliest: float | None = None) -> Arrival:
    span = Span(round((at if earliest is None else earliest) * MS), round(at * MS))
    return Arrival(at=span, channel="content", choice=0, tokens=None, read=0)


def test_reads_that_returned_at_once_belong_to_the_burst_before() -> None:
    found = bursts([arrival(10), arrival(10.1, 10), arrival(10.2, 10.1), arrival(30)])
    assert [(burst.at / MS, burst.events) for burst in found] == [(10.2, 3), (30.0, 1)]


def test_a_late_first_token_shows_in_the_ones_that_catch_up() -> None:
    """The first came 60 ms late; the next two came with it or right behind."""
    late = pace([arrival(at) for at in (160, 161, 162, 180, 200, 220, 240, 260)])
    assert late.late_first_ns == pytest.approx(40 * MS, abs=3 * MS)
    even = pace([arrival(100 + 20 * k) for k in range(8)])
    assert even.late_first_ns == even.late_last_ns == 0
    assert even.paced


def test_a_late_last_token_shows_against_the_ones_before() -> None:
    late = pace([arrival(at) for at in (100, 120, 140, 160, 180, 240)])
    assert late.late_last_ns == 40 * MS


def test_bursts_by_the_clock_are_not_paced() -> None:
    collected = pace([arrival(at) for at in (200,) * 8 + (400,) * 8 + (600,) * 8])
    assert not collected.paced
    assert collected.widest_ns == 200 * MS


@pytest.mark.parametrize(
    ("api", "expected"),
    [
        ("chat", "vLLM: --enable-per-request-metrics (from 0.25.0)"),
        ("messages", "vLLM reports times on chat, completions and responses, not on this API"),
    ],
)
def test_what_would_split_depends_on_the_api(api: str, expected: str) -> None:
    from tests.calls import sse

    chunks = [(100.0, delta("a")), (110.0, finish() + usage(1) + DONE)]
    if api == "messages":
        text = {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "a"}}
        chunks = [(100.0, sse(text)), (110.0, sse({"type": "message_stop"}))]
    found = attributed(stream(chunks, api=api))
    assert expected in found.unsplit[0].would_split


def test_what_would_split_by_engine() -> None:
    chunks = [(100.0, delta("a")), (110.0, finish() + DONE)]
    device = attributed(stream(chunks, response_headers=(("server", "llama.cpp"),)))
    assert any("llama.cpp" in way for way in device.unsplit[0].would_split)
    vllm = attributed(stream(chunks))
    ways = vllm.unsplit[0].would_split
    assert any("usage asked for" in way for way in ways)
    vendor = attributed(stream(chunks, host="api.openai.com", peer="104.18.6.192:443"))
    assert not any("vLLM" in way for way in vendor.unsplit[0].would_split)
    hop = attributed(stream(chunks, response_headers=(("server", "nginx"),)))
    assert "call the server without the hop (server: nginx)" in hop.unsplit[0].would_split


def test_a_mode_the_caller_states_is_believed() -> None:
    chunks = [(100.0, delta("a")), (110.0, finish() + DONE)]
    assert attributed(stream(chunks), mode="vendor").mode == "vendor"


def test_only_decode_reported_leaves_prefill_a_candidate() -> None:
    """llama.cpp-like partial figures fill what they cover and nothing more."""
    only = {"generation_time_ms": 99.0}
    chunks = [
        *tokens(6, start=100.0, step=20.0),
        (201.0, finish() + usage(6, metrics=only) + DONE),
    ]
    found = attributed(stream(chunks))
    assert found.segment("decode").ns == 99 * MS
    assert ("queue", "prefill", "network") in [entry.candidates for entry in found.unsplit]


def test_only_prefill_reported_leaves_decode_to_the_pace() -> None:
    only = {"time_to_first_token_ms": 80.0}
    chunks = [
        *tokens(6, start=100.0, step=20.0),
        (201.0, finish() + usage(6, metrics=only) + DONE),
    ]
    found = attributed(stream(chunks))
    assert found.segment("prefill").ns == 80 * MS
    assert found.segment("decode").provenance == "measured"
    hidden = {"completion_tokens_details": {"reasoning_tokens": 30}}
    chunks[-1] = (201.0, finish() + usage(36, metrics=only, details=hidden) + DONE)
    found = attributed(stream(chunks))
    assert ("queue", "decode", "network") in [entry.candidates for entry in found.unsplit]


def test_reported_queue_gives_way_last() -> None:
    """Within the tolerance the clock wins: decode is cut when the whole is too long."""
    chunks = [
        *tokens(6, start=100.0, step=20.0),
        (201.0, finish() + usage(6, metrics=metrics(20.0, 70.0, 109.0)) + DONE),
    ]
    found = attributed(stream(chunks))
    assert found.segment("decode").ns / MS == pytest.approx(108.1)
    queue_only = {"queue_time_ms": 98.0}
    chunks[-1] = (201.0, finish() + usage(6, metrics=queue_only) + DONE)
    found = attributed(stream(chunks))
    assert found.segment("queue").parts[0].ns / MS == pytest.approx(97.1)


def test_segments_of_owners_are_the_ones_pieces_can_have() -> None:
    assert (*OWNERS, "unattributed") == SEGMENTS


def test_a_wider_figure_fills_no_part() -> None:
    """Only figures that cover a part exactly are used; others are listed and left alone."""
    timeline = build(stream([(100.0, delta("a")), (101.0, finish() + usage(1) + DONE)]))
    wide = Reported(source="proxy", field="total", covers="stated", ns=50 * MS)
    assert figures_of(replace(timeline, reported=(wide,))) == (Figures(), ())


def test_figures_need_to_know_when_the_request_was_sent() -> None:
    """Without transport events there is no interval to hold them against."""
    chunks = [(100.0, delta("a")), (101.0, finish() + usage(1, metrics=metrics(1, 2, 3)) + DONE)]
    found = attributed(stream(chunks, connect=None, sent=None))
    assert found.segment("prefill").ns == 0
    assert "reported_contradicts_clock" in found.flags


def test_prefill_alone_gives_way_to_the_clock() -> None:
    chunks = [
        (100.0, delta("a")),
        (101.0, finish() + usage(1, metrics={"time_to_first_token_ms": 98.0}) + DONE),
    ]
    assert attributed(stream(chunks)).segment("prefill").ns / MS == pytest.approx(97.1)


def test_prefill_alone_of_a_call_that_is_not_streamed() -> None:
    body = (
        b'{"object":"chat.completion","choices":[{"message":{"content":"hi"},"finish_reason":"stop"}]'
        b',"metrics":{"time_to_first_token_ms":80}}'
    )
    found = attributed(stream([(300.0, body)], kind="application/json", headers=299.0))
    assert found.segment("prefill").ns == 80 * MS
    assert [entry.candidates for entry in found.unsplit] == [("queue", "decode", "network")]
