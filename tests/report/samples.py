"""Attributions made by hand from their pieces, as the pictures' input."""

from collections.abc import Sequence
from dataclasses import replace

from latscope.attribution.model import (
    OWNERS,
    SEGMENTS,
    AttemptShare,
    Attribution,
    ConnectionInfo,
    ErrorInfo,
    Instrument,
    Itl,
    LoadExcess,
    PartShare,
    Piece,
    Provenance,
    ReportedFigure,
    Segment,
    SegmentShare,
    ServiceTier,
    Stall,
    Unsplit,
)
from latscope.recording import Sample, SegmentTruth, Truth
from latscope.units import MS, US, Ns

WHO = {
    "queue": ("serving platform", "concurrency shaping, priority tier, load levelling"),
    "prefill": ("model serving process", "shorten the prompt, raise prefix-cache hits"),
    "decode": ("model serving process", "cap max_tokens; speculative decoding (server side)"),
    "network": ("your infrastructure + the vendor's edge", "nearby ingress, connection reuse"),
    "client": ("you", "pool limits, event-loop hygiene"),
    "unattributed": ("-", "-"),
}


def piece(
    ns: Ns,
    candidates: str,
    part: str = "",
    provenance: Provenance = "measured",
    would_split: tuple[str, ...] = (),
) -> Piece:
    names: list[Segment] = [name for name in SEGMENTS if name in candidates.split("|")]
    return Piece(
        ns=ns,
        candidates=tuple(names),
        provenance=provenance,
        part=part,
        would_split=would_split,
    )


def placed(pieces: Sequence[Piece]) -> tuple[Piece, ...]:
    """The pieces laid end to end from zero."""
    at, out = 0, []
    for item in pieces:
        out.append(replace(item, at_ns=at))
        at += item.ns
    return tuple(out)


def segment(name: Segment, pieces: Sequence[Piece], first_token: Ns | None) -> SegmentShare:
    own = [item for item in pieces if item.owner == name]
    ns = sum(item.ns for item in own)
    high = sum(item.ns for item in pieces if name in item.candidates)
    low = 0 if name == "unattributed" else ns
    high = ns if name == "unattributed" else high
    parts = {item.part: 0 for item in own if item.part}
    for item in own:
        if item.part:
            parts[item.part] += item.ns
    before = [item for item in own if first_token is not None and (item.at_ns or 0) < first_token]
    return SegmentShare(
        name=name,
        ns=ns,
        ttft_ns=None if first_token is None else sum(item.ns for item in before),
        low_ns=low,
        high_ns=high,
        bounds_ns=(low, high),
        provenance=own[0].provenance if own and name != "unattributed" else "bound",
        evidence=(),
        parts=tuple(
            PartShare(name=part, ns=n, bounds_ns=(n, n), provenance=own[0].provenance)
            for part, n in parts.items()
        ),
        owner=WHO[name][0],
        lever=WHO[name][1],
    )


def attribution(pieces: Sequence[Piece], first_token: Ns | None) -> Attribution:
    """A complete streamed call whose segments follow from its pieces."""
    pieces = placed(pieces)
    wall = sum(item.ns for item in pieces)
    segments = tuple(segment(name, pieces, first_token) for name in SEGMENTS)
    largest = max(segments, key=lambda share: share.ns)
    unsplit = tuple(
        Unsplit(
            candidates=item.candidates,
            ns=item.ns,
            at_ns=item.at_ns,
            would_split=item.would_split,
        )
        for item in pieces
        if len(item.candidates) > 1
    )
    open_race = any(share.bounds_ns[1] > largest.ns for share in segments if share != largest)
    return Attribution(
        call_id="c1",
        started_at="2026-11-29T10:00:00.000Z",
        provider="vllm",
        api="chat",
        model="tiny",
        endpoint="http://127.0.0.1:8000/v1/chat/completions",
        mode="self-hosted",
        streamed=True,
        status="complete",
        http_status=200,
        error=None,
        request_id="r1",
        trace_id=None,
        session_id=None,
        tags={"team": "search"},
        finish_reason="length",
        service_tier=ServiceTier(requested=None, served=None),
        attempts=(AttemptShare(status=200, ns=wall, backoff_ns=0),),
        connection=ConnectionInfo(reused=True, http="HTTP/1.1", peer="127.0.0.1:8000"),
        in_flight=0,
        wall_ns=wall,
        sent_ns=2 * MS,
        headers_ns=4 * MS,
        first_byte_ns=5 * MS,
        first_token_ns=first_token,
        first_visible_token_ns=first_token,
        itl=Itl(p50_ns=6400 * US, p95_ns=7100 * US, max_ns=24 * MS, n=127, unit="token"),
        tpot_ns=6500 * US,
        tokens_per_chunk=1.0,
        input_tokens=512,
        cached_tokens=256,
        cache_write_tokens=None,
        output_tokens=128,
        reasoning_tokens=None,
        max_output_tokens=128,
        segments=segments,
        unsplit=unsplit,
        load_excess=None,
        dominant=None if open_race else largest.name,
        dominant_candidates=tuple(
            name for name in OWNERS if segments[SEGMENTS.index(name)].bounds_ns[1] > 300 * MS
        ),
        stalls=(),
        reported=(),
        instrument=Instrument(clock="perf_counter", bound_ns=50 * US),
        flags=(),
        truth=None,
        sample=Sample(),
        turn=None,
        pieces=pieces,
        ttft_pieces=None
        if first_token is None
        else tuple(item for item in pieces if (item.at_ns or 0) < first_token),
    )


def reported_call() -> Attribution:
    """A vLLM call whose server said how long it queued and prefilled; a stall inside decode."""
    call = attribution(
        [
            piece(800 * US, "client", "pool_wait"),
            piece(900 * US, "network", "upload"),
            piece(12 * MS, "queue", "frontend", "reported"),
            piece(180_200 * US, "queue", "engine", "reported"),
            piece(215_300 * US, "prefill", "uncached", "reported"),
            piece(300 * MS, "decode", "visible", "reported"),
            piece(150 * MS, "network", "hold"),
            piece(380 * MS, "decode", "visible", "reported"),
            piece(400 * US, "network", "transit"),
        ],
        409_200 * US,
    )
    return replace(
        call,
        stalls=(Stall(at_ns=709 * MS, ns=150 * MS, cause="hold", confidence=0.9),),
        reported=(
            ReportedFigure(
                source="vllm.metrics", field="queue_time_ms", covers="queue.engine", ns=180_200 * US
            ),
        ),
    )


def blind_call() -> Attribution:
    """A vendor-like call that says nothing of itself: queue and prefill stay one piece."""
    return attribution(
        [
            piece(300 * US, "client", "pool_wait"),
            piece(31 * MS, "network", "connect"),
            piece(28 * MS, "network", "tls"),
            piece(
                412 * MS,
                "queue|prefill",
                would_split=(
                    "serve with --enable-per-request-metrics (vLLM 0.32 or later)",
                    "record about 50 calls of mixed prompt length",
                    "latscope calibrate",
                ),
            ),
            piece(640 * MS, "decode", "visible"),
            piece(20 * MS, "network|decode"),
        ],
        471_300 * US,
    )


def with_truth(call: Attribution, **wrong: Ns) -> Attribution:
    """The call with a truth that agrees with it, unsplit time given to its first candidate."""
    sums = dict.fromkeys(OWNERS, 0)
    for item in call.pieces:
        sums[item.candidates[0]] += item.ns
    sums.update({name: sums[name] + by for name, by in wrong.items() if name in sums})
    shares = tuple(SegmentTruth(name=name, ns=ns) for name, ns in sums.items())
    return replace(call, truth=Truth(segments=shares, ttft=None, source="test"))


def failed_call() -> Attribution:
    """Silence before the first token until the client gave up; no usage, two flags."""
    call = attribution([piece(900 * US, "client"), piece(1200 * MS, "queue|prefill|network")], None)
    return replace(
        call,
        status="error",
        http_status=None,
        error=ErrorInfo(type="httpx2.ReadTimeout", phase="first_token"),
        input_tokens=None,
        output_tokens=None,
        itl=None,
        tpot_ns=None,
        tokens_per_chunk=None,
        finish_reason=None,
        model=None,
        cached_tokens=None,
        first_byte_ns=None,
        flags=("several_prefills", "made_up_flag"),
    )


def refused_call() -> Attribution:
    """A 429 that nobody tried again."""
    call = failed_call()
    return replace(call, http_status=429, error=ErrorInfo(type="http_429", phase="headers"))


def retried_call() -> Attribution:
    """A 429 with a wait, a 500, then an answer that all came in one read."""
    call = attribution(
        [
            piece(300 * US, "client", "pool_wait"),
            piece(1020 * MS, "queue", "rate_limit"),
            piece(40 * MS, "queue", "failed_attempt"),
            piece(500 * MS, "client", "retry"),
            piece(900 * US, "network", "upload"),
            piece(700 * MS, "queue|prefill|decode"),
        ],
        2260 * MS,
    )
    attempts = [(429, 20 * MS, 1000 * MS), (500, 40 * MS, 500 * MS), (200, 700 * MS, 0)]
    return replace(
        call,
        attempts=tuple(
            AttemptShare(status=status, ns=ns, backoff_ns=wait) for status, ns, wait in attempts
        ),
        itl=Itl(p50_ns=0, p95_ns=0, max_ns=0, n=127, unit="chunk"),
        tpot_ns=0,
        tokens_per_chunk=128.0,
        in_flight=3,
        reasoning_tokens=100,
        dominant=None,
        flags=("one_read", "hidden_reasoning"),
        load_excess=LoadExcess(
            ns=410 * MS,
            low_ns=350 * MS,
            high_ns=450 * MS,
            floor_ns=90 * MS,
            n=80,
            provenance="inferred",
        ),
    )


def long_call() -> Attribution:
    """Two minutes, told in seconds; cut before its end, several stalls."""
    call = attribution(
        [
            piece(2 * MS, "network", "connect"),
            piece(18_000 * MS, "queue", "engine", "probed"),
            piece(9_000 * MS, "prefill", "uncached", "inferred"),
            piece(95_000 * MS, "decode", "reasoning"),
            piece(1_000 * MS, "unattributed"),
        ],
        27_002 * MS,
    )
    stalls = [
        Stall(at_ns=n * 9_000 * MS, ns=n * 500 * MS, cause="unsplit", confidence=0)
        for n in range(3, 9)
    ]
    return replace(
        call,
        status="cut",
        http_status=200,
        finish_reason=None,
        stalls=tuple(stalls),
        endpoint="https://a-rather-long-host-name.internal.example.org:8443/serving/models/"
        "production/large/v1/chat/completions",
        first_visible_token_ns=80_000 * MS,
        connection=ConnectionInfo(reused=None, http="HTTP/2", peer=None),
    )
