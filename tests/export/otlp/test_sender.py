"""Requests are repeated where that may help; every item is accounted for, whatever happens."""

from collections.abc import Sequence

import pytest

from latscope.export.otlp.sender import Sender
from latscope.export.otlp.settings import Way
from latscope.export.otlp.transport import Answer

WAY = Way(signal="traces", protocol="http", url="http://host:4318/v1/traces")
OK = Answer(became="taken")
BUSY = Answer(became="later", said="503")
GONE = Answer(became="away", said="refused")


class Scripted:
    """Gives the answers in turn, the last one for ever."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.bodies: list[bytes] = []

    def send(self, body: bytes) -> Answer:
        self.bodies.append(body)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        pass


class Clock:
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0
        self.waits: list[float] = []

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.now += seconds


def sender(*answers: Answer, patience_s: float = 60.0) -> tuple[Sender[str], Scripted, Clock]:
    scripted, clock = Scripted(*answers), Clock()
    made = Sender[str](
        way=WAY,
        transport=scripted,
        pack=lambda items: "".join(items).encode(),
        patience_s=patience_s,
        wait=clock.wait,
        clock=lambda: clock.now,
        jitter=lambda: 1.0,
    )
    return made, scripted, clock


def counts(found: Sender[str]) -> tuple[int, int, int, int]:
    return found.taken, found.rejected, found.refused, found.unsent


def test_a_busy_collector_is_asked_again_with_growing_pauses() -> None:
    found, scripted, clock = sender(BUSY, BUSY, BUSY, OK)
    found.send(["a", "b"])
    assert counts(found) == (2, 0, 0, 0)
    assert clock.waits == [1.0, 2.0, 4.0]
    assert (found.requests, found.repeats) == (4, 3)
    assert set(scripted.bodies) == {b"ab"}


def test_the_collectors_own_delay_comes_first() -> None:
    found, _, clock = sender(Answer(became="later", said="429", after_s=7.0), OK)
    found.send(["a"])
    assert clock.waits == [pytest.approx(7.1)]


def test_patience_ends_and_nothing_more_is_sent() -> None:
    found, scripted, clock = sender(BUSY)
    found.send(["a"])
    assert clock.now <= 60
    asked = len(scripted.bodies)
    found.send(["b", "c"])
    assert len(scripted.bodies) == asked
    assert counts(found) == (0, 0, 0, 3)
    assert found.given_up == "503"
    assert found.unreachable


def test_a_delay_beyond_patience_is_not_waited_for() -> None:
    found, _, clock = sender(Answer(became="later", said="429", after_s=3600.0))
    found.send(["a"])
    assert clock.waits == []
    assert found.given_up == "429"


def test_a_first_connection_that_fails_is_told_at_once() -> None:
    found, scripted, _ = sender(GONE)
    found.send(["a"])
    assert len(scripted.bodies) == 1
    assert found.unreachable


def test_a_collector_that_goes_away_midway_is_waited_for() -> None:
    found, _, clock = sender(OK, GONE, GONE, OK)
    found.send(["a"])
    found.send(["b"])
    assert counts(found) == (2, 0, 0, 0)
    assert len(clock.waits) == 2


def test_a_request_that_is_too_large_is_cut_in_halves() -> None:
    large = Answer(became="larger", said="413")
    found, scripted, _ = sender(large, OK, large, OK, OK)
    found.send(["a", "b", "c", "d"])
    assert scripted.bodies == [b"abcd", b"ab", b"cd", b"c", b"d"]
    assert counts(found) == (4, 0, 0, 0)


def test_one_item_that_is_too_large_is_refused_and_the_others_go_on() -> None:
    found, _, _ = sender(Answer(became="larger", said="413"), OK)
    found.send(["a"])
    found.send(["b"])
    assert counts(found) == (1, 0, 1, 0)
    assert found.said == {"413": 1}


def test_what_was_rejected_by_name_is_counted_with_the_reason() -> None:
    found, _, _ = sender(Answer(became="taken", rejected=2, said="too old"), OK)
    found.send(["a", "b", "c"])
    assert counts(found) == (1, 2, 0, 0)
    assert found.said == {"too old": 2}


def test_more_rejected_than_sent_is_not_believed() -> None:
    found, _, _ = sender(Answer(became="taken", rejected=99, said="?"))
    found.send(["a"])
    assert counts(found) == (0, 1, 0, 0)


def test_a_refused_request_costs_itself_only() -> None:
    found, _, _ = sender(Answer(became="refused", said="400"), OK)
    found.send(["a", "b"])
    found.send(["c"])
    assert counts(found) == (1, 0, 2, 0)
    assert found.given_up is None


def test_a_collector_that_takes_no_such_signal_is_not_asked_again() -> None:
    found, scripted, _ = sender(Answer(became="never", said="404"))
    found.send(["a"])
    found.send(["b"])
    assert len(scripted.bodies) == 1
    assert counts(found) == (0, 0, 0, 2)
    assert not found.unreachable


@pytest.mark.parametrize("size", [1, 3])
def test_items_count_for_their_size(size: int) -> None:
    found, _, _ = sender(OK)
    found.size = lambda _: size
    items: Sequence[str] = ["a", "b"]
    found.send(items)
    assert found.taken == 2 * size
