"""Metrics of how an answer was delivered: in bursts, by a clock, by bytes; cut off at some age;
given up by the client."""

from collections.abc import Sequence
from statistics import median

from latscope.rules.metrics.around import numbers
from latscope.rules.metrics.ends import failed
from latscope.rules.metrics.metric import Call, Columns, Metric, Value
from latscope.units import MS, S

FELT = 100 * MS
"""Bursts closer together than this read as a flow, unless each holds MANY tokens."""
SEEN = 60 * MS
MANY = 8
"""Tokens' worth of time between two bursts, from which on SEEN is enough: more than a step of
speculative decoding makes, so that something collected them."""
TOGETHER = MS
SEVERAL = 15
"""Tokens' worth of time in one silence, from which on the few bursts of a short answer count: of
smaller ones there are more than one in 20 gaps, which `itl_p95` shows."""
OURS = 0.25
"""Of the stream's time: a reader that may have kept so much makes bursts itself."""
LIMITS = (15, 29, 30, 60, 100, 120, 125, 180, 240, 300, 600, 900)
"""Seconds after which hops and platforms commonly end a request: the defaults of their makers."""
NEAR = 1.2 * S
"""A cut comes a little after its limit: the connection is older, the notice takes time."""
ALIKE = 0.05
LEAST = 3
"""Of fewer ends nothing is alike."""
WAITED = frozenset({"ReadTimeout", "APITimeoutError", "TimeoutError", "TimeoutException"})
"""Class names for a client that gave up waiting for bytes."""


def _quantum(call: Call, what: str) -> Value:
    """The quantum's size; null where the answer came in none of this kind."""
    found = call.get("quantum")
    return float(found["size"]) if found and found["what"] == what else None


def _kind(call: Call) -> Value:
    found = call.get("quantum")
    return found["what"] if found else None


def _by(call: Call, what: str) -> Value:
    """Told of every answer whose gaps are known: most come in no quantum."""
    return None if call.get("itl") is None else float(_kind(call) == what)


def _at_most(call: Call) -> Value:
    if failed(call):
        return None
    for share in call["segments"]:
        if share["name"] == "client":
            slept = sum(part["ns"] for part in share["parts"] if part["name"] == "retry")
            return float(share["high_ns"] - slept)
    return None


def _bunched(columns: Columns) -> Sequence[Value]:
    names = ("at_once", "itl_p50", "itl_p95", "itl_max", "output_tokens", "e2e", "ttft")
    told = [numbers(columns[name]) for name in (*names, "client.at_most")]
    rows = zip(columns["quantum.what"], *told, strict=True)
    return [_burst(*row) for row in rows]


def _burst(
    what: Value,
    at_once: float | None,
    p50: float | None,
    p95: float | None,
    most: float | None,
    tokens: float | None,
    e2e: float | None,
    ttft: float | None,
    ours: float | None,
) -> Value:
    """Null where the reader may have made the bursts itself by asking late."""
    if at_once or p50 is None or p95 is None:
        return 1.0 if at_once else at_once
    stream = None if e2e is None or ttft is None else e2e - ttft
    together = p50 < TOGETHER
    felt = p95 >= FELT and (what is not None or together)
    if together and not felt and most is not None and tokens and stream is not None:
        each = stream / tokens
        felt = p95 >= max(SEEN, MANY * each) or most >= max(FELT, SEVERAL * each)
    if felt and ours is not None and stream is not None and ours > OURS * stream:
        return None
    return float(felt)


# -- how it ended ----------------------------------------------------------------------------------


def _patience(call: Call) -> Value:
    """Only where no byte had come: later, the silence before the end is not known."""
    error = call.get("error")
    if error is None or call.get("first_byte_ns") is not None or call.get("http_status"):
        return None
    if str(error["type"]).rpartition(".")[2] not in WAITED:
        return None
    return float(call["wall_ns"] - (call.get("sent_ns") or 0))


def alike(values: Sequence[float | None]) -> list[Value]:
    """Of each value that is told, whether it lies within 5 % of their median: one clock ended them
    all; null where fewer than three are told."""
    told = [value for value in values if value is not None]
    if len(told) < LEAST:
        return [None] * len(values)
    middle = median(told)
    return [
        None if value is None else float(abs(value - middle) <= ALIKE * middle) for value in values
    ]


def _one_patience(columns: Columns) -> Sequence[Value]:
    return alike(numbers(columns["patience"]))


def _client_patience(columns: Columns) -> Sequence[Value]:
    told = [value for value in numbers(columns["patience"]) if value is not None]
    return [median(told) if told else None] * len(columns["patience"])


def _cut_alike(columns: Columns) -> Sequence[Value]:
    return alike(numbers(columns["cut_age"]))


def _cut_limit(columns: Columns) -> Sequence[Value]:
    return [_limit(age) for age in numbers(columns["cut_age"])]


def _limit(age: float | None) -> Value:
    """The nearest of LIMITS a cut comes at or shortly after; 0 where it is near none."""
    if age is None:
        return None
    near = [limit * S for limit in LIMITS if -NEAR / 4 <= age - limit * S <= NEAR]
    return float(min(near, key=lambda limit: abs(age - limit), default=0))


ROWS: tuple[Metric, ...] = (
    Metric(
        name="time_quantum",
        unit="truth",
        means="whether the tokens came in bursts on a beat of the clock",
        of=lambda call: _by(call, "time"),
    ),
    Metric(
        name="byte_quantum",
        unit="truth",
        means="whether the tokens came in bursts of so many bytes",
        of=lambda call: _by(call, "bytes"),
    ),
    Metric(
        name="beat",
        unit="ns",
        means="time between two bursts, where they come on a beat of the clock",
        of=lambda call: _quantum(call, "time"),
    ),
    Metric(
        name="block",
        unit="bytes",
        means="bytes of a burst, where all have as many",
        of=lambda call: _quantum(call, "bytes"),
    ),
    Metric(
        name="bunched",
        unit="truth",
        means="whether the answer came all at once, or in bursts 100 ms or more apart (60 ms where"
        " each is worth eight tokens); not told where the reader itself may have been late",
        over=_bunched,
        needs=(
            "at_once",
            "quantum.what",
            "itl_p50",
            "itl_p95",
            "itl_max",
            "output_tokens",
            "e2e",
            "ttft",
            "client.at_most",
        ),
        collect="stream the calls",
    ),
    Metric(
        name="client.at_most",
        unit="ns",
        means="what the caller's own process cost at most, sleeps before a retry left out: a reader"
        " that asks late hides whether the tokens were there",
        of=_at_most,
    ),
    Metric(
        name="patience",
        unit="ns",
        means="how long a client waited without a byte until it gave up",
        of=_patience,
    ),
    Metric(
        name="one_patience",
        unit="truth",
        means="whether a call was given up after the same time as the others (within 5 %)",
        over=_one_patience,
        needs=("patience",),
    ),
    Metric(
        name="client_patience",
        unit="ns",
        means="after how long the group's clients give up: the median patience, told of every call",
        over=_client_patience,
        needs=("patience",),
    ),
    Metric(
        name="cut_alike",
        unit="truth",
        means="whether a stream was cut at the same age as the others (within 5 %)",
        over=_cut_alike,
        needs=("cut_age",),
    ),
    Metric(
        name="cut_limit",
        unit="ns",
        means="the usual limit (15, 29, 30, 60, 100, 120, 125 s ...) it was cut at; 0: at none",
        over=_cut_limit,
        needs=("cut_age",),
    ),
)
