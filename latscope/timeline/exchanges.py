"""Attempts to exchanges: what each attempt waited for, how it ended, whom the next one waits on."""

from collections.abc import Iterable, Mapping
from itertools import accumulate

from latscope.recording import Attempt
from latscope.timeline.model import Exchange, Outcome, Phase, PhaseName
from latscope.units import MS, Ns, S, clamp

RATE_LIMITED = frozenset({429, 503, 529})
RETRYABLE = frozenset({408, 409})
AUTH_HOPS = frozenset({401, 407})

ONE_WRITE = 64 * 1024
"""A request body up to this size fits a socket's buffer: the kernel can have sent it all the moment
it was handed over, however late the thread that did so gets to stamp the end of the write."""

UPLOAD_TAIL: Ns = 25 * MS
"""How late that stamp may be for a larger body; stamps of 20 ms were seen on a busy machine."""

TIMEOUTS = ("ReadTimeout", "WriteTimeout", "TimeoutException", "APITimeoutError", "TimeoutError")


def exchanges(
    attempts: tuple[Attempt, ...], end_ns: Ns, request_bytes: int | None = None
) -> tuple[Exchange, ...]:
    """The attempts in order, each ending no later than the next begins, the last at `end_ns`.

    A call with no attempt (it never reached the transport) is one exchange spent waiting for it.
    """
    if not attempts:
        return (_exchange(Attempt(), 0, end_ns, last=True, request_bytes=None),)
    entries = [clamp(_begun(attempt), 0, end_ns) for attempt in attempts[1:]]
    starts = list(accumulate([0, *entries], max))  # attempts are sequential, whatever marks say
    found = []
    for index, attempt in enumerate(attempts):
        last = index == len(attempts) - 1
        limit = end_ns if last else starts[index + 1]
        stop = end_ns if last else clamp(_last_stamp(attempt), starts[index], limit)
        found.append(
            _exchange(attempt, starts[index], stop, last=last, request_bytes=request_bytes)
        )
    return tuple(found)


def _begun(attempt: Attempt) -> Ns:
    """When the SDK began the try, where it told (see middleware.anthropic); else the transport's
    entry. What lies between is the client's own, not the wait before the try."""
    told = attempt.mark("attempt")
    return (attempt.mark("entry") or 0) if told is None else told


def _exchange(
    attempt: Attempt, start: Ns, end: Ns, *, last: bool, request_bytes: int | None
) -> Exchange:
    marks = {mark.name: mark.ns for mark in reversed(attempt.marks)}  # of each name the first
    headers, sent = marks.get("headers"), marks.get("request.sent")
    ready = _ready(attempt, marks, end, request_bytes)
    ready = None if ready is None else clamp(ready, start, end)
    unseen = attempt.connection is not None and attempt.connection.unseen is True
    # Before the transport was asked, and that alone, is the client's own for sure.
    phases = (
        _unseen(clamp(marks.get("entry", 0), start, end), start, end)
        if unseen
        else _phases(marks, start, end, ready)
    )
    return Exchange(
        start_ns=start,
        end_ns=end,
        outcome="answered" if last else outcome(attempt),
        status=attempt.status,
        error_type=attempt.error_type,
        phases=phases,
        ready_ns=ready,
        sent_ns=None if sent is None else clamp(sent, start, end),
        headers_ns=None if headers is None else clamp(headers, start, end),
        retry_after_ns=retry_after(attempt.headers),
        unseen=unseen,
    )


def outcome(attempt: Attempt) -> Outcome:
    """How an attempt that was not the last one ended (design: Retries)."""
    status = attempt.status
    if status is None:
        timed_out = (attempt.error_type or "").endswith(TIMEOUTS)
        return "timed_out" if timed_out else "unreachable"
    if status in RATE_LIMITED:
        return "rate_limited"
    if 300 <= status < 400 or status in AUTH_HOPS:
        return "redirect"
    return "failed"


def refused(status: int | None) -> bool:
    """Whether a status owns its attempt by definition: come back later, or the server failed."""
    return status is not None and (status in RATE_LIMITED or status in RETRYABLE or status >= 500)


def retry_after(headers: Iterable[tuple[str, str]]) -> Ns | None:
    """`retry-after-ms` before `retry-after` in seconds; a date would need a wall clock: null."""
    found = dict(headers)
    for name, unit in (("retry-after-ms", MS), ("retry-after", S)):
        if name not in found:  # nearly every answer
            continue
        try:
            value = float(found[name])
        except ValueError:
            continue
        if 0 <= value < 1e9:
            return round(value * unit)
    return None


def _phases(marks: Mapping[str, Ns], start: Ns, end: Ns, ready: Ns | None) -> tuple[Phase, ...]:
    """Consecutive phases from `start` to `end`: each lasts until the next one begins, so that the
    microseconds a library spends between two events stay with the step they belong to."""
    bounds: list[tuple[PhaseName, Ns]] = [("pool_wait", start)]
    named: tuple[tuple[PhaseName, str], ...] = (
        ("connect", "connect.started"),
        ("tls", "tls.started"),
        ("upload", "request.started"),
    )
    for name, mark in named:
        at = marks.get(mark)
        if at is not None:
            bounds.append((name, clamp(at, bounds[-1][1], end)))
    if ready is not None:
        bounds.append(("wait", max(ready, bounds[-1][1])))
    elif "headers" in marks:
        bounds.append(("wait", bounds[-1][1]))  # no transport events: the whole is one wait
    edges = [at for _, at in bounds[1:]] + [end]
    return tuple(
        Phase(name=name, start_ns=at, end_ns=edge)
        for (name, at), edge in zip(bounds, edges, strict=True)
    )


def _unseen(entry: Ns, start: Ns, end: Ns) -> tuple[Phase, ...]:
    """The phases where the transport shows none: all it did is one wait."""
    return (
        Phase(name="pool_wait", start_ns=start, end_ns=entry),
        Phase(name="wait", start_ns=entry, end_ns=end),
    )


def _ready(
    attempt: Attempt, marks: Mapping[str, Ns], end: Ns, request_bytes: int | None
) -> Ns | None:
    """The earliest the server can have had the whole request: not before its headers were written,
    and for a body of more than one write not long before its end was, or could have been where
    the attempt ended without that stamp. Null when it cannot have had it. A refusal counts from
    the headers on, whatever the body (design: Retries)."""
    written, sent = marks.get("request.headers"), marks.get("request.sent")
    short = request_bytes is not None and request_bytes <= ONE_WRITE
    if sent is None:
        if written is None:
            return None
        known = request_bytes is not None and not short
        return max(written, end - UPLOAD_TAIL) if known else written
    floor = min(sent, written if written is not None else marks.get("entry", 0))
    return floor if short or refused(attempt.status) else max(floor, sent - UPLOAD_TAIL)


def _last_stamp(attempt: Attempt) -> Ns:
    stamps = [mark.ns for mark in attempt.marks if mark.name != "closed"]
    stamps += [read.got_ns for read in attempt.reads[-1:]]
    return max(stamps, default=0)
