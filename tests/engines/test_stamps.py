"""A real vLLM, stamped inside: the accounts agree, and the truth lies in the hard bounds.

The short version of benchmarks/stamps.py. It starts a server of its own, for two seats and stamps.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from latscope.units import MS, Ns
from tests.engines.conftest import need
from tests.engines.stamps import front, lines
from tests.engines.stamps.calls import Made, drawn, make
from tests.engines.stamps.judge import Judged, judged
from tests.engines.stamps.serve import stamped_vllm
from tests.engines.stamps.truth import Known, Range, Seen, complaints, join, known

CALLS = 12
INSIDE = 11
"""One call in twelve may meet a hiccup of the machine that no client can know of."""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[tuple[Made, Seen]]]:
    """Twelve calls, three at a time for two seats, and what the server saw of them."""
    need("vllm")
    folder = tmp_path_factory.mktemp("stamps")
    with stamped_vllm(folder) as server:
        asyncio.run(make(server, drawn(2, 1, 0), 1))
        yield join(folder, asyncio.run(make(server, drawn(CALLS, 3, 5), 3)))


@pytest.fixture(scope="module")
def verdicts(pairs: list[tuple[Made, Seen]]) -> list[Judged]:
    return [verdict for one, seen in pairs for verdict in judged(one, known(one, seen))]


def test_client_front_end_and_engine_agree(pairs: list[tuple[Made, Seen]]) -> None:
    """Instants in order, all bytes accounted for, vLLM's own figures within 2 ms of the stamps."""
    assert len(pairs) == CALLS
    assert {one.call.stream for one, _ in pairs} == {True, False}
    assert [found for one, seen in pairs for found in complaints(one, seen)] == []
    assert {len(seen.tokens) for _, seen in pairs} <= {1, 8, 32, 64}


def test_the_truth_adds_up(verdicts: list[Judged]) -> None:
    """Its least and its most have the whole between them, which is the one latscope measured."""
    for verdict in verdicts:
        parts = [(verdict.known.wall, verdict.found.wall_ns)]
        first = verdict.found.first_token_ns
        assert (verdict.known.ttft is None) == (first is None)
        if verdict.known.ttft is not None and first is not None:
            parts.append((verdict.known.ttft, first))
        for shares, whole in parts:
            least, most = (sum(share[end] for share in shares.values()) for end in (0, 1))
            assert least <= whole <= most
            assert min(shares["queue"][0], shares["prefill"][0], shares["network"][0]) > 0


def test_the_truth_lies_in_the_bounds(verdicts: list[Judged]) -> None:
    """Of wall and TTFT, with the server's figures and without; and nobody else is named winner."""
    outside = {verdict.made.request_id for verdict in verdicts if verdict.misses}
    assert len(outside) <= CALLS - INSIDE, [v.misses for v in verdicts if v.misses]
    assert {verdict.mode for verdict in verdicts} == {"reported", "blind", "bare"}
    assert "wrong" not in [verdict.winner for verdict in verdicts]


@pytest.mark.parametrize("by", [30 * MS, -30 * MS], ids=["to queue", "to prefill"])
def test_a_truth_that_is_another_is_noticed(pairs: list[tuple[Made, Seen]], by: Ns) -> None:
    """30 ms moved between them leave prefill outside the bounds of any call with figures."""
    for one, seen in pairs:
        moved = _moved(known(one, seen), by)
        for verdict in judged(one, moved):
            missed = {(miss.of, miss.segment) for miss in verdict.misses}
            assert ("wall", "prefill") in missed or verdict.mode != "reported"


def test_stamps_that_are_others_are_noticed(pairs: list[tuple[Made, Seen]]) -> None:
    """An engine stamp 3 ms late contradicts vLLM's own figures, or what came before it."""
    for one, seen in pairs:
        at = seen.tokens[-1][1] + 3 * MS
        late = replace(seen, scheduled=(at, at))
        assert list(complaints(one, late))


def _moved(found: Known, by: Ns) -> Known:
    prefill, queue = found.wall["prefill"], found.wall["queue"]
    shares = {"prefill": _shifted(prefill, -by), "queue": _shifted(queue, by)}
    return replace(found, wall={**found.wall, **shares})


def _shifted(share: Range, by: Ns) -> Range:
    return share[0] + by, share[1] + by


async def test_the_front_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages pass as they are; the line has bytes, ids and instants in order, and no text."""
    monkeypatch.setenv(lines.FOLDER, str(tmp_path))
    sent: list[front.Message] = []
    parts = [b'data: {"id":"cmpl-7","text":"canary"}\n\n', b"data: [DONE]\n\n"]

    async def app(scope: front.Message, receive: front.Receive, send: front.Send) -> None:
        assert (await receive())["more_body"]
        assert (await receive())["body"] == b"canary"
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    asked = iter([(b"ask ", True), (b"canary", False)])

    async def receive() -> front.Message:
        body, more = next(asked)
        return {"type": "http.request", "body": body, "more_body": more}

    async def send(message: front.Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/x", "headers": [(b"x-request-id", b"me")]}
    await front.StampedFront(app)(scope, receive, send)
    await asyncio.sleep(0)
    assert [message.get("body") for message in sent] == [None, *parts, b""]
    (line,) = lines.read(tmp_path, "front")
    assert (line["request_id"], line["answer_id"], line["status"]) == ("me", "cmpl-7", 200)
    assert [sends[1:3] for sends in line["sends"]] == [[0, 39], [39, 53]]
    instants = [line[f"{name}_ns"] for name in ("called", "received", "headers", "ended", "closed")]
    assert instants == sorted(instants)
    assert all(instants[2] <= sends[0] <= sends[3] for sends in line["sends"])
    assert "canary" not in json.dumps(line)
