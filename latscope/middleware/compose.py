"""The composition: capture's hook, what a call inherits, the worker, the steps, the sinks."""

import inspect
import io
import os
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from latscope.errors import UsageError
from latscope.export.jsonl import JSONLSink
from latscope.export.ring import RingSink
from latscope.middleware import worker
from latscope.middleware.context import snapshot
from latscope.recording import Recording, Sample

if TYPE_CHECKING:
    from latscope.middleware.pipeline import Plan

Client = TypeVar("Client")
Sink: TypeAlias = Any
"""Something callable with a recording, or with a method `write` that takes one."""

Write: TypeAlias = Callable[[Recording], Iterator[None]]
"""A sink made safe: writes in short steps and never raises."""

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
) -> Client:
    """Records every call of `client` from now on; gives back the same object.

    client: an OpenAI, Anthropic, httpx or httpx2 client, sync or async. sink: where finished
    recordings go, one or several: a callable or an object with `write`, called from a background
    thread, one at a time; without one the last 1,000 stay in memory for `recent`. The environment
    variable LATSCOPE_FILE adds a JSONL file. tags: added to every recording of this client.
    keep_content: keep the text of prompts and answers (never secrets). keep_headers: response
    headers kept besides the usual ones. sample: the share of calls kept, 0 to 1. prefix: hash the
    prompt's prefix, to see what a prefix cache could have saved; with the key in the user's file,
    or with the one given.

    A client that is instrumented already is instrumented anew: the last call holds.

    Raises InstrumentError when the client's transport cannot be wrapped, UsageError for arguments
    that make no sense. Once instrumented, nothing that latscope does raises into a call.
    """
    # Not at the module's head: `import latscope` and `latscope run` load no third-party module
    # before there is a client, and the worker must not find them missing at the first call.
    from latscope.capture.instrument import attach, detach
    from latscope.middleware.pipeline import Plan

    if not 0 <= sample <= 1:
        raise UsageError(f"sample is a share from 0 to 1, not {sample}")
    plan = Plan(
        keep_content=keep_content,
        keep_headers=tuple(header.lower() for header in keep_headers),
        key=_key(prefix),
        tags={name: str(value) for name, value in (tags or {}).items()},
    )
    writes = [_safely(each) for each in _sinks(sink)]

    def done(recording: Recording) -> None:
        if _chosen(recording.call_id, sample):
            worker.current().submit(lambda: _work(recording, plan, sample, writes))

    detach(client)
    attach(client, done=done, context=snapshot)
    _clients.add(client)
    return client


def ensure(client: object) -> None:
    """Records `client` as `instrument` does by default, unless it is recorded already; then an SDK
    client around it still gets its own entry as the zero of its calls."""
    from latscope.capture.instrument import attach, attached

    if attached(client):
        attach(client, done=lambda recording: None)  # the tap that is there stays
    else:
        instrument(client)


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


worker.before_stop.append(_settle)


def _work(recording: Recording, plan: "Plan", rate: float, writes: list[Write]) -> Iterator[None]:
    from latscope.middleware.pipeline import process

    recording = yield from process(recording, plan)
    if rate < 1:
        recording = replace(recording, sample=Sample(rate=rate, why="random"))
    for write in writes:
        yield from write(recording)


def _chosen(call_id: str, rate: float) -> bool:
    # By the call's own random id: no random state of ours or of the application's is touched.
    return rate >= 1 or zlib.crc32(call_id.encode()) < rate * 2**32


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


def _safely(sink: Sink) -> Write:
    """The sink as short steps that never raise; its first failure in a row is logged."""
    steps = _steps(sink)
    failing = False

    def write(recording: Recording) -> Iterator[None]:
        nonlocal failing
        try:
            yield from steps(recording)
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


def _steps(sink: Sink) -> Write:
    if isinstance(sink, JSONLSink):
        sink.before_close = flush
        return sink.write_slowly
    call = getattr(sink, "write", sink)
    if not callable(call) or isinstance(sink, io.IOBase) or _is_async(call):
        raise UsageError(f"a sink is called with a recording, or has write(recording): {sink!r}")

    def steps(recording: Recording) -> Iterator[None]:
        call(recording)
        yield

    return steps
