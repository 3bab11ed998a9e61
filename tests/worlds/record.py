"""A world as its client recorded it: what the attribution is given, and nothing else."""

import json

from latscope.recording import (
    Attempt,
    Connection,
    End,
    Mark,
    Read,
    Recording,
    Target,
    TcpInfo,
)
from latscope.units import US, Ns
from tests.calls import PATHS
from tests.worlds.case import Case
from tests.worlds.truth import ended_itself, wall
from tests.worlds.world import Try, World

NEAR, FAR = "10.0.0.7:8000", "203.0.113.9:443"


def recording(world: World) -> Recording:
    case, stop = world.case, world.stop
    stopped = stop is not None and not ended_itself(world)
    marks = [Mark("entry", 0)]
    end = End()
    if stopped and case.ending == "cancelled":
        assert stop is not None
        marks.append(Mark("stop", stop))
        end = End(reason="cancelled", detail="asyncio.exceptions.CancelledError")
    elif stopped or (case.ending == "cut" and not ended_itself(world)):
        end = End(reason="error", detail=_error(case))
    marks.append(Mark("end", wall(world)))
    return Recording(
        call_id="0" * 32,
        started_at="2026-11-29T12:00:00.000000Z",
        target=Target(
            scheme="http",
            host="api.example.com" if case.path.far else "10.0.0.7",
            port=8000,
            path=PATHS[case.api],
        ),
        end=end,
        marks=tuple(marks),
        attempts=(*(_failed(world, tried) for tried in world.tries), _answered(world)),
        request_bytes=case.client.body,
        request={"model": "tiny", "stream": case.stream},
    )


def _error(case: Case) -> str:
    return "httpx2.ReadTimeout" if case.ending == "timeout" else "httpx2.RemoteProtocolError"


def _failed(world: World, tried: Try) -> Attempt:
    """Its last stamp is the end of its body, or the error."""
    failed = tried.failed
    marks = [Mark("entry", tried.entry)]
    if failed.status is None:
        marks += [Mark("connect.started", tried.transport), Mark("error", tried.last)]
        return Attempt(marks=tuple(marks), error_type=failed.error)
    asked = (("retry-after", f"{failed.retry_after:g}"),) if failed.retry_after is not None else ()
    marks += [
        Mark("request.started", tried.transport),
        Mark("request.headers", tried.transport),
        Mark("request.sent", tried.transport),
        Mark("headers", tried.last),
        Mark("body.end", tried.last),
    ]
    body = json.dumps({"error": {"type": "refused", "message": "no"}}).encode()
    return Attempt(
        marks=tuple(marks),
        status=failed.status,
        headers=(("content-type", "application/json"), ("server", "uvicorn"), *asked),
        reads=(Read(tried.transport, tried.last, len(body), len(body)),),
        body=body,
    )


def _answered(world: World) -> Attempt:
    case, answer, reading, stop = world.case, world.answer, world.reading, world.stop
    if ended_itself(world):
        stop = None
    marks = list(world.sending.marks)
    responded = answer.head is not None and _by(answer.head, stop)
    if responded and answer.head is not None:
        marks.append(Mark("headers", answer.head))
    reads = tuple(read for read in reading.reads if _by(read.got_ns, stop))
    error = None
    if stop is None and case.ending != "cut":
        marks.append(Mark("body.end", reading.ended))
    elif stop is None or case.ending == "timeout":
        error = _error(case)
        marks.append(Mark("error", reading.ended if stop is None else stop))
    elif stop is not None:
        error = "asyncio.exceptions.CancelledError"
        marks.append(Mark("error", stop))
    return Attempt(
        marks=tuple(mark for mark in marks if _by(mark.ns, stop)),
        connection=Connection(
            reused=case.client.connect is None,
            http="HTTP/1.1",
            peer=FAR if case.path.far else NEAR,
        ),
        status=_status(case) if responded else None,
        headers=_headers(case) if responded else (),
        reads=reads,
        body=answer.body[: reads[-1].body_offset if reads else 0] if responded else None,
        tcp_info=_tcp_info(case),
        error_type=error,
    )


def _by(at: Ns, stop: Ns | None) -> bool:
    return stop is None or at <= stop


def _status(case: Case) -> int:
    return case.status if case.ending == "refused" else 200


def _headers(case: Case) -> tuple[tuple[str, str], ...]:
    streamed = case.stream and case.ending != "refused"
    kind = "text/event-stream" if streamed else "application/json"
    hop = case.path.hop != "none" and case.path.announced
    via = (("via", "1.1 hop"),) if hop else ()
    return (("content-type", kind), ("server", "uvicorn"), *via)


def _tcp_info(case: Case) -> tuple[TcpInfo, ...]:
    if not case.path.known:
        return ()
    return (TcpInfo(at="connect", min_rtt_ns=round(case.path.rtt * 1000) * US),)
