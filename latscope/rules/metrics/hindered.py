"""Metrics of what kept an answer back: a hop that lets it go in lumps, a reader that was late, a
neighbour's prompt that was computed meanwhile."""

from collections.abc import Sequence
from statistics import median

from latscope.rules.metrics.around import LONG, numbers
from latscope.rules.metrics.ends import failed
from latscope.rules.metrics.metric import Call, Columns, Metric, Value
from latscope.units import MS

FELT = 100 * MS
"""Silences shorter than this read as a flow."""
TOGETHER = MS
"""Gaps below this are one lump: no model makes tokens so fast."""
OURS = 0.25
"""Of the answer's time: where the reader may have kept so much, lumps may be its own making."""
QUIET = 1000
"""Uncached tokens of a neighbour that count as none."""


def _at_most(call: Call) -> Value:
    if failed(call):
        return None
    for share in call["segments"]:
        if share["name"] == "client":
            slept = sum(part["ns"] for part in share["parts"] if part["name"] == "retry")
            return float(share["high_ns"] - slept)
    return None


def _lumps(columns: Columns) -> Sequence[Value]:
    names = ("at_once", "itl_p50", "itl_max", "client.at_most", "e2e", "ttft")
    rows = zip(*(numbers(columns[name]) for name in names), strict=True)
    return [_in_lumps(*row) for row in rows]


def _in_lumps(
    at_once: float | None,
    p50: float | None,
    longest: float | None,
    ours: float | None,
    e2e: float | None,
    ttft: float | None,
) -> Value:
    """Null where the reader may have made the lumps itself by asking late."""
    if at_once or p50 is None or longest is None:
        return at_once
    if p50 >= TOGETHER or longest < FELT:
        return 0.0
    if ours is None or e2e is None or ttft is None or ours > OURS * (e2e - ttft):
        return None
    return 1.0


def _delay(columns: Columns) -> Sequence[Value]:
    """0 where no long prompt was computed meanwhile."""
    pairs = [*zip(numbers(columns["neighbour_prefill"]), numbers(columns["itl_max"]), strict=True)]
    alone = [gap for size, gap in pairs if gap is not None and size is not None and size < QUIET]
    usual = median(alone) if alone else None
    found: list[Value] = []
    for size, gap in pairs:
        if size is None or gap is None:
            found.append(None)
        elif size < LONG:
            found.append(0.0)
        else:
            found.append(None if usual is None else max(0.0, gap - usual))
    return found


ROWS: tuple[Metric, ...] = (
    Metric(
        name="client.at_most",
        unit="ns",
        means="what the caller's own process cost at most, sleeps before a retry left out: a reader"
        " that asks late hides whether the tokens were there",
        of=_at_most,
    ),
    Metric(
        name="lumps",
        unit="truth",
        means="whether the answer came all at once, or most tokens together with the one before and"
        " silences of 100 ms or more between; not told where the reader itself was late",
        over=_lumps,
        needs=("at_once", "itl_p50", "itl_max", "client.at_most", "e2e", "ttft"),
        collect="stream the calls",
    ),
    Metric(
        name="neighbour_delay",
        unit="ns",
        means="by how much its longest gap exceeded the usual one, where a prompt of 4,000 uncached"
        " tokens began while its tokens came; 0 where none did",
        over=_delay,
        needs=("neighbour_prefill", "itl_max"),
        collect="record all clients of the server in one file",
    ),
)
