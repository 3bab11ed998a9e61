"""Tags and turns follow the code that makes a call, and nothing else."""

import asyncio
import contextlib
import contextvars
import sys
import threading
from collections.abc import AsyncIterator
from types import ModuleType, SimpleNamespace

import pytest

from latscope.middleware.context import Context, snapshot, tags, turn


def test_outside_any_block_a_call_inherits_nothing() -> None:
    assert snapshot() == Context(tags={}, turn=None, trace=None)


def test_an_inner_block_adds_to_the_outer_one_and_overrides_it() -> None:
    """Values become text; leaving a block restores what was before, also after an exception."""
    with tags(team="search", user=1):
        with contextlib.suppress(KeyError), tags(team="ads", step="2"):
            assert snapshot().tags == {"team": "ads", "user": "1", "step": "2"}
            raise KeyError
        assert snapshot().tags == {"team": "search", "user": "1"}
    assert snapshot().tags == {}


def test_a_turn_has_the_given_id_or_a_fresh_one() -> None:
    with turn("t1") as outer:
        assert outer == snapshot().turn == "t1"
        with turn() as inner:
            assert snapshot().turn == inner
        assert snapshot().turn == "t1"
    with turn() as first, turn() as second:
        assert first != second
    assert snapshot().turn is None


async def test_tasks_inherit_and_stay_apart() -> None:
    """A task begins with its creator's tags; what it sets no other task sees."""

    async def call(name: str) -> Context:
        with tags(call=name), turn(name):
            await asyncio.sleep(0)
            return snapshot()

    with tags(team="search"):
        seen = await asyncio.gather(call("a"), call("b"))
    assert [(c.tags, c.turn) for c in seen] == [
        ({"team": "search", "call": "a"}, "a"),
        ({"team": "search", "call": "b"}, "b"),
    ]


async def test_a_thread_run_for_a_task_inherits_a_bare_thread_does_not() -> None:
    seen: list[Context] = []
    with tags(team="search"):
        assert (await asyncio.to_thread(snapshot)).tags == {"team": "search"}
        thread = threading.Thread(target=lambda: seen.append(snapshot()))
        thread.start()
        thread.join()
    # From Python 3.14 on, a free-threaded build's threads do inherit.
    inherits = getattr(sys.flags, "thread_inherit_context", 0)
    assert seen[0].tags == ({"team": "search"} if inherits else {})


async def test_a_block_left_from_another_context_raises_nothing() -> None:
    """An async generator that is closed elsewhere leaves its block there."""

    async def generator() -> AsyncIterator[str]:
        with tags(team="search"), turn("t"):
            yield "held open"

    held = generator()
    await asyncio.create_task(held.__anext__(), context=contextvars.Context())  # type: ignore[arg-type]
    await held.aclose()  # type: ignore[attr-defined]
    assert snapshot() == Context()


@pytest.mark.parametrize("valid", [True, False])
def test_the_current_span_becomes_the_calls_parent(
    valid: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of an OpenTelemetry the application has loaded, asked by its public interface only."""
    flags = SimpleNamespace(sampled=True)
    context = SimpleNamespace(is_valid=valid, trace_id=0xABC, span_id=0xDEF, trace_flags=flags)
    loaded = ModuleType("opentelemetry.trace")
    span = SimpleNamespace(get_span_context=lambda: context)
    loaded.get_current_span = lambda: span  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", loaded)
    trace = snapshot().trace
    assert (trace is not None) == valid
    if trace is not None:
        assert (trace.trace_id, trace.parent_id) == ("0" * 29 + "abc", "0" * 13 + "def")
        assert len(trace.span_id) == 16
        assert trace.span_id != "0" * 16
