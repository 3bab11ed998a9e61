"""The server on real sockets: its APIs, its header policies, its queue, its cache, its manners."""

import http.client
import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from threading import Thread
from urllib.parse import urlsplit

import pytest

from latscope.errors import UsageError
from latscope.protocols.dialect import Api
from latscope.sim.process import Running
from latscope.sim.prompt import prompt_of
from latscope.sim.stamps import Stamps
from tests.sim.client import (
    PATHS,
    ask,
    body_for,
    body_of,
    call,
    data_of,
    frames,
    header,
    request_id,
)

APIS: tuple[Api, ...] = ("chat", "completions", "responses", "messages")


@contextmanager
def opened(running: Running, model: str, request_id: str) -> Iterator[socket.socket]:
    """A chat call sent by hand over a bare socket, which is closed at the end."""
    where = urlsplit(running.base_url)
    body = json.dumps(body_for("chat", model, "hello")).encode()
    head = (
        f"POST {PATHS['chat']} HTTP/1.1\r\nhost: sim\r\nx-request-id: {request_id}\r\n"
        f"content-length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((where.hostname, where.port), timeout=30) as raw:
        raw.sendall(head.encode() + body)
        yield raw


def wait_for(found: Callable[[], bool]) -> None:
    """Until the condition holds; a minute without it fails the test."""
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def known(running: Running, call_id: str) -> Stamps | None:
    try:
        return running.truth(call_id)
    except UsageError:
        return None


def test_health_and_models(running: Running) -> None:
    """The list of models is the list of scenarios, in the keys of both SDKs."""
    assert ask(running, "GET", "/health") == (200, {"status": "ok"})
    status, models = ask(running, "GET", "/v1/models")
    assert (status, models["object"], models["has_more"]) == (200, "list", False)
    by_id = {model["id"]: model for model in models["data"]}
    assert by_id["healthy"]["object"] == by_id["healthy"]["type"] == "model"
    assert by_id["healthy"]["display_name"] == "Healthy"


@pytest.mark.parametrize("api", APIS)
def test_the_body_is_the_same_streamed_or_whole(running: Running, api: Api) -> None:
    """Not streamed: one JSON body with its length, usage and timings inside."""
    body = body_for(api, "healthy", f"whole {api}") | {"stream": False}
    body.pop("stream_options", None)
    recording = call(running.base_url, api, body)
    assert header(recording.attempts[-1], "content-length") == str(len(body_of(recording)))
    plain = json.loads(body_of(recording))
    stamps = running.truth(request_id(recording))
    counts = plain["usage"]
    assert (counts.get("completion_tokens") or counts.get("output_tokens")) == len(stamps.tokens)
    assert len(stamps.tokens) == 40
    assert stamps.terminal_end == len(body_of(recording))
    assert stamps.first_token_end is None


@pytest.mark.parametrize("api", ["chat", "completions"])
def test_usage_comes_only_when_asked_for(running: Running, api: Api) -> None:
    """Without include_usage the stream has no usage, and vLLM's metrics have nowhere to ride."""
    asked = body_for(api, "healthy", "with usage")
    silent = {name: value for name, value in asked.items() if name != "stream_options"}
    text = [body_of(call(running.base_url, api, body)) for body in (asked, silent)]
    assert [b'"usage":{' in body for body in text] == [True, False]
    assert [b'"metrics":{' in body for body in text] == [True, False]
    assert all(body.endswith(b"data: [DONE]\n\n") for body in text)


@pytest.mark.parametrize("api", APIS)
def test_stamps_are_in_order_and_count_every_byte(running: Running, api: Api) -> None:
    """received, queued, scheduled, tokens, closed; the sends cover the body without a gap."""
    recording = call(running.base_url, api, body_for(api, "visible-reasoning", f"order {api}"))
    stamps = running.truth(request_id(recording))
    assert (stamps.scenario, stamps.api, stamps.status) == ("visible-reasoning", api, 200)
    order = [stamps.received_ns, stamps.queued_ns, stamps.scheduled_ns, *stamps.tokens]
    instants = [*order, stamps.closed_ns]
    assert all(a is not None and b is not None and a <= b for a, b in pairwise(instants))
    assert [sent.start for sent in stamps.sends] == [0, *(sent.stop for sent in stamps.sends[:-1])]
    assert stamps.sends[-1].stop == len(body_of(recording))
    assert [sent.ns for sent in stamps.sends] == sorted(sent.ns for sent in stamps.sends)
    assert len(stamps.tokens) == 64


def test_the_metrics_are_what_the_stamps_say(running: Running) -> None:
    """vLLM's figures come from what happened, to the nanosecond, not from the plan."""
    recording = call(running.base_url, "chat", body_for("chat", "healthy", "metrics"))
    stamps = running.truth(request_id(recording))
    found = [data_of(frame).get("metrics") for frame, _ in frames(body_of(recording))]
    metrics = next(each for each in found if each)
    assert stamps.queued_ns is not None
    assert stamps.scheduled_ns is not None
    spans = {
        "queue_time_ms": stamps.scheduled_ns - stamps.queued_ns,
        "time_to_first_token_ms": stamps.tokens[0] - stamps.scheduled_ns,
        "generation_time_ms": stamps.tokens[-1] - stamps.tokens[0],
    }
    assert {name: round(metrics[name] * 1e6) for name in spans} == spans
    assert metrics["mean_itl_ms"] == pytest.approx(metrics["generation_time_ms"] / 39)


def test_one_token_has_no_mean_step(running: Running) -> None:
    recording = call(running.base_url, "chat", body_for("chat", "healthy", "one", max_tokens=1))
    assert b'"mean_itl_ms":null' in body_of(recording)
    assert b'"finish_reason":"length"' in body_of(recording)


def test_a_blind_server_reports_nothing(running: Running) -> None:
    body = body_of(call(running.base_url, "chat", body_for("chat", "blind", "blind")))
    assert b"metrics" not in body
    assert b"timings" not in body
    assert b'"usage":{' in body


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("usage", [True, False])
def test_llama_timings_ride_on_the_last_chunk(running: Running, api: Api, usage: bool) -> None:
    """The usage chunk, or the finish chunk when no usage was asked for."""
    body = body_for(api, "llama", f"timings {api} {usage}")
    if not usage:
        body.pop("stream_options")
    recording = call(running.base_url, api, body)
    chunks = [data_of(frame) for frame, _ in frames(body_of(recording))]
    assert ["timings" in chunk for chunk in chunks[:-1]] == [False] * (len(chunks) - 2) + [True]
    assert ("usage" in chunks[-2] and bool(chunks[-2]["usage"])) is usage
    assert chunks[-2]["timings"]["predicted_n"] == 30
    assert header(recording.attempts[-1], "server") == "llama.cpp"


def test_llama_timings_are_in_a_whole_body_too(running: Running) -> None:
    body = body_for("chat", "llama", "whole", max_tokens=1) | {"stream": False}
    plain = json.loads(body_of(call(running.base_url, "chat", body)))
    assert plain["timings"]["predicted_n"] == 1
    assert plain["timings"]["predicted_ms"] == 0.001


def test_the_request_id_is_echoed_or_made(running: Running) -> None:
    """An id the caller sends comes back and names the truth; one that cannot is replaced."""
    body = body_for("chat", "cached", "id")
    mine = call(running.base_url, "chat", body, {"x-request-id": "my-id"})
    assert request_id(mine) == "my-id"
    assert running.truth("my-id").id == "my-id"
    strange = call(running.base_url, "chat", body, {"x-request-id": "a/b"})
    assert request_id(strange) != "a/b"
    assert any(stamps.id == "my-id" for stamps in running.truths())


def test_a_call_nobody_made_has_no_truth(running: Running) -> None:
    with pytest.raises(UsageError, match="kept no call 'never'"):
        running.truth("never")


def test_a_shared_prefix_really_shortens_prefill(running: Running) -> None:
    """The second of two prompts with 640 tokens in common has them cached: it plans 0.5 ms less
    for each, and says so in usage."""
    prefix = prompt_of(660, "cached")
    ids = [
        request_id(call(running.base_url, "chat", body_for("chat", "cached", prefix + tail)))
        for tail in (" one", " two")
    ]
    first, second = (running.truth(call_id) for call_id in ids)
    assert (first.cached_tokens, second.cached_tokens) == (0, 640)
    assert first.scheduled_ns is not None
    assert first.tokens[0] - first.scheduled_ns >= 0.5e6 * first.prompt_tokens
    again = call(running.base_url, "chat", body_for("chat", "cached", prefix + " three"))
    assert b'"cached_tokens":640' in body_of(again)


def test_a_cache_that_is_off_caches_nothing(running: Running) -> None:
    prompt = prompt_of(300, "off")
    body = body_for("chat", "uncached", prompt)
    ids = [request_id(call(running.base_url, "chat", body)) for _ in range(2)]
    assert [running.truth(call_id).cached_tokens for call_id in ids] == [0, 0]


def test_more_calls_than_slots_wait_in_the_order_they_came(running: Running) -> None:
    """One slot, four calls at once: each is scheduled after the last token of the one before."""

    def one(name: str) -> None:
        call(running.base_url, "chat", body_for("chat", "one-slot", "hi"), {"x-request-id": name})

    names = [f"slots-{n}" for n in range(4)]
    threads = [Thread(target=one, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    calls = sorted((running.truth(name) for name in names), key=lambda each: each.queued_ns or 0)
    for before, after in pairwise(calls):
        assert after.scheduled_ns is not None
        assert after.scheduled_ns >= before.tokens[-1]


def test_a_client_that_leaves_frees_its_slot(running: Running) -> None:
    """The engine aborts a call nobody reads any more, as model servers do."""
    with opened(running, "endless-early", "left") as raw:
        assert raw.recv(1)
        wait_for(lambda: bool(running.truth("left").tokens))
        with opened(running, "endless-early", "next"):
            wait_for(lambda: known(running, "next") is not None)
            raw.close()
            wait_for(lambda: bool(running.truth("next").tokens))
    wait_for(lambda: running.truth("next").closed_ns is not None)
    assert running.truth("left").closed_ns is not None


def test_early_headers_leave_while_the_call_still_waits(running: Running) -> None:
    """Over a bare socket: the head is read while another call holds the only slot."""
    with opened(running, "endless-early", "holder") as holder:
        assert holder.recv(1)
        wait_for(lambda: bool(running.truth("holder").tokens))
        with opened(running, "endless-early", "waiter") as waiter:
            assert waiter.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")
            assert running.truth("waiter").scheduled_ns is None


def test_slot_headers_leave_before_any_token(running: Running) -> None:
    """Not before the call is scheduled, and without waiting for its first token."""
    with opened(running, "no-first-token-slot", "slot") as raw:
        assert raw.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")
        stamps = running.truth("slot")
    assert stamps.scheduled_ns is not None
    assert stamps.headers_ns is not None
    assert stamps.headers_ns >= stamps.scheduled_ns
    assert stamps.tokens == []


def test_slot_headers_wait_for_the_slot(running: Running) -> None:
    with opened(running, "endless-slot", "slot-holder") as holder:
        assert holder.recv(1)
        with opened(running, "endless-slot", "slot-waiter") as waiter:
            wait_for(lambda: known(running, "slot-waiter") is not None)
            assert running.truth("slot-waiter").headers_ns is None
            holder.close()
            assert waiter.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")
    stamps = running.truth("slot-waiter")
    assert (stamps.headers_ns or 0) >= (stamps.scheduled_ns or 0) > 0


def test_token_headers_leave_with_the_first_token(running: Running) -> None:
    with opened(running, "endless-token", "token") as raw:
        assert raw.recv(4096).startswith(b"HTTP/1.1 200 OK\r\n")
    stamps = running.truth("token")
    assert (stamps.headers_ns or 0) >= stamps.tokens[0]


@pytest.mark.parametrize("api", APIS)
def test_an_early_role_chunk_is_sent_before_the_first_token_exists(
    running: Running, api: Api
) -> None:
    recording = call(running.base_url, api, body_for(api, "early-role", f"role {api}"))
    stamps = running.truth(request_id(recording))
    assert stamps.first_token_end is not None
    if api == "completions":  # has no envelope
        assert stamps.sends[0].ns >= stamps.tokens[0]
    else:
        assert stamps.sends[0].ns < stamps.tokens[0]
        assert stamps.sends[0].stop < stamps.first_token_end


def test_pings_fill_the_queue_and_the_stall(running: Running) -> None:
    """Keep-alives before the first token and inside the pause; none of them counts as a token."""
    recording = call(running.base_url, "chat", body_for("chat", "pings", "pings"))
    stamps = running.truth(request_id(recording))
    assert stamps.first_token_end is not None
    early = body_of(recording)[: stamps.first_token_end]
    late = body_of(recording)[stamps.first_token_end :]
    assert early.startswith(b":")
    assert b"\n:" in late
    assert len(stamps.tokens) == 30


def test_a_buffering_hop_sends_everything_after_the_last_token(running: Running) -> None:
    recording = call(running.base_url, "chat", body_for("chat", "buffering-hop", "hold"))
    stamps = running.truth(request_id(recording))
    assert len(stamps.sends) == 1
    assert stamps.sends[0].ns >= stamps.tokens[-1]
    assert (stamps.headers_ns or 0) < stamps.tokens[0]
    assert header(recording.attempts[-1], "via") == "1.1 gateway"


def test_a_byte_quantum_sends_whole_blocks_until_the_end(running: Running) -> None:
    recording = call(running.base_url, "chat", body_for("chat", "byte-hold", "bytes"))
    sends = running.truth(request_id(recording)).sends
    assert len(sends) > 3
    assert all((sent.stop - sent.start) % 1024 == 0 for sent in sends[:-1])


def test_a_held_stream_makes_up_for_it(running: Running) -> None:
    """Tokens 6 and on exist while nothing leaves, and leave together 60 ms after the fifth."""
    recording = call(running.base_url, "chat", body_for("chat", "held", "held"))
    stamps = running.truth(request_id(recording))
    gap = [
        (a, b) for a, b in zip(stamps.sends, stamps.sends[1:], strict=False) if b.ns - a.ns >= 50e6
    ]
    assert len(gap) == 1
    assert sum(gap[0][0].ns < token < gap[0][1].ns for token in stamps.tokens) > 5


@pytest.mark.parametrize("api", APIS)
def test_a_cut_call_ends_without_its_terminal_event(running: Running, api: Api) -> None:
    """The connection drops: the client's library sees a body that is not complete."""
    recording = call(running.base_url, api, body_for(api, "cut", f"cut {api}"))
    stamps = running.truth(request_id(recording))
    assert recording.attempts[-1].error_type == "IncompleteRead"
    assert len(stamps.tokens) == 30
    assert stamps.terminal_end is None


def test_a_call_can_be_cut_before_its_answer(running: Running) -> None:
    """Not streamed, the client gets no response at all."""
    body = body_for("chat", "cut", "cut whole") | {"stream": False}
    with pytest.raises((http.client.BadStatusLine, ConnectionError)):
        call(running.base_url, "chat", body)


@pytest.mark.parametrize("api", APIS)
def test_an_error_in_band_comes_after_a_200(running: Running, api: Api) -> None:
    recording = call(running.base_url, api, body_for(api, "error-in-band", f"band {api}"))
    assert recording.attempts[-1].status == 200
    assert b"the engine stopped" in body_of(recording)
    assert (b"[DONE]" in body_of(recording)) is (api in ("chat", "completions"))


def test_an_engine_that_stops_fails_a_whole_answer_with_a_500(running: Running) -> None:
    body = body_for("chat", "error-in-band", "500") | {"stream": False}
    status, answer = ask(running, "POST", PATHS["chat"], body)
    assert (status, answer["error"]["type"]) == (500, "server_error")


def test_failures_follow_the_retry_count_or_go_round(running: Running) -> None:
    """By the SDK's count every call meets the same sequence; without one, calls take turns."""
    recording = call(running.base_url, "chat", body_for("chat", "flaky", "flaky"))
    assert [each.status for each in recording.attempts] == [429, 500, 200]
    waits = [header(each, "retry-after") for each in recording.attempts]
    assert waits == ["0.01", None, None]
    body = body_for("chat", "flaky", "round") | {"stream": False}
    statuses = [ask(running, "POST", PATHS["chat"], body)[0] for _ in range(6)]
    assert statuses == [429, 500, 200] * 2
