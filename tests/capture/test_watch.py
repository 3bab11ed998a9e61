"""Late loops and collections while calls are open; and nothing left of it after the last one."""

import asyncio
import contextlib
import contextvars
import gc
import importlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest
import trio

from latscope.capture import watch
from latscope.capture.instrument import attach
from latscope.capture.watch import BEAT, KEEP, Watch, keep, within
from latscope.recording import Recording
from latscope.units import MS, Ns
from tests.capture.scripted import LAST, Reply, answer, chunk, serving, stream_head


class Clock:
    """Time as the test tells it."""

    def __init__(self) -> None:
        self.ns: Ns = 10**9

    def __call__(self) -> Ns:
        return self.ns


class Timer:
    def __init__(self, callback: Callable[[], None], due: Ns) -> None:
        self.callback, self.due, self.cancelled = callback, due, False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop that runs one timer when told to."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.running = True
        self.timers: list[Timer] = []

    def is_running(self) -> bool:
        return self.running

    def call_later(self, delay: float, callback: Callable[[], None], context: Any) -> Timer:
        assert len(context) == 0
        self.timers.append(Timer(callback, self.clock.ns + round(delay * 1e9)))
        return self.timers[-1]

    @property
    def pending(self) -> list[Timer]:
        return [timer for timer in self.timers if not timer.cancelled]

    def run(self, late: Ns) -> None:
        """The pending timer, so much later than it was due."""
        (timer,) = self.pending
        self.timers.remove(timer)
        self.clock.ns = timer.due + late
        timer.callback()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    told = Clock()
    monkeypatch.setattr(watch, "now", told)
    return told


@pytest.fixture
def loop(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Loop:
    made = Loop(clock)
    monkeypatch.setattr(watch, "_running_loop", lambda: made)
    return made


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Whatever a test does, the last call takes all of it along."""
    before = list(gc.callbacks)
    yield
    assert gc.callbacks == before
    assert list(watch._open) == []
    assert watch._beats == {}


def opened(loop: bool = True) -> Watch:
    made = Watch()
    made.open(loop=loop)
    return made


def test_a_beat_that_is_late_is_noted_by_every_open_call(clock: Clock, loop: Loop) -> None:
    """(due, how late); 5 ms are an idle loop's own."""
    start = clock.ns
    one, two = opened(), opened()
    assert len(loop.pending) == 1
    loop.run(late=5 * MS)
    loop.run(late=120 * MS)
    two.close()
    loop.run(late=7 * MS)
    second = start + BEAT + 5 * MS + BEAT
    third = second + 120 * MS + BEAT
    assert sorted(one.late) == [(7 * MS, third), (120 * MS, second)]
    assert two.late == [(120 * MS, second)]
    one.close()
    assert loop.pending == []


def test_a_beat_that_is_owed_at_the_end_is_noted(clock: Clock, loop: Loop) -> None:
    """The call ends before the loop gets to the timer: what it is late already counts."""
    start = clock.ns
    one = opened()
    clock.ns += 300 * MS
    one.close()
    assert one.late == [(280 * MS, start + BEAT)]
    one.close()
    assert len(one.late) == 1


def test_another_thread_leaves_the_timer_alone(
    clock: Clock, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends by itself when it finds nobody; a call opened before that takes it over."""
    one = opened()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(watch, "_running_loop", lambda: None)
        one.close()
    assert len(loop.pending) == 1
    two = opened()
    loop.run(late=9 * MS)
    assert [length for length, _ in two.late] == [9 * MS]
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(watch, "_running_loop", lambda: None)
        two.close()
    loop.run(late=0)
    assert loop.pending == []


def test_the_timer_of_a_loop_that_stands_still_is_taken_along(
    clock: Clock, loop: Loop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody will run it any more."""
    one = opened()
    loop.running = False
    monkeypatch.setattr(watch, "_running_loop", lambda: None)
    one.close()
    assert loop.pending == []


def test_a_loop_that_fails_is_not_felt(clock: Clock, loop: Loop) -> None:
    """It refuses the next timer, or to be asked: the beat ends and the call goes on."""
    one = opened()
    (timer,) = loop.pending
    loop.call_later = None  # type: ignore[assignment, method-assign]
    loop.timers.clear()
    timer.callback()
    assert watch._beats == {}
    loop.is_running = None  # type: ignore[assignment, method-assign]
    clock.ns += 900 * MS
    one.close()
    assert one.late == []


def test_a_call_that_is_lost_takes_its_watch_along(loop: Loop) -> None:
    """Never finished, never closed: neither timer nor callback waits for it."""
    opened()
    assert loop.pending == []
    assert watch._listen not in gc.callbacks


def test_the_longest_stretches_are_kept() -> None:
    """At most 256 of a kind."""
    found: list[tuple[Ns, Ns]] = []
    for index in range(KEEP + 44):
        keep(found, index, (index * 7) % (KEEP + 44) + 1)
    assert sorted(length for length, _ in found) == list(range(45, KEEP + 45))


def test_stretches_are_cut_to_their_call() -> None:
    """In order, as offsets, and only what is still long enough."""
    found = [(30, 90), (50, 20), (60, 130), (20, 195), (9, 100), (10, 91)]
    assert within(found, 100, 200, 9) == ((0, 20), (30, 60))


def test_a_long_collection_is_noted(clock: Clock) -> None:
    """By every open call, and only one that was seen to begin."""
    one = opened(loop=False)
    watch._listen("stop", {})
    for took in (MS, 3 * MS):
        watch._listen("start", {})
        clock.ns += took
        watch._listen("stop", {})
    assert one.gc == [(3 * MS, clock.ns - 3 * MS)]
    watch._listen("start", {})
    one.close()
    clock.ns += 50 * MS
    two = opened(loop=False)
    watch._listen("stop", {})
    assert two.gc == []
    two.close()


def test_a_fault_of_ours_in_a_collection_is_not_felt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "now", None)
    watch._listen("start", {})


def test_the_collector_is_listened_to_while_calls_are_open() -> None:
    """One callback for all of them, on whatever thread they are."""
    before = list(gc.callbacks)
    watches = [opened(loop=False)]
    thread = threading.Thread(target=lambda: watches.append(opened(loop=False)))
    thread.start()
    thread.join()
    assert gc.callbacks == [*before, watch._listen]
    watches[0].close()
    assert gc.callbacks == [*before, watch._listen]
    watches[1].close()
    assert gc.callbacks == before


def test_two_that_came_at_once_leave_no_callback() -> None:
    """Threads that both saw none put in two; the last one out removes both."""
    one = opened(loop=False)
    gc.callbacks.append(watch._listen)
    one.close()
    assert watch._listen not in gc.callbacks


def test_a_real_collection_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "PAUSE", 0)
    one = opened(loop=False)
    gc.collect()
    one.close()
    assert one.gc


def test_a_synchronous_client_has_no_loop_lag() -> None:
    """Even inside of a running loop, which it blocks by itself."""
    recordings: list[Recording] = []

    async def main(url: str) -> None:
        with httpx2.Client() as client:
            attach(client, done=recordings.append)
            with client.stream("GET", url) as response:
                assert watch._beats == {}
                assert watch._listen in gc.callbacks
                response.read()

    with serving(answer(200, b"x")) as server:
        asyncio.run(main(server.url))
    assert recordings[0].client.loop_lag == ()
    assert recordings[0].broken == ()


def blocked(gate: threading.Event) -> None:
    """200 ms of work on the loop's thread, and then the server may go on."""
    time.sleep(0.2)
    gate.set()


def streaming(gate: threading.Event) -> Reply:
    return [stream_head(), chunk(b"a"), gate, chunk(b"b"), LAST]


@pytest.mark.parametrize("name", ["httpx2", "httpx"])
async def test_a_blocked_loop_is_seen_in_the_recording(name: str) -> None:
    """200 ms of blocking while a stream is open: a beat due before its end ran after it."""
    library = importlib.import_module(name)
    recordings: list[Recording] = []
    gate = threading.Event()
    with serving(streaming(gate)) as server:
        async with library.AsyncClient() as client:
            attach(client, done=recordings.append)
            async with client.stream("GET", server.url) as response:
                parts = response.aiter_raw()
                await anext(parts)
                begin = time.perf_counter_ns()
                blocked(gate)
                end = time.perf_counter_ns()
                assert [part async for part in parts] == [b"b"]
            assert pending(asyncio.get_running_loop()) == []
    (recording,) = recordings
    assert recording.clock is not None
    zero = recording.clock.zero_ns
    over = [(at, late) for at, late in recording.client.loop_lag if at + late > end - zero]
    at, late = min(over)
    assert at <= begin - zero + BEAT
    assert late >= end - begin - BEAT
    assert recording.broken == ()


def pending(loop: asyncio.AbstractEventLoop) -> list[Any]:
    """Timers of ours that would still run."""
    timers = [timer for timer in loop._scheduled if not timer.cancelled()]  # type: ignore[attr-defined]
    return [timer for timer in timers if "Beat" in repr(timer)]


async def test_nothing_of_the_callers_context_is_kept_by_the_timer() -> None:
    """A value set around a call is free as soon as the call is done with."""
    value: contextvars.ContextVar[object] = contextvars.ContextVar("value")
    value.set(object())
    one = opened()
    (timer,) = pending(asyncio.get_running_loop())
    assert timer._context.get(value) is None
    one.close()


async def test_many_calls_share_one_timer() -> None:
    """Twenty streams at once: one beat, and none when they are done."""
    gate = threading.Event()
    loop = asyncio.get_running_loop()
    with serving(*[streaming(gate) for _ in range(20)]) as server:
        async with httpx2.AsyncClient() as client:
            attach(client, done=lambda recording: None)

            async def one() -> None:
                async with client.stream("GET", server.url) as response:
                    async for _ in response.aiter_raw():
                        if len(client._transport.latscope_tap.open) == 20:  # type: ignore[attr-defined]
                            assert len(pending(loop)) == 1
                            gate.set()

            await asyncio.gather(*[one() for _ in range(20)])
    assert gate.is_set()
    assert pending(loop) == []


def test_loops_of_several_threads_have_a_beat_each() -> None:
    """One is blocked, the other is not told of it."""
    recordings: dict[str, Recording] = {}
    barrier = threading.Barrier(2)
    gates = {"blocked": threading.Event(), "free": threading.Event()}

    async def main(name: str, url: str) -> None:
        async with httpx2.AsyncClient() as client:
            attach(client, done=lambda recording: recordings.update({name: recording}))
            async with client.stream("GET", url) as response:
                parts = response.aiter_raw()
                await anext(parts)
                await asyncio.to_thread(barrier.wait, 20)
                assert len(watch._beats) == 2
                await asyncio.to_thread(barrier.wait, 20)
                if name == "blocked":
                    time.sleep(0.2)
                gates[name].set()
                async for _ in parts:
                    pass

    threads = []
    with contextlib.ExitStack() as stack:
        for name, gate in gates.items():
            server = stack.enter_context(serving(streaming(gate)))
            run = main(name, server.url)
            threads.append(threading.Thread(target=asyncio.run, args=(run,)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    lag = {name: recording.client.loop_lag for name, recording in recordings.items()}
    assert max(late for _, late in lag["blocked"]) >= 200 * MS - BEAT
    assert not set(beats(recordings["blocked"])) & set(beats(recordings["free"]))


def beats(recording: Recording) -> list[Ns]:
    """When the late ones were due, on the clock both calls share."""
    assert recording.clock is not None
    return [recording.clock.zero_ns + at for at, _ in recording.client.loop_lag]


def test_a_stream_that_outlives_its_loop_leaves_nothing() -> None:
    """Dropped after the loop has ended: the timer went with the loop, the rest goes now."""
    kept: list[Any] = []
    recordings: list[Recording] = []

    async def main(url: str) -> None:
        client = httpx2.AsyncClient(transport=httpx2.MockTransport(endless))
        attach(client, done=recordings.append)
        kept.append(await client.send(client.build_request("GET", url), stream=True))
        assert len(watch._beats) == 1

    asyncio.run(main("http://x/"))
    kept.clear()
    gc.collect()
    assert [recording.end.reason for recording in recordings] == ["abandoned"]
    assert all(at + late <= recordings[0].last_ns for at, late in recordings[0].client.loop_lag)


class Endless(httpx2.AsyncByteStream):
    async def __aiter__(self) -> Any:
        yield b"x"


def endless(request: httpx2.Request) -> httpx2.Response:
    return httpx2.Response(200, stream=Endless())


def test_trio_has_no_loop_lag_and_no_task_of_ours() -> None:
    recordings: list[Recording] = []

    async def main(url: str) -> None:
        async with httpx2.AsyncClient() as client:
            attach(client, done=recordings.append)
            async with client.stream("GET", url) as response:
                assert watch._beats == {}
                await response.aread()

    with serving(answer(200, b"x")) as server:
        trio.run(main, server.url)
    assert recordings[0].client.loop_lag == ()
    assert recordings[0].broken == ()


def test_a_process_without_asyncio_loads_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "asyncio")
    assert watch._running_loop() is None
    assert "asyncio" not in sys.modules


def test_a_loop_that_gives_no_timer_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call is recorded without its client side."""
    recordings: list[Recording] = []

    def no_timer(self: Any) -> None:
        raise NotImplementedError

    monkeypatch.setattr(watch.Beat, "next", no_timer)

    async def main(url: str) -> None:
        async with httpx2.AsyncClient() as client:
            attach(client, done=recordings.append)
            assert (await client.get(url)).content == b"x"

    with serving(answer(200, b"x")) as server:
        asyncio.run(main(server.url))
    assert recordings[0].broken == ("client side: NotImplementedError",)
    assert recordings[0].end.reason == "complete"


def test_a_call_that_waits_for_a_retry_is_not_watched() -> None:
    """An SDK call nobody hooked fails and may never come back: no callback stays for it."""
    recordings: list[Recording] = []
    headers = {"x-stainless-retry-count": "0"}
    with serving(answer(500, b"no"), answer(200, b"yes")) as server, httpx2.Client() as client:
        attach(client, done=recordings.append)
        client.get(server.url, headers=headers)
        assert recordings == []
        assert watch._listen not in gc.callbacks
        client.get(server.url, headers=headers | {"x-stainless-retry-count": "1"})
    assert [len(recording.attempts) for recording in recordings] == [2]
