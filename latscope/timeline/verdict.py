"""How a call ended: complete, cut, error or cancelled; and where its wall time ends."""

from latscope.recording import Attempt, Recording
from latscope.timeline.exchanges import TIMEOUTS
from latscope.timeline.model import Failure, Verdict
from latscope.timeline.stream import Stream
from latscope.units import Ns

STOPPED = frozenset({"closed", "cancelled", "abandoned"})
POOL_TIMEOUT = "PoolTimeout"
CORRUPT = "encoding: corrupt"
"""How wire.codings begins to say that a body is not in the coding it claims."""


def end_of(recording: Recording, stream: Stream | None) -> Ns:
    """The call's end (design: Zero and end): the read that completes the terminal event; the whole
    body when the answer is not streamed; else EOF, the error or the caller's stop."""
    if stream is not None:
        done = next((event.ns for event in stream.telling if event.kind == "done"), None)
        if done is not None and stream.streamed:
            return done
        if not stream.streamed and stream.reads and recording.end.reason == "complete":
            return stream.reads[-1].got_ns
    stop = recording.mark("stop")
    if stop is not None and recording.end.reason in STOPPED:
        return max(stop, _last_read(stream))
    for name in ("body.end", "error"):
        at = recording.attempts[-1].mark(name) if recording.attempts else None
        if at is not None:
            return max(at, _last_read(stream))
    return recording.mark("end") or recording.last_ns


def judge(recording: Recording, stream: Stream | None) -> tuple[Verdict, Failure | None]:
    """The verdict, and for everything but complete and cancelled what failed and when."""
    attempt = recording.attempts[-1] if recording.attempts else Attempt()
    status = attempt.status
    if stream is None or status is None:
        return _unanswered(recording, attempt)
    if not 200 <= status < 300:
        return "error", Failure(type=_stated(stream) or f"http_{status}", phase="headers")
    stated = _stated(stream)
    if stated:
        return "error", Failure(type=stated, phase=_waiting(stream))
    corrupt = any(note.startswith(CORRUPT) for note in recording.broken)
    if _finished(stream, attempt) and not (corrupt and stream.unreadable):
        return "complete", None
    if corrupt:
        return "error", Failure(type="undecodable_body", phase=_waiting(stream))
    if recording.end.reason in STOPPED:
        return "cancelled", None
    error = attempt.error_type or (
        recording.end.detail if recording.end.reason == "error" else None
    )
    if error and error.endswith(TIMEOUTS):
        return "error", Failure(type=error, phase=_waiting(stream))
    return _stopped_short(stream, error)


def _stopped_short(stream: Stream, error: str | None) -> tuple[Verdict, Failure]:
    """The body ended, yet not by its protocol: cut; or it was never an answer: error."""
    if error:
        return "cut", Failure(type=error, phase=_waiting(stream))
    if not stream.reads:
        return "cut", Failure(type="empty_body", phase="first_token")
    known = any(event.kind not in ("unknown", "comment") for event in stream.events)
    if stream.dialect is not None and not known:
        return "error", Failure(type="unexpected_body", phase="first_token")
    return "cut", Failure(type="no_terminal_event", phase=_waiting(stream))


def _unanswered(recording: Recording, attempt: Attempt) -> tuple[Verdict, Failure | None]:
    if recording.end.reason in STOPPED:
        return "cancelled", None
    error = attempt.error_type or recording.end.detail or "no_response"
    return "error", Failure(type=error, phase=phase_of(attempt, error))


def phase_of(attempt: Attempt, error: str) -> str:
    """What an attempt without an answer was waiting for when it ended."""
    if error.endswith(POOL_TIMEOUT):
        return "pool_wait"
    if attempt.connection is not None and attempt.connection.unseen:
        return "headers"  # as far as anybody can tell
    steps = (
        ("request.sent", "headers"),
        ("request.started", "upload"),
        ("tls.started", "tls"),
        ("connect.started", "connect"),
    )
    return next((phase for mark, phase in steps if attempt.mark(mark) is not None), "pool_wait")


def _stated(stream: Stream) -> str:
    """The error the server stated in the body, by type or code; empty when it stated none."""
    found = next((event for event in stream.telling if event.kind == "error"), None)
    return "" if found is None else found.name or found.code or "error"


def _finished(stream: Stream, attempt: Attempt) -> bool:
    """A terminal event, or a finish reason for every choice that spoke; for a dialect not known
    or a body that could not be decoded, a body read to its end."""
    if stream.dialect is None or (stream.unreadable and not attempt.error_type):
        return bool(stream.reads) and attempt.mark("body.end") is not None
    if any(event.kind == "done" for event in stream.telling):
        return True
    spoke = {event.choice for event in stream.events if event.size > 0}
    ended = {event.choice for event in stream.telling if event.kind == "finish"}
    return bool(ended) and spoke <= ended


def _waiting(stream: Stream) -> str:
    return "stream" if any(event.size > 0 for event in stream.events) else "first_token"


def _last_read(stream: Stream | None) -> Ns:
    return stream.reads[-1].got_ns if stream is not None and stream.reads else 0
