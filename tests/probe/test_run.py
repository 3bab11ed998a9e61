"""The probe's client against a server that hangs up on a kept-alive connection."""

import asyncio
import socket
import threading

from latscope.probe.requests import Ask
from latscope.probe.rtt import RttProbe
from latscope.probe.run import Load, Result, run
from latscope.probe.targets import Target
from tests.probe.scripted import PATIENCE_S, Reply, _read, chunk, good, opened, serving, sse, usage


def kept_alive() -> bytes:
    """A whole answer that leaves the connection open."""
    body = sse(chunk("one"), chunk(finish="stop"), usage(1), "[DONE]")
    head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}"
    return head.encode() + b"\r\n\r\n" + body


def hang_up_on_the_second(listening: socket.socket, answered: list[int]) -> None:
    """Per connection: how many requests are answered; the next one is read and dropped."""
    for answers in answered:
        connection, _ = listening.accept()
        with connection:
            connection.settimeout(PATIENCE_S)
            for _ in range(answers):
                if _read(connection) is None:
                    return
                connection.sendall(kept_alive())
            _read(connection)


def probe(answered: list[int], calls: int) -> tuple[list[Result], list[str]]:
    results: list[Result] = []
    said: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        thread = threading.Thread(
            target=hang_up_on_the_second, args=(listening, answered), daemon=True
        )
        thread.start()
        asyncio.run(
            run(
                Ask(target=Target(base_url=url, api="chat"), model="tiny", max_tokens=4),
                Load(calls=calls, warm_up=False, timeout_s=PATIENCE_S),
                prompt=lambda: "hi",
                hand_over=results.append,
                say=said.append,
            )
        )
        thread.join(PATIENCE_S)
    return results, said


def test_a_connection_closed_while_idle_is_not_the_calls_failure() -> None:
    """The request is sent again on a new one, once, and that is said."""
    results, said = probe([1, 1], calls=2)
    assert [result.status for result in results] == [200, 200]
    assert len(said) == 1
    assert "closed an idle connection" in said[0]


def test_a_server_that_hangs_up_on_a_new_connection_failed() -> None:
    """Only a kept-alive connection can have been closed before the request came."""
    results, said = probe([0], calls=1)
    assert [result.status for result in results] == [None]
    assert said == []


def test_round_trips_are_measured_beside_a_call_to_where_the_one_before_went() -> None:
    """The warm-up tells the address; the next call is held until three round trips were made."""
    results: list[Result] = []
    go_on = threading.Event()
    held: Reply = [
        opened() + sse(chunk("one")),
        go_on,
        sse(chunk(finish="stop"), usage(1), "[DONE]"),
    ]

    async def probing() -> None:
        def made() -> int:
            return sum(len(host.samples) for host in beside._hosts.values())

        async def let_go() -> None:
            # Those made before the held call came are not its own.
            while len(server.bodies) < 2:
                await asyncio.sleep(0.01)
            before = made()
            while made() < before + 3:
                await asyncio.sleep(0.01)
            go_on.set()

        with serving(good(), held) as server, RttProbe() as beside:
            async with asyncio.timeout(PATIENCE_S), asyncio.TaskGroup() as group:
                group.create_task(let_go())
                group.create_task(
                    run(
                        Ask(target=Target(base_url=server.url), model="tiny", max_tokens=4),
                        Load(calls=1, timeout_s=PATIENCE_S),
                        prompt=lambda: "hi",
                        hand_over=results.append,
                        say=lambda said: None,
                        rtt=beside,
                    )
                )

    asyncio.run(probing())
    warm_up, call = (result.recording for result in results)
    assert warm_up is not None
    assert call is not None
    assert warm_up.rtt_probe == ()
    assert len(call.rtt_probe) >= 3
    assert all(0 <= sample.sent_ns <= call.last_ns for sample in call.rtt_probe)


def test_what_has_to_be_ready_is_awaited_between_warm_up_and_calls() -> None:
    """A reading of the server's metrics there leaves the warm-up out."""
    asked: list[int] = []
    with serving(good()) as server:

        async def ready() -> None:
            asked.append(len(server.bodies))

        asyncio.run(
            run(
                Ask(target=Target(base_url=server.url), model="tiny", max_tokens=4),
                Load(calls=2, timeout_s=PATIENCE_S),
                prompt=lambda: "hi",
                hand_over=lambda result: None,
                say=lambda said: None,
                ready=ready,
            )
        )
        assert asked == [1]
        assert len(server.bodies) == 3
