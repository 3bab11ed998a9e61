"""`join --listen` and `probe --receive-spans`, as a user sees them."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from latscope.cli import receiving
from latscope.cli.main import run
from latscope.documents import recordings
from latscope.probe.receiver import Receiver
from latscope.recording import Trace, to_line
from tests.calls import stream, tokens
from tests.probe.scripted import PATIENCE_S, Server, good, opened, serving
from tests.spans import CALL, TRACE, otlp, otlp_span, vllm_attributes

JSON = {"content-type": "application/json"}


def latscope(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def post(url: str, *spans: dict[str, Any]) -> None:
    with httpx2.Client(trust_env=False, timeout=PATIENCE_S) as client:
        answer = client.post(url, content=json.dumps(otlp(spans)), headers=JSON)
        assert answer.status_code == 200


@pytest.fixture(name="calls")
def made_calls(tmp_path: Path) -> Path:
    call = stream(tokens(2, start=10, step=5))
    path = tmp_path / "calls.jsonl"
    path.write_text(to_line(replace(call, trace=Trace(trace_id=TRACE, span_id=CALL))) + "\n")
    return path


@pytest.fixture(name="receiver")
def made_receiver(monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """The receiver `join` will make, on a free port."""
    found = Receiver(port=0, option="--listen")
    monkeypatch.setattr(receiving, "receiver_at", lambda text, option: found)
    return found


@pytest.fixture(name="during")
def listening(monkeypatch: pytest.MonkeyPatch) -> list[Callable[[], None]]:
    """What happens while `join` listens, a step each time it would wait; then Ctrl-C."""
    steps: list[Callable[[], None]] = []

    def wait(seconds: float) -> None:
        if not steps:
            raise KeyboardInterrupt
        steps.pop(0)()

    monkeypatch.setattr(receiving, "sleep", wait)
    return steps


ENGINE = otlp_span(
    1, at=4, ms=14, parentSpanId=CALL, attributes=vllm_attributes(0.001, 0.003, 0.005)
)


def test_what_is_sent_until_ctrl_c_is_joined(
    calls: Path,
    receiver: Receiver,
    during: list[Callable[[], None]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    during += [lambda: post(receiver.url, ENGINE), lambda: post(receiver.url, ENGINE)]
    out = calls.with_name("joined.jsonl")
    code, said, err = latscope(capsys, "join", calls, "--listen", "4318", "-o", out)
    assert code == 0
    assert "1 of 1 call joined (1 by parent span)" in said
    assert f"spans are taken at {receiver.url} until Ctrl-C" in err
    (call,) = recordings.read(out)
    assert [span.joined for span in call.spans] == ["parent"]


def test_the_last_spans_before_the_end_count_too(
    calls: Path,
    receiver: Receiver,
    during: list[Callable[[], None]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    def last() -> None:
        post(receiver.url, ENGINE)
        raise KeyboardInterrupt

    during.append(last)
    code, out, _ = latscope(capsys, "join", calls, "--listen", "4318", "--json")
    assert code == 0
    assert out.count('"joined":"parent"') == 1


def test_the_time_ends_it(
    calls: Path,
    receiver: Receiver,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    now = [0.0]

    def wait(seconds: float) -> None:
        now[0] += seconds
        if now[0] == receiving.LOOK_S:
            post(receiver.url, ENGINE)

    monkeypatch.setattr(receiving, "sleep", wait)
    monkeypatch.setattr(receiving, "monotonic", lambda: now[0])
    code, _, err = latscope(capsys, "join", calls, "--listen", "4318", "--for", "5m")
    assert code == 0
    assert now[0] == pytest.approx(300)
    assert "300 s are over" in err


@pytest.mark.usefixtures("during")
def test_no_span_is_told_with_what_to_do(
    calls: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = latscope(capsys, "join", calls, "--listen", "4318")
    assert (code, out) == (3, "")
    assert "--listen: no span came: point an OTLP/HTTP exporter at" in err


def test_grpc_is_told_as_that(
    calls: Path,
    receiver: Receiver,
    during: list[Callable[[], None]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    during.append(lambda: setattr(receiver, "grpc", 1))
    code, _, err = latscope(capsys, "join", calls, "--listen", "4318")
    assert code == 3
    assert "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf" in err


@pytest.mark.parametrize(
    "arguments",
    [
        ("--listen", "nowhere"),
        ("--listen", "4318", "--for", "soon"),
        ("--for", "3s"),
        ("--for", "3s", "--spans", "f"),
    ],
)
def test_what_cannot_be_listened_to_is_wrong_usage(
    arguments: tuple[str, ...], calls: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = latscope(capsys, "join", calls, *arguments)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1


def test_a_port_in_use_is_exit_3(calls: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Receiver(port=0) as other:
        at = f"127.0.0.1:{other.port}"
        code, _, err = latscope(capsys, "join", calls, "--listen", at)
    assert code == 3
    assert f"--listen: {at} cannot be listened on" in err


# -- probe -----------------------------------------------------------------------------------------


@contextmanager
def traced(port: list[int], *, calls: int, of: int) -> Iterator[Server]:
    """A server that answers, and when it has been asked `of` times sends the spans of the first
    `calls` of them to `port`."""

    def send() -> None:
        until = time.monotonic() + PATIENCE_S
        while len(server.asked) < of and time.monotonic() < until:
            time.sleep(0.01)
        for number, asked in enumerate(server.asked[:calls]):
            _, trace_id, parent, flags = asked.headers["traceparent"].split("-")
            assert flags == "01"
            span = otlp_span(number + 1, attributes=vllm_attributes(0.001, 0.003, 0.005))
            span |= {"traceId": trace_id, "parentSpanId": parent}
            now = time.time_ns()
            span |= {"startTimeUnixNano": str(now), "endTimeUnixNano": str(now + 10**6)}
            post(f"http://127.0.0.1:{port[0]}/v1/traces", span)

    with serving(good()) as server:
        sender = threading.Thread(target=send)
        sender.start()
        try:
            yield server
        finally:
            sender.join(PATIENCE_S)


@pytest.fixture(name="port")
def known_port(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Where the probe's receiver listens, once it does."""
    found: list[int] = []
    start = Receiver.start

    def started(self: Receiver) -> None:
        start(self)
        found.append(self.port)

    monkeypatch.setattr(Receiver, "start", started)
    return found


def probe(server: Server, *more: object) -> list[object]:
    return ["probe", server.url, "-m", "tiny", "-n", 2, "--receive-spans", "127.0.0.1:0", *more]


def test_a_probes_calls_are_joined_on_the_way(
    port: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved = tmp_path / "calls.jsonl"
    with traced(port, calls=3, of=3) as server:
        code, out, err = latscope(capsys, *probe(server, "--json", "--save", saved))
    assert code == 0
    assert "2 of 2 calls joined to spans of the server; 3 spans came" in err
    told = [json.loads(line) for line in out.splitlines()]
    assert len(told) == 2
    assert all("vllm.otel" in {figure["source"] for figure in call["reported"]} for call in told)
    kept = list(recordings.read(saved))
    assert [len(call.spans) for call in kept] == [1, 1, 1]  # the warm-up's too
    sent = {asked.headers["traceparent"].split("-")[2] for asked in server.asked}
    assert {call.trace.span_id for call in kept if call.trace} == sent


def test_calls_without_spans_are_shown_all_the_same(
    port: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("latscope.cli.probe._held", _impatient)
    with serving(good()) as server:
        code, out, err = latscope(capsys, *probe(server, "--json"))
    assert code == 0
    assert len(out.splitlines()) == 2
    assert "0 of 2 calls joined to spans of the server: no span came: point an OTLP" in err


def _impatient(address: str) -> receiving.Held:
    return receiving.Held(receiver=receiving.receiver_at(address, "--x"), wait_s=0.0)


def test_a_traceparent_of_the_users_own_is_left_alone(
    port: list[int], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("latscope.cli.probe._held", _impatient)
    own = f"00-{'1' * 32}-{'2' * 16}-01"
    with serving(good()) as server:
        latscope(capsys, *probe(server, "-H", f"Traceparent: {own}"))
    assert {asked.headers["traceparent"] for asked in server.asked} == {own}


def test_without_the_option_nothing_is_sent_along(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(good()) as server:
        latscope(capsys, "probe", server.url, "-m", "tiny", "-n", 1)
    assert all("traceparent" not in asked.headers for asked in server.asked)


def test_an_interrupt_keeps_the_calls_that_ended(
    port: list[int], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def interrupted(self: receiving.Held) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(receiving.Held, "come", interrupted)
    with serving(good()) as server:
        code, out, _ = latscope(capsys, *probe(server, "--json"))
    assert code == 130
    assert len(out.splitlines()) == 2


def test_a_port_in_use_is_told_before_a_call_is_paid(capsys: pytest.CaptureFixture[str]) -> None:
    with Receiver(port=0) as other, serving(opened()) as server:
        at = f"127.0.0.1:{other.port}"
        code, _, err = latscope(capsys, "probe", server.url, "-m", "tiny", "--receive-spans", at)
        assert server.asked == []
    assert code == 3
    assert f"--receive-spans: {at} cannot be listened on" in err
