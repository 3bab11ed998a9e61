"""A whole stream's quantum, told from its arrivals."""

from latscope.attribution.quanta import Quantum, of_stream
from latscope.attribution.schedule import schedule
from latscope.timeline import Arrival
from latscope.units import MS, Ns, Span


def arrival(at: Ns, *, choice: int = 0, offset: int = 0) -> Arrival:
    return Arrival(Span(at, at), "content", choice, 1, 0, offset)


def bursts(gaps: list[Ns], sizes: list[int], *, choices: int = 1) -> list[Arrival]:
    at, offset = 0, 0
    found: list[Arrival] = []
    for gap, size in zip(gaps, sizes, strict=True):
        at += gap
        for _ in range(size):
            offset += 200 + offset % 7
            found.append(arrival(at, choice=len(found) % choices, offset=offset))
    return found


def of(arrivals: list[Arrival]) -> Quantum | None:
    return of_stream(arrivals, schedule(arrivals))


SIZES = [11, 12, 13, 12, 13, 12, 13, 12, 3]


def test_bursts_on_a_beat_of_the_clock_are_told() -> None:
    found = of(bursts([150 * MS] * 9, SIZES))
    assert found == Quantum(what="time", size=150 * MS, spread=0.0)


def test_counts_that_are_mostly_alike_do_not_outdo_an_exact_beat() -> None:
    sizes = [11, 12, 13, 12, 12, 12, 13, 12, 3]
    gaps = [150 * MS, 151 * MS, 150 * MS] * 3
    found = of(bursts(gaps, sizes))
    assert found is not None
    assert found.what == "time"


def test_a_steady_stream_has_none() -> None:
    assert of([arrival(index * 20 * MS) for index in range(60)]) is None
    assert of([]) is None


def test_of_several_choices_nothing_is_said() -> None:
    assert of(bursts([150 * MS] * 9, SIZES, choices=2)) is None
