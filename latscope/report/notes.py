"""What is said in words beside the bars: headline, dominant segment, unsplit time, pace, trouble.

Notes are (label, text) pairs in order of use to the reader; a note that has nothing to say is
absent, and what is unknown is called unknown.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from latscope.attribution.model import Attribution, ErrorInfo, Segment, SegmentShare
from latscope.report.figures import UNKNOWN, common_unit, count, counted, duration, percent
from latscope.report.words import CAUSES, flag, phase
from latscope.units import Ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """label: shown once at the left; lines: each starts a line of its own; tone: how it looks."""

    label: str
    lines: tuple[str, ...]
    tone: str = "plain"


def headline(attribution: Attribution) -> tuple[str, ...]:
    """The few facts of the header line, most wanted first."""
    res = max(1, attribution.instrument.bound_ns)
    first = attribution.first_token_ns
    unit = common_unit((attribution.wall_ns, first))
    facts = [
        f"{attribution.status} {attribution.http_status or ''}".strip(),
        duration(attribution.wall_ns, res, unit),
    ]
    if attribution.streamed:
        said = duration(first, res, unit)
        facts.append("no token came" if first is None else f"first token {said}")
    else:
        facts.append("not streamed")
    if attribution.output_tokens is not None:
        facts.append(f"{count(attribution.output_tokens)} tokens out")
    if attribution.tpot_ns:
        facts.append(f"{duration(attribution.tpot_ns)} a token")
    return tuple(facts)


def notes(attribution: Attribution) -> Iterator[Note]:
    steps = (_error, _attempts, _dominant, _unsplit, _stalls, _times, _tokens, _pace, _load)
    for step in (*steps, _reported, _connection, _flags):
        yield from step(attribution)


def _error(attribution: Attribution) -> Iterable[Note]:
    error = attribution.error
    if error is not None:
        yield Note(label="error", lines=(_trouble(attribution.http_status, error),), tone="bad")
    elif attribution.status == "cut":
        text = "the stream ended before its terminal event"
        yield Note(label="cut", lines=(text,), tone="bad")
    elif attribution.status == "cancelled":
        yield Note(label="cancelled", lines=("by the caller",), tone="warn")


def _trouble(status: int | None, error: ErrorInfo) -> str:
    """An answer that refuses is no silence: nothing was waited for."""
    if status is not None and not 200 <= status < 300:
        kind = "" if error.type == f"http_{status}" else f" ({error.type})"
        return f"the server answered {status}{kind}"
    return f"{error.type}, while waiting for {phase(error.phase)}"


def _attempts(attribution: Attribution) -> Iterable[Note]:
    if len(attribution.attempts) < 2:
        return
    words = []
    tries = attribution.attempts
    unit = common_unit(ns for attempt in tries for ns in (attempt.ns, attempt.backoff_ns))
    for attempt in tries:
        text = f"{attempt.status or 'no answer'} after {duration(attempt.ns, 1, unit)}"
        if attempt.backoff_ns:
            text += f", then a wait of {duration(attempt.backoff_ns, 1, unit)}"
        words.append(text)
    yield Note(label="attempts", lines=tuple(words), tone="warn")


def _dominant(attribution: Attribution) -> Iterable[Note]:
    shares = {share.name: share for share in attribution.segments}
    if attribution.dominant is not None:
        share = shares[attribution.dominant]
        size = percent(share.ns, attribution.wall_ns)
        owned = f"; owner: {share.owner}" if share.owner not in ("", "-") else ""
        lines = [f"{share.name}, {size} of the call{owned}"]
        if share.lever not in ("", "-"):
            lines.append(f"lever: {share.lever}")
        yield Note(label="dominant", lines=tuple(lines), tone="strong")
        return
    names = " or ".join(attribution.dominant_candidates) or UNKNOWN
    lines = [f"open: {names} (the unsplit time could decide)"]
    lines += [_lever_line(shares[name]) for name in attribution.dominant_candidates]
    yield Note(label="dominant", lines=tuple(line for line in lines if line), tone="strong")


def _lever_line(share: SegmentShare) -> str:
    if share.lever in ("", "-"):
        return ""
    return f"if {share.name}: {share.owner}; {share.lever}"


def _unsplit(attribution: Attribution) -> Iterable[Note]:
    """Each candidate set with its sum, then once each what would split it."""
    sums: dict[tuple[Segment, ...], int] = {}
    ways: list[str] = []
    for item in attribution.unsplit:
        sums[item.candidates] = sums.get(item.candidates, 0) + item.ns
        ways += [way for way in item.would_split if way not in ways]
    res = max(1, attribution.instrument.bound_ns)
    unit = common_unit(sums.values())
    said = [
        f"{duration(ns, res, unit)} {' | '.join(names)}" for names, ns in sums.items() if ns > 0
    ]
    if said:
        heads = ["would split it:"] + ["or:"] * len(ways)
        lines = [f"{head} {way}" for head, way in zip(heads, ways, strict=False)]
        text = f"{' · '.join(said)} (the sum is known, the split is not)"
        yield Note(label="unsplit", lines=(text, *lines), tone="warn")


def _stalls(attribution: Attribution) -> Iterable[Note]:
    unit = common_unit(ns for stall in attribution.stalls for ns in (stall.ns, stall.at_ns))
    lines = tuple(
        f"{duration(stall.ns, 1, unit)} without a byte at {duration(stall.at_ns, 1, unit)}:"
        f" {_cause(stall.cause)}"
        f"{f' (confidence {stall.confidence:.0%})' if stall.confidence else ''}"
        for stall in attribution.stalls
    )
    if lines:
        yield Note(label="stalls", lines=_few(lines, 4), tone="warn")


def _cause(cause: str) -> str:
    return CAUSES.get(cause, cause.replace("_", " "))


def _few(lines: tuple[str, ...], most: int) -> tuple[str, ...]:
    if len(lines) <= most:
        return lines
    return (*lines[: most - 1], f"and {len(lines) - most + 1} more")


def _times(attribution: Attribution) -> Iterable[Note]:
    res = max(1, attribution.instrument.bound_ns)
    stamps: list[tuple[str, Ns | None]] = [
        ("sent", attribution.sent_ns),
        ("headers", attribution.headers_ns),
        ("first byte", attribution.first_byte_ns),
        ("first token", attribution.first_token_ns),
        ("first visible token", attribution.first_visible_token_ns),
    ]
    if attribution.first_visible_token_ns == attribution.first_token_ns:
        stamps.pop()
    unit = common_unit(ns for _, ns in stamps)
    known = [f"{name} {duration(ns, res, unit)}" for name, ns in stamps if ns is not None]
    if known:
        yield Note(label="times", lines=(" · ".join(known),))


def _tokens(attribution: Attribution) -> Iterable[Note]:
    if attribution.input_tokens is None and attribution.output_tokens is None:
        if attribution.status == "complete":
            yield Note(label="tokens", lines=("unknown: the server sent no usage",))
        return
    said = f"{count(attribution.input_tokens)} in"
    inner = [
        f"{count(number)} {what}"
        for number, what in (
            (attribution.cached_tokens, "cached"),
            (attribution.cache_write_tokens, "written to the cache"),
        )
        if number is not None
    ]
    said += f" ({', '.join(inner)})" if inner else ""
    said += f" · {count(attribution.output_tokens)} out"
    if attribution.reasoning_tokens:
        said += f" ({count(attribution.reasoning_tokens)} reasoning)"
    if attribution.max_output_tokens is not None:
        said += f" of at most {count(attribution.max_output_tokens)}"
    if attribution.finish_reason:
        said += f" · finish: {attribution.finish_reason}"
    yield Note(label="tokens", lines=(said,))


def _pace(attribution: Attribution) -> Iterable[Note]:
    said = []
    itl = attribution.itl
    gaps = (itl.p50_ns, itl.p95_ns, itl.max_ns) if itl is not None else ()
    unit = common_unit((attribution.tpot_ns, *gaps))
    if attribution.tpot_ns:
        said.append(f"TPOT {duration(attribution.tpot_ns, 1, unit)}")
    if itl is not None and itl.max_ns == 0:
        said.append("unknown: all tokens came in one read")
    elif itl is not None:
        said.append(
            f"gaps between {itl.unit}s p50 {duration(itl.p50_ns, 1, unit)},"
            f" p95 {duration(itl.p95_ns, 1, unit)}, max {duration(itl.max_ns, 1, unit)} (n {itl.n})"
        )
    if attribution.tokens_per_chunk is not None:
        said.append(f"{attribution.tokens_per_chunk:.1f} tokens a chunk")
    if said:
        yield Note(label="pace", lines=(" · ".join(said),))


def _load(attribution: Attribution) -> Iterable[Note]:
    load = attribution.load_excess
    if load is not None:
        half = (load.high_ns - load.low_ns) // 2
        yield Note(
            label="load",
            lines=(
                f"{duration(load.ns, half)} above the unloaded floor of"
                f" {duration(load.floor_ns, half)} ({load.provenance}, n {load.n})",
            ),
        )


def _reported(attribution: Attribution) -> Iterable[Note]:
    by_source: dict[str, list[str]] = {}
    unit = common_unit(item.ns for item in attribution.reported)
    for item in attribution.reported:
        said = f"{item.field} {duration(item.ns, 1, unit)}"
        by_source.setdefault(item.source, []).append(said)
    lines = tuple(f"{source}: {', '.join(said)}" for source, said in by_source.items())
    if lines:
        yield Note(label="reported", lines=lines)


def _connection(attribution: Attribution) -> Iterable[Note]:
    connection = attribution.connection
    said = []
    if connection.reused is not None:
        said.append("reused" if connection.reused else "new")
    said += [text for text in (connection.http, connection.peer) if text]
    if attribution.in_flight:
        said.append(f"{counted(attribution.in_flight, 'other call')} in flight")
    if said:
        yield Note(label="connection", lines=(" · ".join(said),))


def _flags(attribution: Attribution) -> Iterable[Note]:
    if attribution.flags:
        yield Note(label="flags", lines=tuple(flag(name) for name in attribution.flags))
