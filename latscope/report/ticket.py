"""A vendor-ready account of a few calls: ids, times, bounds; nothing anybody said.

Markdown, to be pasted into a ticket. It states for the caller's own process and for the network
whether they can have made the wait: a segment is *ruled out* where even its hard maximum is a small
share of the call, and *not ruled out* with how much of it may, or surely is, theirs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from latscope.attribution.model import Attribution, Segment, SegmentShare
from latscope.recording import Recording
from latscope.report.figures import UNKNOWN, counted, duration, percent
from latscope.report.words import MEANING
from latscope.units import Ns

RULED_OUT = 0.1
"""Of the call: at most so much is nobody's cause for a ticket."""
REGION_HEADERS = (
    "x-ms-region", "x-region", "fly-region", "x-amz-cf-pop", "x-vercel-id", "cf-ray", "x-cluster",
)  # fmt: skip
"""Headers that name a place; of `cf-ray` the letters after the hyphen are the edge's airport."""
ID_HEADERS = (
    "x-request-id", "request-id", "apim-request-id", "x-amzn-requestid", "x-ms-request-id",
    "cf-ray",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """One call of the ticket."""

    recording: Recording
    call: Attribution


def ticket(calls: Sequence[Told], *, version: str) -> Iterator[str]:
    """The lines of the account. calls: at least one, in the order they are to stand."""
    first = calls[0].call
    yield f"# Slow calls to {first.endpoint}" if len(calls) > 1 else f"# A call to {first.endpoint}"
    yield ""
    yield (
        f"{counted(len(calls), 'call')}, all times UTC, measured in the caller's process "
        f"(latscope {version}). No prompt, answer, key or address of a user is in this text."
    )
    for number, told in enumerate(calls, 1):
        yield ""
        yield f"## {number}. {told.call.started_at}"
        yield ""
        yield from _facts(told)
        yield ""
        yield from _table(told.call)
        yield ""
        yield from _verdicts(told.call)


def _facts(told: Told) -> Iterator[str]:
    call = told.call
    headers = _headers(told.recording)
    ids = [f"{name} `{headers[name]}`" for name in ID_HEADERS if name in headers]
    if call.response_id:
        ids.append(f"response `{call.response_id}`")
    if call.trace_id:
        ids.append(f"trace `{call.trace_id}`")
    yield f"- ids: {', '.join(ids) or 'none was returned'}"
    yield f"- model: {call.model or 'unknown'} · API: {call.api or 'unknown'}"
    places = [f"{name} `{headers[name]}`" for name in REGION_HEADERS if name in headers]
    yield f"- region: {', '.join(places) or 'the answer names none'}"
    status = f"HTTP {call.http_status}" if call.http_status else "no HTTP status"
    error = f" ({call.error.type}, waiting for {call.error.phase})" if call.error else ""
    yield f"- outcome: {call.status}, {status}{error}"
    first = duration(call.first_token_ns) if call.first_token_ns is not None else "none came"
    yield f"- took {duration(call.wall_ns)}; first token {first}"
    yield f"- tokens: {_tokens(call)}"
    reused = {True: "reused", False: "new", None: "unknown whether new"}[call.connection.reused]
    yield f"- connection: {reused}, {call.connection.http or 'HTTP version unknown'}"
    if len(call.attempts) > 1:
        tries = ", ".join(str(attempt.status or "no answer") for attempt in call.attempts)
        yield f"- attempts: {tries}"
    if call.reported:
        said = ", ".join(f"{row.source} {row.field} {duration(row.ns)}" for row in call.reported)
        yield f"- the server's own figures: {said}"


def _headers(recording: Recording) -> Mapping[str, str]:
    return dict(recording.attempts[-1].headers) if recording.attempts else {}


def _tokens(call: Attribution) -> str:
    def said(count: int | None) -> str:
        return "unknown" if count is None else str(count)

    return (
        f"{said(call.input_tokens)} in, {said(call.cached_tokens)} of them cached, "
        f"{said(call.output_tokens)} out"
    )


def _table(call: Attribution) -> Iterator[str]:
    """A segment's row gives what is its own; what lies between several has a row of its own."""
    yield "| segment | time | of it before the first token | at least | at most | known by |"
    yield "|---|---|---|---|---|---|"
    step = max(1, call.instrument.bound_ns)
    for share in call.segments:
        low, high = share.bounds_ns
        if high == 0 or share.name == "unattributed":
            continue
        open_ = share.provenance == "bound" and share.ns == 0
        yield (
            f"| {share.name} | {UNKNOWN if open_ else _time(share.ns, step)} "
            f"| {UNKNOWN if open_ else _time(share.ttft_ns, step)} "
            f"| {_time(low, step)} | {_time(high, step)} | {MEANING[share.provenance]} |"
        )
    for piece in call.unsplit:
        names = " or ".join(piece.candidates)
        yield f"| {names} | {_time(piece.ns, step)} | | | | the sum is known, the split is not |"


def _time(ns: Ns | None, step: Ns = 1) -> str:
    return "none" if ns == 0 else duration(ns, step)


def _verdicts(call: Attribution) -> Iterator[str]:
    yield f"- The caller's process: {_ruled(call.segment('client'), call)}"
    yield f"- The network: {_ruled(call.segment('network'), call)}"
    yield f"- The server: {_server(call)}"


def _ruled(share: SegmentShare, call: Attribution) -> str:
    low, high = share.bounds_ns
    if high <= RULED_OUT * call.wall_ns:
        return f"ruled out, at most {_time(high)} of {duration(call.wall_ns)}"
    if low > RULED_OUT * call.wall_ns:
        return f"not ruled out: at least {duration(low)} ({percent(low, call.wall_ns)}) is its own"
    return f"not ruled out: its share may be anything from {_time(low)} to {_time(high)}"


SERVERS: tuple[Segment, ...] = ("queue", "prefill", "decode")


def _server(call: Attribution) -> str:
    """What is surely the server's, queue, prefill and decode together: what is not surely, or
    possibly, somebody else's."""
    sure = sum(
        piece.ns for piece in call.pieces if all(name in SERVERS for name in piece.candidates)
    )
    share = percent(sure, call.wall_ns)
    return f"at least {duration(sure)} ({share}) of the call is queue, prefill or decode"
