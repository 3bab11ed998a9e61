"""The composition, end to end: a real client, a real server, and what the sinks are given."""

import asyncio
import io
import logging
import pickle
import stat
import sys
import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

import latscope
from latscope.errors import InstrumentError, UsageError
from latscope.export.jsonl import JSONLSink
from latscope.middleware import worker
from latscope.middleware.intake import _chosen
from latscope.recording import Recording, to_line

from .server import CANARY, HEADERS, REQUEST, SECRETS


def ask(client: httpx2.Client, url: str) -> str:
    return client.post(url, json=REQUEST, headers=HEADERS).text


@pytest.fixture
def client() -> Any:
    with httpx2.Client() as made:
        yield made


class Kept:
    """A sink that keeps what it is given."""

    def __init__(self) -> None:
        self.calls: list[Recording] = []

    def write(self, recording: Recording) -> None:
        self.calls.append(recording)


def test_the_client_is_the_same_object_and_its_answers_are_whole(
    client: httpx2.Client, url: str
) -> None:
    assert latscope.instrument(client) is client
    assert CANARY in ask(client, url)
    assert latscope.uninstrument(client) is client


def test_without_a_sink_the_last_calls_stay_in_memory(client: httpx2.Client, url: str) -> None:
    """`recent` waits for what is over but not processed; nothing it gives, and nothing the ring
    holds, contains what was said."""
    latscope.instrument(client)
    for _ in range(3):
        ask(client, url)
    calls = latscope.recent()
    assert len(calls) == 3
    assert latscope.recent(2) == calls[1:]
    for secret in SECRETS:
        assert secret not in "".join(to_line(call) for call in calls)
        assert secret not in repr(calls)
        assert secret.encode() not in pickle.dumps(calls)
    (attempt,) = calls[0].attempts
    assert (attempt.status, calls[0].broken, calls[0].sample.rate) == (200, (), 1.0)
    assert attempt.body is not None
    assert b"[DONE]" in attempt.body


def test_an_uninstrumented_client_is_recorded_no_more(client: httpx2.Client, url: str) -> None:
    """Taking it off twice, or off a client that never had it, is harmless."""
    latscope.instrument(client)
    ask(client, url)
    latscope.uninstrument(latscope.uninstrument(client))
    ask(client, url)
    assert len(latscope.recent()) == 1


def test_instrumenting_again_replaces(client: httpx2.Client, url: str) -> None:
    """One call is one recording, by the last arguments given."""
    first, second = Kept(), Kept()
    latscope.instrument(client, sink=first)
    latscope.instrument(client, sink=second)
    ask(client, url)
    assert latscope.flush(20)
    assert (len(first.calls), len(second.calls)) == (0, 1)


def test_a_failed_attempt_nobody_retried_is_not_lost(client: httpx2.Client, url: str) -> None:
    """An SDK whose calls are not hooked (only its HTTP client is instrumented) may retry; at a
    flush a failed attempt that still waits for that is a call of its own."""
    kept = Kept()
    latscope.instrument(client, sink=kept)
    client.get(url, headers={"x-stainless-retry-count": "0"})  # the server has no GET: 501
    assert kept.calls == []
    assert latscope.flush()
    assert [call.attempts[-1].status for call in kept.calls] == [501]


def test_several_sinks_are_each_given_every_call(
    client: httpx2.Client, url: str, tmp_path: Path
) -> None:
    """A callable, an object with `write`, a file; with a sink of its own a client's calls are not
    in the ring."""
    called: list[Recording] = []
    kept = Kept()
    path = tmp_path / "calls.jsonl"
    latscope.instrument(client, sink=[called.append, kept, JSONLSink(path)])
    ask(client, url)
    assert latscope.flush(20)
    assert called == kept.calls
    assert path.read_text() == to_line(kept.calls[0]) + "\n"
    assert latscope.recent() == []


@pytest.mark.parametrize("sink", ["calls.jsonl", 7, io.StringIO(), [None]])
def test_what_cannot_be_a_sink_is_refused(client: httpx2.Client, sink: object) -> None:
    with pytest.raises(UsageError, match="sink"):
        latscope.instrument(client, sink=sink)


def test_a_coroutine_function_is_refused_as_a_sink(client: httpx2.Client) -> None:
    async def sink(recording: Recording) -> None: ...

    with pytest.raises(UsageError, match="sink"):
        latscope.instrument(client, sink=sink)


@pytest.mark.parametrize("sample", [-0.1, 1.5])
def test_a_sample_is_a_share(client: httpx2.Client, sample: float) -> None:
    with pytest.raises(UsageError, match="sample"):
        latscope.instrument(client, sample=sample)


def test_what_is_no_client_is_refused() -> None:
    with pytest.raises(InstrumentError):
        latscope.instrument(object())


def test_a_sink_that_raises_reaches_nobody(
    client: httpx2.Client, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the caller nor the other sinks; it is said once in a row, without the message."""
    fail = True
    kept = Kept()

    def sink(recording: Recording) -> None:
        if fail:
            raise ValueError(f"cannot send {CANARY}")

    latscope.instrument(client, sink=(sink, kept))
    for expected in (1, 1, 1, 2):
        fail = expected != 1 or not kept.calls or len(kept.calls) == 1
        assert CANARY in ask(client, url)
        assert latscope.flush(20)
        assert len([r for r in caplog.records if r.levelno == logging.WARNING]) == expected
    assert len(kept.calls) == 4
    assert CANARY not in caplog.text


def test_a_sink_that_hangs_holds_up_the_worker_only(client: httpx2.Client, url: str) -> None:
    release = threading.Event()
    latscope.instrument(client, sink=lambda recording: release.wait(30))
    assert CANARY in ask(client, url)
    assert not latscope.flush(0.05)
    assert CANARY in ask(client, url)
    release.set()
    assert latscope.flush(20)


def test_the_environment_adds_a_file(
    client: httpx2.Client, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LATSCOPE_FILE is written beside the ring or the sinks, owner-only, once if it is given as a
    sink too."""
    path = tmp_path / "calls.jsonl"
    monkeypatch.setenv("LATSCOPE_FILE", str(path))
    latscope.instrument(client)
    ask(client, url)
    assert len(latscope.recent()) == 1
    latscope.instrument(client, sink=JSONLSink(path))
    ask(client, url)
    assert latscope.flush(20)
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    assert not [secret for secret in SECRETS if secret in "".join(lines)]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_closing_a_sink_first_writes_what_waits(
    client: httpx2.Client, url: str, tmp_path: Path
) -> None:
    path = tmp_path / "calls.jsonl"
    with JSONLSink(path) as sink:
        latscope.instrument(client, sink=sink)
        ask(client, url)
    assert len(path.read_text().splitlines()) == 1
    assert sink.lost == 0


def test_a_call_keeps_the_tags_of_its_entry(client: httpx2.Client, url: str) -> None:
    """A stream opened inside a block and read after it belongs to the block; the client's own tags
    come along, and yield to the block's."""
    latscope.instrument(client, tags={"app": "shop", "team": 1})
    with latscope.tags(team="search"), latscope.turn("t1"):
        opened = client.stream("POST", url, json=REQUEST)
        response = opened.__enter__()
    with latscope.tags(team="late"), latscope.turn("late"):
        response.read()
        opened.__exit__(None, None, None)
    (call,) = latscope.recent()
    assert (call.tags, call.turn) == ({"app": "shop", "team": "search"}, "t1")


async def test_async_calls_keep_the_tags_of_their_task(url: str) -> None:
    async with latscope.instrument(httpx2.AsyncClient()) as client:

        async def call(name: str) -> None:
            with latscope.tags(call=name), latscope.turn(name):
                response = await client.send(
                    client.build_request("POST", url, json=REQUEST), stream=True
                )
            await response.aread()

        await asyncio.gather(*(call(name) for name in "abc"))
    calls = latscope.recent()
    assert sorted((call.tags["call"], call.turn) for call in calls) == [
        ("a", "a"),
        ("b", "b"),
        ("c", "c"),
    ]


def test_threads_keep_their_tags_apart(client: httpx2.Client, url: str) -> None:
    latscope.instrument(client)

    def call(name: str) -> None:
        with latscope.tags(call=name):
            ask(client, url)

    threads = [threading.Thread(target=call, args=(name,)) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(call.tags["call"] for call in latscope.recent()) == ["a", "b"]


def test_content_and_headers_are_kept_where_asked_for(client: httpx2.Client, url: str) -> None:
    latscope.instrument(client, keep_content=True, keep_headers=["X-Team-Header"])
    ask(client, url)
    (call,) = latscope.recent()
    assert CANARY in str(call.attempts[0].body)
    assert ("x-team-header", "blue") in call.attempts[0].headers


def test_a_sample_of_none_keeps_none(client: httpx2.Client, url: str) -> None:
    latscope.instrument(client, sample=0)
    ask(client, url)
    assert latscope.recent() == []


def test_a_sampled_recording_says_its_rate(client: httpx2.Client, url: str) -> None:
    latscope.instrument(client, sample=0.999999)
    ask(client, url)
    (call,) = latscope.recent()
    assert (call.sample.rate, call.sample.why) == (0.999999, "random")


def test_a_sample_is_chosen_by_the_calls_id() -> None:
    """The share kept is the share asked for, and what a small rate keeps a greater one keeps."""
    ids = [f"{number:032x}" for number in range(4000)]
    kept = [{call for call in ids if _chosen(call, rate)} for rate in (0, 0.1, 0.5, 1)]
    assert [round(len(calls) / len(ids), 1) for calls in kept] == [0, 0.1, 0.5, 1]
    assert kept[0] <= kept[1] <= kept[2] <= kept[3]


def test_a_full_queue_is_not_felt(
    client: httpx2.Client, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the worker stuck and its queue full, calls answer as ever; those over are dropped."""
    release = threading.Event()
    small = worker.Worker(limit=1)
    monkeypatch.setattr(worker, "_worker", small)
    latscope.instrument(client, sink=lambda recording: release.wait(30))
    for _ in range(5):
        assert CANARY in ask(client, url)
    assert small.dropped >= 3
    release.set()
    small.stop(20)


@pytest.mark.parametrize(
    "prefix",
    [b"k" * 32, True],
)
def test_prefix_hashes_are_made_where_asked_for(
    client: httpx2.Client,
    url: str,
    prefix: bool | bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the key given, or with the user's; the key is in no recording."""
    monkeypatch.setenv("LATSCOPE_PREFIX_KEY", str(tmp_path / "key"))
    latscope.instrument(client, prefix=prefix)
    ask(client, url)
    latscope.instrument(client)
    ask(client, url)
    hashed, plain = latscope.recent()
    assert hashed.prefix is not None
    assert [row["part"] for row in hashed.prefix] == ["messages[0]"]
    assert plain.prefix is None
    assert "k" * 32 not in to_line(hashed)


def test_an_empty_key_is_refused(client: httpx2.Client) -> None:
    with pytest.raises(UsageError, match="key"):
        latscope.instrument(client, prefix=b"")


def test_clients_of_ours_are_instrumented_from_birth(url: str) -> None:
    with latscope.Client(timeout=20) as client:
        ask(client, url)
    assert len(latscope.recent()) == 1


async def test_async_clients_of_ours_are_too(url: str) -> None:
    async with latscope.AsyncClient(timeout=20) as client:
        await client.post(url, json=REQUEST)
    assert len(latscope.recent()) == 1


def test_a_sink_that_exits_costs_the_others_nothing(client: httpx2.Client, url: str) -> None:
    kept: list[Recording] = []
    latscope.instrument(client, sink=[lambda recording: sys.exit(1), kept.append])
    client.post(url, json=REQUEST)
    assert latscope.flush()
    assert len(kept) == 1


def test_an_object_called_as_a_coroutine_is_refused_as_a_sink(client: httpx2.Client) -> None:
    class Sink:
        async def __call__(self, recording: Recording) -> None: ...

    with pytest.raises(UsageError, match="sink"):
        latscope.instrument(client, sink=Sink())
