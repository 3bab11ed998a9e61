"""From what capture hands over to what a sink may see: a list of steps over one recording.

A step is a generator: it takes a recording and the plan, yields wherever the thread may let others
run, and returns the recording it made. A step that raises is named in `broken` and the others go
on; when masking itself raises, everything it would have masked is left out instead.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from pydantic_core import from_json

from latscope import steps
from latscope.middleware.context import Context
from latscope.protocols import detect
from latscope.protocols.mask import mask_steps
from latscope.protocols.prefix import prefix
from latscope.recording import Recording
from latscope.wire import tcp_info
from latscope.wire.body import decode_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What `instrument` was asked for, as far as the steps need it."""

    mask: bool = True
    bodies: bool = True
    """The bodies are still to be masked; else that was done while they came."""
    keep_content: bool = False
    keep_headers: tuple[str, ...] = ()
    key: bytes | None = field(default=None, repr=False)
    """Key of the prefix hashes; null when none are wanted."""
    tags: Mapping[str, str] = field(default_factory=dict)


_ID = re.compile(r"[A-Za-z0-9_.:\-]{1,128}").fullmatch

Slowly: TypeAlias = steps.Steps[Recording]
Step: TypeAlias = Callable[[Recording, Plan], Slowly]


def finish(
    recording: Recording,
    *,
    keep_content: bool = False,
    keep_headers: tuple[str, ...] = (),
    mask: bool = True,
) -> Recording:
    """All steps at once, in the calling thread: what a sink would be given of `recording`."""
    plan = Plan(mask=mask, keep_content=keep_content, keep_headers=tuple(keep_headers))
    return steps.finish(process(recording, plan))


def process(recording: Recording, plan: Plan) -> Slowly:
    for step in STEPS:
        try:
            recording = yield from step(recording, plan)
        except Exception as error:
            # The type only: a message may quote what it stumbled over.
            fault = f"{step.__name__.strip('_')}: {type(error).__name__}"
            recording = replace(recording, broken=(*recording.broken, fault))
            if step is _mask:
                recording = _blank(recording)
    return _let_go(recording)


def _decode(recording: Recording, plan: Plan) -> Slowly:
    """Wire payload to `body`."""
    attempts, problems = [], []
    for attempt in recording.attempts:
        decoded, problem = yield from decode_steps(attempt)
        attempts.append(decoded)
        if problem is not None:
            problems.append(problem)
        yield
    broken = (*recording.broken, *problems)
    return replace(recording, attempts=tuple(attempts), broken=broken)


def _connections(recording: Recording, plan: Plan) -> Slowly:
    """The kernel's snapshots of each attempt's connection."""
    attempts = []
    for attempt in recording.attempts:
        snapshots = [tcp_info.decode(raw, at, at_ns) for at, at_ns, raw in attempt.tcp_raw]
        known = tuple(snapshot for snapshot in snapshots if snapshot is not None)
        attempts.append(replace(attempt, tcp_info=(*attempt.tcp_info, *known)))
        yield
    return replace(recording, attempts=tuple(attempts))


def _request(recording: Recording, plan: Plan) -> Slowly:
    """The request as parsed; a body that is no JSON object (an upload) leaves it null."""
    if not recording.sent:
        return recording
    yield
    try:
        request = from_json(recording.sent)
    except ValueError:
        return recording
    yield
    if not isinstance(request, dict):
        return recording
    return replace(
        recording,
        request=request,
        previous_response_id=_id(request.get("previous_response_id")),
        session=recording.session or _id(_conversation(request)),
    )


def _conversation(request: Mapping[str, object]) -> object:
    """The conversation a Responses request names, by its id or as an object that holds it."""
    named = request.get("conversation")
    return named.get("id") if isinstance(named, Mapping) else named


def _id(value: object) -> str | None:
    """An identifier as it is; null for anything that could be prose."""
    return value if isinstance(value, str) and _ID(value) else None


def _prefix(recording: Recording, plan: Plan) -> Slowly:
    """The prompt's prefix as keyed hashes, where they are wanted."""
    if plan.key is None or recording.request is None:
        return recording
    dialect = detect(recording.target.path)
    api = "chat" if dialect is None else dialect.api
    yield
    return replace(recording, prefix=prefix(recording.request, api, plan.key))


def _inherit(recording: Recording, plan: Plan) -> Slowly:
    """Tags of the client, then of the place the call was made from; turn and trace."""
    context = recording.context if isinstance(recording.context, Context) else Context()
    yield
    return replace(
        recording,
        call_id=context.call_id or recording.call_id,
        tags={**recording.tags, **plan.tags, **context.tags},
        turn=context.turn if context.turn is not None else recording.turn,
        trace=context.ids or recording.trace,
    )


def _mask(recording: Recording, plan: Plan) -> Slowly:
    if not plan.mask:
        return recording
    bodies = [None if plan.bodies else attempt.body for attempt in recording.attempts]
    if not plan.bodies:
        bare = tuple([replace(attempt, body=None) for attempt in recording.attempts])
        recording = replace(recording, attempts=bare)
    masked = yield from mask_steps(
        recording, keep_headers=plan.keep_headers, keep_content=plan.keep_content
    )
    if plan.bodies:
        return masked
    attempts = map(lambda attempt, body: replace(attempt, body=body), masked.attempts, bodies)
    return replace(masked, attempts=tuple(attempts))


def _blank(recording: Recording) -> Recording:
    """Times, sizes and status, and nothing anybody wrote."""
    attempts = [
        replace(attempt, headers=(), body=None, events=None, encoding=None, error_type=None)
        for attempt in recording.attempts
    ]
    return replace(
        recording,
        target=replace(recording.target, host=recording.target.host.rpartition("@")[2], path=""),
        end=replace(recording.end, detail=None),
        attempts=tuple(attempts),
        request=None,
        masked=True,
    )


def _let_go(recording: Recording) -> Recording:
    """Without what lives between capture and here only."""
    attempts = [replace(attempt, wire=None, tcp_raw=()) for attempt in recording.attempts]
    return replace(recording, attempts=tuple(attempts), sent=None, context=None)


STEPS: tuple[Step, ...] = (_decode, _connections, _request, _prefix, _inherit, _mask)
