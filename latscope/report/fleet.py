"""A simulated fleet's run as text: times, where they went, how busy the servers were."""

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any

from rich.text import Text

from latscope.attribution.model import Segment
from latscope.report import figures
from latscope.report.bars import Canvas, colour, strip_cells
from latscope.report.terminal import append_bar
from latscope.report.view import Share
from latscope.units import MS

TIMES = (("ttft", "TTFT"), ("itl", "ITL"), ("e2e", "E2E"))
SEGMENTS: tuple[Segment, ...] = ("queue", "prefill", "decode")
WHOLE = 1_000_000


def fleet_lines(found: Mapping[str, Any], *, width: int, colours: bool) -> Iterator[Text]:
    """found: `latscope.fleet/1`."""
    told = found["summary"]
    for line in wrap(_title(found), width):
        yield Text(line, "bold")
    yield Text(f"{'':<10}{'p50':>9}{'p95':>10}{'of E2E':>9}{'of TTFT':>9}", "dim")
    for key, name in TIMES:
        yield _row(name, told[key], "")
    for name in SEGMENTS:
        yield _row(name, told[name], colour(name, colours))
    shares = [Share(candidates=(name,), ns=round(WHOLE * told[name]["share"])) for name in SEGMENTS]
    strip = Text()
    canvas = Canvas(label=0, bar=min(width, 100), colours=colours)
    append_bar(strip, strip_cells(shares, WHOLE, canvas))
    yield strip
    for said in _use(told):
        yield from (Text(line) for line in wrap(said, width))


def _title(found: Mapping[str, Any]) -> str:
    told, replicas = found["summary"], found["fleet"]["replicas"]
    servers = "1 replica" if replicas == 1 else f"{replicas} replicas, {found['fleet']['routing']}"
    rate = f"{told['calls_per_s']:.1f} calls/s done"
    if found["workload"].get("rate") is not None:
        rate = f"{found['workload']['rate']:.1f} calls/s asked for, {rate}"
    took = figures.duration(told["took_ns"], MS)
    return f"{figures.count(told['calls'])} calls in {took} on {servers}: {rate}"


def _row(name: str, row: Mapping[str, Any], style: str) -> Text:
    line = Text()
    line.append(f"{name:<10}", style)
    line.append(f"{figures.duration(row['p50_ns'], MS // 10):>9}")
    line.append(f"{figures.duration(row['p95_ns'], MS // 10):>10}")
    for key in ("share", "ttft_share"):
        if key in row:
            line.append(f"{figures.percent(row[key], 1):>9}")
    return line


def _use(told: Mapping[str, Any]) -> Iterator[str]:
    use = told["utilisation"]
    yield (
        f"busy {figures.percent(use['busy'], 1)} of the time, {use['running']:.1f} calls a step,"
        f" KV memory at most {figures.percent(use['kv_peak'], 1)} full,"
        f" {told['output_tokens_per_s']:.0f} output tokens/s"
    )
    if len(use["replicas"]) > 1:
        each = (f"{one['calls']} ({figures.percent(one['busy'], 1)})" for one in use["replicas"])
        yield "calls by replica (busy): " + ", ".join(each)
    hits = figures.percent(told["cache_hit_share"], 1)
    yield (
        f"found in the prefix cache: {hits} of prompt tokens;"
        f" preemptions: {told['preemptions']} in {told['calls_preempted']} calls"
    )
