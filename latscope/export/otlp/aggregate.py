"""Points of calls, each recorded once, as the series that a metrics store keeps.

A live exporter states its sums every so often; of recorded calls the same is made afterwards, with
the times of then: one state for each minute in which a series grew. Sums start at the first call's
minute with a stated zero, and the state before each growth is repeated, so that a rate over any
window sees all of it, however sparse the calls.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from latscope.export.otel.rows import Instrument, MetricPoint, Value
from latscope.units import Ns, S

STEP_NS: Ns = 60 * S


@dataclass(frozen=True, slots=True, kw_only=True)
class Exemplar:
    """A call that a point counted: when it ended, what it added, and its span."""

    unix_ns: int
    value: float
    trace_id: str
    span_id: str


@dataclass(frozen=True, slots=True)
class Series:
    """One metric under one set of attributes, these ordered by name."""

    instrument: Instrument
    attributes: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """The state of a series at `unix_ns`, counted from `start_unix_ns`."""

    start_unix_ns: int
    unix_ns: int
    count: int
    sum: float
    buckets: tuple[int, ...]
    exemplar: Exemplar | None = None


@dataclass(slots=True)
class _Cell:
    """Mutable: what one series gained within one step."""

    count: int = 0
    sum: float = 0.0
    buckets: list[int] = field(default_factory=list)
    exemplar: Exemplar | None = None

    def add(self, instrument: Instrument, value: float, exemplar: Exemplar | None) -> None:
        self.count += 1
        self.sum += value
        if instrument.buckets:
            if not self.buckets:
                self.buckets = [0] * (len(instrument.buckets) + 1)
            # A bucket holds what is at most its bound (OTLP: the upper bound is inclusive).
            self.buckets[bisect_left(instrument.buckets, value)] += 1
        if exemplar is not None and (self.exemplar is None or value > self.exemplar.value):
            self.exemplar = exemplar  # the slowest: the one somebody will want to look at


class Aggregate:
    """Mutable: every series so far. Its size follows the series and the minutes that hold calls,
    not the calls."""

    def __init__(self) -> None:
        self._cells: dict[Series, dict[int, _Cell]] = {}
        self._ends: dict[int, int] = {}
        """Step -> the end of the last call in it: no state is stated before it is reached."""

    def add(
        self,
        points: Sequence[MetricPoint],
        *,
        end_unix_ns: int,
        trace: tuple[str, str] | None = None,
    ) -> None:
        """Adds one call's points. trace: the ids of its span, where one is exported."""
        step = -(-end_unix_ns // STEP_NS)
        self._ends[step] = max(end_unix_ns, self._ends.get(step, 0))
        for point in points:
            cell = self._cells.setdefault(_series(point), {}).setdefault(step, _Cell())
            for value in point.values:
                exemplar = None
                if trace is not None and point.instrument.buckets:
                    exemplar = Exemplar(
                        unix_ns=end_unix_ns, value=value, trace_id=trace[0], span_id=trace[1]
                    )
                cell.add(point.instrument, value, exemplar)

    def __len__(self) -> int:
        return len(self._cells)

    def series(self, *, delta: bool) -> Iterator[tuple[Series, list[Point]]]:
        """Each series with its points in order of time. delta: each counts from the point before;
        else all count from the same start."""
        start = (min(self._ends) - 1) * STEP_NS if self._ends else 0
        for series, cells in self._cells.items():
            yield series, list(self._deltas(cells) if delta else self._sums(series, cells, start))

    def _deltas(self, cells: Mapping[int, _Cell]) -> Iterator[Point]:
        for step, cell in sorted(cells.items()):
            yield _point((step - 1) * STEP_NS, self._ends[step], cell, cell.exemplar)

    def _sums(self, series: Series, cells: Mapping[int, _Cell], start: int) -> Iterator[Point]:
        total = _Cell(buckets=[0] * (len(series.instrument.buckets) + 1))
        told = start - 1
        for step, cell in sorted(cells.items()):
            before = (step - 1) * STEP_NS
            if told < before:
                yield _point(start - STEP_NS, before, total, None)
            total.count += cell.count
            total.sum += cell.sum
            for at, n in enumerate(cell.buckets):
                total.buckets[at] += n
            told = self._ends[step]
            yield _point(start - STEP_NS, told, total, cell.exemplar)


def _point(start: int, at: int, cell: _Cell, exemplar: Exemplar | None) -> Point:
    return Point(
        start_unix_ns=start,
        unix_ns=at,
        count=cell.count,
        sum=cell.sum,
        buckets=tuple(cell.buckets),
        exemplar=exemplar,
    )


def _series(point: MetricPoint) -> Series:
    return Series(point.instrument, tuple(sorted(point.attributes.items())))
