"""Metrics of the server's own Prometheus page while a call ran, from `latscope.series/1` readings.

Two ways to name them: `server.kv_usage` and its like are one word for what every engine calls
differently; `server.NAME` with the engine's own name (`server.vllm:num_requests_waiting`) is that
figure as it stands. All of them speak of the whole server, not of the call.

`Board` holds the readings; `Board.of(call)` is what belongs into the call's mapping under
`server_series`, for the metrics to read. A level (requests waiting) is the mean of the readings
from the last before the call to the first after it, a level of which the height matters (the KV
cache in use) the highest; a counter is how much it grew between these two, absent where either is
missing or the server started anew.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, Protocol
from urllib.parse import urlsplit

from latscope.rules.metrics.around import numbers
from latscope.rules.metrics.metric import Call, Columns, Metric, Unit, Value
from latscope.units import S, wall_s

KEY = "server_series"
"""Where in a call's mapping the readings lie."""
NEAR_S = 10.0
"""A reading so far from the call says nothing of it any more: a page is read every second."""
COUNTERS = ("_total", "_sum", "_count")
"""How the names of counters end (the text format's own rule); all else is a level."""
COLLECT = "read the server's metrics beside the calls: latscope probe --metrics URL"


class Reading(Protocol):
    """One line of `latscope.series/1`."""

    @property
    def at(self) -> str: ...
    @property
    def source(self) -> str: ...
    @property
    def values(self) -> Mapping[str, float]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """One word for what engines call differently. level: the engines' names of it. grown: names of
    a counter. ratio: (numerator, denominator) of what grew; with `seconds` the result is a time."""

    word: str
    unit: Unit
    means: str
    level: tuple[str, ...] = ()
    grown: tuple[str, ...] = ()
    ratio: tuple[tuple[str, str], ...] = ()
    fold: Literal["mean", "most"] = "mean"
    seconds: bool = False


def _means(name: str) -> tuple[str, str]:
    """The two counters of a histogram: their quotient is its mean."""
    return f"{name}_sum", f"{name}_count"


WORDS: tuple[Word, ...] = (
    Word(
        word="running",
        unit="count",
        means="requests in the engine's batch, on average while the call ran",
        level=(
            "vllm:num_requests_running",
            "sglang:num_running_reqs",
            "llamacpp:requests_processing",
            "tgi_batch_current_size",
        ),
    ),
    Word(
        word="waiting",
        unit="count",
        means="requests waiting for the engine, on average while the call ran",
        level=(
            "vllm:num_requests_waiting",
            "sglang:num_queue_reqs",
            "llamacpp:requests_deferred",
            "tgi_queue_size",
        ),
    ),
    Word(
        word="kv_usage",
        unit="share",
        means="share of the KV cache in use at its highest while the call ran (the fullest engine)",
        level=(
            "vllm:kv_cache_usage_perc",
            "vllm:gpu_cache_usage_perc",
            "sglang:token_usage",
            "llamacpp:kv_cache_usage_ratio",
        ),
        fold="most",
    ),
    Word(
        word="preemptions",
        unit="count",
        means="requests thrown out of the batch while the call ran (SGLang: retracted)",
        level=("sglang:num_retracted_reqs",),
        grown=("vllm:num_preemptions_total",),
        fold="most",
    ),
    Word(
        word="cache_hits",
        unit="share",
        means="share of prompt tokens the prefix cache had, of all requests while the call ran",
        level=("sglang:cache_hit_rate",),
        ratio=(("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),),
    ),
    Word(
        word="queue_time",
        unit="ns",
        means="mean wait for the engine, of all requests that ended while the call ran",
        ratio=(
            _means("vllm:request_queue_time_seconds"),
            _means("sglang:queue_time_seconds"),
            _means("tgi_request_queue_duration"),
        ),
        seconds=True,
    ),
    Word(
        word="prefill_time",
        unit="ns",
        means="mean prefill, of all requests that ended while the call ran",
        ratio=(_means("vllm:request_prefill_time_seconds"),),
        seconds=True,
    ),
    Word(
        word="first_token_time",
        unit="ns",
        means="mean time from arrival to first token, of all requests while the call ran",
        ratio=(
            _means("vllm:time_to_first_token_seconds"),
            _means("sglang:time_to_first_token_seconds"),
        ),
        seconds=True,
    ),
    Word(
        word="step_time",
        unit="ns",
        means="mean time between tokens, of all requests while the call ran",
        ratio=(
            _means("vllm:inter_token_latency_seconds"),
            _means("sglang:inter_token_latency_seconds"),
        ),
        seconds=True,
    ),
)

MOST = frozenset(name for word in WORDS if word.fold == "most" for name in word.level)


def _of(word: str, call: Call) -> Value:
    found: Mapping[str, float] = call.get(KEY) or {}
    return found.get(word)


def _row(word: Word) -> Metric:
    return Metric(
        name=f"server.{word.word}",
        unit=word.unit,
        means=word.means,
        of=lambda call: _of(word.word, call),
        modes=("self-hosted", "on-device"),
        collect=COLLECT,
    )


FULL = 0.9
"""Of the KV cache: with less room the next long request has none."""


def _kv_pressed(columns: Columns) -> Sequence[Value]:
    """Full, and somebody suffers from it."""
    names = ("server.kv_usage", "server.preemptions", "server.waiting")
    return [
        None
        if usage is None
        else float(usage >= FULL and ((thrown or 0.0) > 0 or (waiting or 0.0) > 0))
        for usage, thrown, waiting in zip(*(numbers(columns[name]) for name in names), strict=True)
    ]


ROWS: tuple[Metric, ...] = (
    *map(_row, WORDS),
    Metric(
        name="kv_pressed",
        unit="truth",
        means="whether the KV cache was 90 % full and requests waited or were thrown out",
        over=_kv_pressed,
        needs=("server.kv_usage", "server.preemptions", "server.waiting"),
        modes=("self-hosted", "on-device"),
        collect=COLLECT,
    ),
)


class Board:
    """Readings in order of time, by source."""

    def __init__(self, series: Iterable[Reading]) -> None:
        read = sorted((wall_s(one.at), one.source, one.values) for one in _dated(series))
        self._at: dict[str, list[float]] = {}
        self._values: dict[str, list[Mapping[str, float]]] = {}
        for at, source, values in read:
            self._at.setdefault(source, []).append(at)
            self._values.setdefault(source, []).append(values)

    def of(self, call: Call) -> Mapping[str, float]:
        """What the server said while the call ran, by the engine's own names and by WORDS; empty
        where no reading is near, or several servers were read and none is the call's."""
        source = self._source(str(call.get("endpoint", "")))
        if source is None:
            return {}
        began = wall_s(str(call["started_at"]))
        readings = self._around(source, began, began + call["wall_ns"] / S)
        found: dict[str, float] = {}
        for name in {name for reading in readings for name in reading}:
            value = _figure(name, readings)
            if value is not None:
                found[name] = value
        return {**found, **_words(found)}

    def _source(self, endpoint: str) -> str | None:
        if len(self._at) == 1:
            return next(iter(self._at))
        host = urlsplit(endpoint).netloc
        return next((source for source in self._at if urlsplit(source).netloc == host), None)

    def _around(self, source: str, began: float, ended: float) -> Sequence[Mapping[str, float]]:
        """The readings from the last before the call to the first after it."""
        at = self._at[source]
        first = bisect_right(at, began) - 1
        last = bisect_left(at, ended)
        if first < 0 or began - at[first] > NEAR_S:
            first += 1
        if last == len(at) or at[last] - ended > NEAR_S:
            last -= 1
        return self._values[source][first : last + 1]


def _dated(series: Iterable[Reading]) -> Iterable[Reading]:
    return (one for one in series if wall_s(one.at))


def _figure(name: str, readings: Sequence[Mapping[str, float]]) -> float | None:
    """One level's mean or height, or what a counter grew by from the first reading to the last."""
    if name.partition("{")[0].endswith(COUNTERS):
        if len(readings) < 2 or name not in readings[-1]:
            return None
        # A counter appears on some pages with its first value only.
        grown = readings[-1][name] - readings[0].get(name, 0.0)
        return grown if grown >= 0 else None
    values = [reading[name] for reading in readings if name in reading]
    return max(values) if name in MOST else fmean(values)


def _words(found: Mapping[str, float]) -> dict[str, float]:
    told = ((word.word, _word(word, found)) for word in WORDS)
    return {word: value for word, value in told if value is not None}


def _word(word: Word, found: Mapping[str, float]) -> float | None:
    for name in (*word.level, *word.grown):
        if name in found:
            return found[name]
    for above, below in word.ratio:
        if found.get(below) and above in found:
            return found[above] / found[below] * (S if word.seconds else 1)
    return None
