"""The composition: capture's hook, what a call inherits, the worker, the steps, the sinks."""

import inspect
import io
import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from latscope.errors import UsageError
from latscope.export.jsonl import JSONLSink
from latscope.export.ring import RingSink
from latscope.middleware import tracing, worker
from latscope.recording import Recording
from latscope.units import S

if TYPE_CHECKING:
    from latscope.middleware.intake import Write

Client = TypeVar("Client")
Sink: TypeAlias = Any
"""Something callable with a recording, or with a method `write` that takes one."""

_ring = RingSink()
_files: dict[str, JSONLSink] = {}
_clients: "weakref.WeakSet[Any]" = weakref.WeakSet()


def instrument(
    client: Client,
    *,
    sink: Sink | Sequence[Sink] | None = None,
    tags: Mapping[str, object] | None = None,
    keep_content: bool = False,
    keep_headers: Iterable[str] = (),
    sample: float = 1.0,
    prefix: bool | bytes = False,
    propagate: bool | None = None,
    slow: float | None = None,
    max_body: int = 4 * 1024 * 1024,
) -> Client:
    """Records every call of `client` from now on; gives back the same object.

    client: an OpenAI, Anthropic, httpx or httpx2 client, sync or async. sink: where finished
    recordings go, one or several: a callable or an object with `write`, called from a background
    thread, one at a time; without one the last 1,000 stay in memory for `recent`. The environment
    variable LATSCOPE_FILE adds a JSONL file. tags: added to every recording of this client.
    keep_content: keep the text of prompts and answers (never secrets). keep_headers: response
    headers kept besides the usual ones. sample: the share of calls kept, 0 to 1; calls that failed
    are kept whatever it is, and those that took `slow` seconds or more. max_body: bytes kept of one
    answer, masked; of a longer one the events' places, kinds and tokens stay. prefix: hash the
    prompt's prefix, to see what a prefix cache could have saved; with the key in the user's file,
    or with the one given. propagate: send `traceparent` and `X-Request-Id` with every request that
    has none and is not signed, so that a server's own spans join the call; by default only with a
    sink that traces (OTelSink).

    A client that is instrumented already is instrumented anew: the last call holds.

    Raises InstrumentError when the client's transport cannot be wrapped, UsageError for arguments
    that make no sense. Once instrumented, nothing that latscope does raises into a call.
    """
    # Not at the module's head: `import latscope` and `latscope run` load no third-party module
    # before there is a client, and the worker must not find them missing at the first call.
    from latscope.capture.instrument import attach, detach
    from latscope.middleware.intake import Intake, Sampling
    from latscope.middleware.pipeline import Plan

    if not 0 <= sample <= 1:
        raise UsageError(f"sample is a share from 0 to 1, not {sample}")
    if slow is not None and not slow >= 0:
        raise UsageError(f"slow is a time in seconds, not {slow}")
    if max_body < 0:
        raise UsageError(f"max_body is a number of bytes, not {max_body}")
    plan = Plan(
        keep_content=keep_content,
        keep_headers=tuple(header.lower() for header in keep_headers),
        key=_key(prefix),
        tags={name: str(value) for name, value in (tags or {}).items()},
    )
    sinks = _sinks(sink)
    writes = [_safely(each) for each in sinks]
    hooks = tracing.hooks(client, sinks, propagate)
    sampling = Sampling(sample, None if slow is None else round(slow * S))
    intake = Intake(plan, sampling, writes, max_body)
    detach(client)
    attach(client, done=_nobody, outgoing=hooks.outgoing, context=hooks.context, intake=intake)
    _clients.add(client)
    worker.current().get_ready()  # a call may still be open when the process ends
    return client


def ensure(client: object) -> None:
    """Records `client` as `instrument` does by default, unless it is recorded already; then an SDK
    client around it still gets its own entry as the zero of its calls."""
    from latscope.capture.instrument import attach, attached

    if attached(client):
        attach(client, done=_nobody)  # the tap that is there stays
    else:
        instrument(client)


def pause() -> None:
    """From now on no call is recorded, of any client, until `resume`. Calls that are open go on."""
    from latscope.capture import tap

    tap.pause()


def resume() -> None:
    """Ends a `pause`."""
    from latscope.capture import tap

    tap.resume()


def uninstrument(client: Client) -> Client:
    """Stops recording `client`; gives back the same object. Harmless when it is not recorded."""
    from latscope.capture.instrument import detach

    detach(client)
    return client


def recent(n: int | None = None) -> list[Recording]:
    """The last calls of clients without a sink, oldest first, at most `n` of them, masked.

    Waits, as `flush` does, for calls that are over but not yet processed.
    """
    flush()
    return _ring.recent(n)


def flush(timeout: float = 5.0) -> bool:
    """Waits until every finished call has reached its sinks; false when `timeout` s were not
    enough. Synchronous, for runtimes that freeze between requests. A failed attempt that still
    waits for a retry nobody announced is taken for finished."""
    _settle()
    return worker.current().flush(timeout)


def _settle() -> None:
    from latscope.capture.instrument import settle

    for client in list(_clients):
        settle(client)


def _end() -> None:
    from latscope.capture.tap import end_all

    end_all()


worker.before_stop.append(_end)


def _nobody(recording: Recording) -> None:
    """The intake has it."""


def _key(prefix: bool | bytes) -> bytes | None:
    if isinstance(prefix, bytes):
        if not prefix:
            raise UsageError("the key for prefix hashes is empty")
        return prefix
    if not prefix:
        return None
    from latscope.documents.keyfile import key

    return key()


def _sinks(sink: Sink | Sequence[Sink] | None) -> list[Sink]:
    if sink is None:
        sinks: list[Sink] = [_ring]
    else:
        sinks = list(sink) if isinstance(sink, list | tuple) else [sink]
    path = os.environ.get("LATSCOPE_FILE")
    if path:
        path = os.path.abspath(path)
        if not any(isinstance(each, JSONLSink) and str(each.path) == path for each in sinks):
            sinks.append(_files.setdefault(path, JSONLSink(path)))
    return sinks


def _safely(sink: Sink) -> "Write":
    """The sink as short steps that never raise; its first failure in a row is logged."""
    steps = _steps(sink)
    failing = False

    def write(recording: Recording, context: object) -> Iterator[None]:
        nonlocal failing
        try:
            yield from steps(recording, context)
        except GeneratorExit:
            raise
        except BaseException as error:  # one that calls sys.exit must not cost the others theirs
            if not failing:
                worker.warn("a sink fails, recordings are lost: %s", type(error).__name__)
            failing = True
        else:
            failing = False

    return write


def _is_async(call: Any) -> bool:
    return any(map(inspect.iscoroutinefunction, (call, getattr(call, "__call__", None))))  # noqa: B004


def _steps(sink: Sink) -> "Write":
    if isinstance(sink, JSONLSink):
        sink.before_close = flush
    slowly = getattr(sink, "write_slowly", None)
    if callable(slowly):
        return lambda recording, _: slowly(recording)
    if tracing.traces(sink):
        return lambda recording, context: sink.finish(recording, getattr(context, "begun", None))
    call = getattr(sink, "write", sink)
    if not callable(call) or isinstance(sink, io.IOBase) or _is_async(call):
        raise UsageError(f"a sink is called with a recording, or has write(recording): {sink!r}")

    def steps(recording: Recording, context: object) -> Iterator[None]:
        call(recording)
        yield

    return steps
