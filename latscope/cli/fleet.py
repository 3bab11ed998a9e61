"""`latscope sim fleet`: a fleet of batching servers, simulated, and the truth about every call."""

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from math import isfinite
from pathlib import Path
from typing import IO, Any

import click

from latscope.cli.output import Progress, json_line, screen
from latscope.errors import InputError, UsageError
from latscope.recording import Recording, line_pieces
from latscope.report.fleet import fleet_lines
from latscope.sim.fleet import recordings as recorded
from latscope.sim.fleet.arrivals import Call, Workload, drawn, parse
from latscope.sim.fleet.engine import Cost, Fleet, Run, simulate
from latscope.sim.fleet.state import Limits
from latscope.sim.fleet.summary import CAPACITY_CALLS, capacity, document, table_rows

COST = {
    "step_ms": ("step", 1e6),
    "prefill_us": ("prefill", 1e3),
    "attention_ns": ("attention", 1.0),
    "decode_us": ("decode", 1e3),
    "kv_ns": ("kv", 1.0),
}
"""Options that are constants of the cost of a step, and their unit in ns."""

TOKENS = click.IntRange(1, 10_000_000)
SPREAD = click.FloatRange(0, 5)
TIME = click.FloatRange(0, 1e9)


@click.command("fleet", short_help="a fleet of batching servers, and the truth about every call")
@click.option("--rate", type=click.FloatRange(0, 1e6, min_open=True), help="Calls a second (10).")
@click.option(
    "--load", type=click.FloatRange(0, 100, min_open=True), help="Rate, as a share of capacity."
)
@click.option("--calls", type=click.IntRange(1, 10_000_000), default=1000, show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option(
    "--arrivals",
    "pattern",
    type=click.Choice(("poisson", "constant", "burst")),
    default="poisson",
    show_default=True,
)
@click.option("--burst", type=click.IntRange(1), default=10, show_default=True, help="Its calls.")
@click.option(
    "--trace",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="CSV or JSONL: at_s, prompt, output [, max_tokens, prefix, shared, session, priority].",
)
@click.option("--prompt", type=TOKENS, default=512, show_default=True, help="Median tokens.")
@click.option("--prompt-spread", type=SPREAD, default=0.7, show_default=True, help="0: no spread.")
@click.option("--output", type=TOKENS, default=128, show_default=True, help="Median tokens.")
@click.option("--output-spread", type=SPREAD, default=0.5, show_default=True, help="0: no spread.")
@click.option("--prefixes", type=click.IntRange(0), default=0, help="Shared ones to draw from.")
@click.option("--prefix-tokens", type=TOKENS, default=512, show_default=True, help="Their length.")
@click.option("--replicas", type=click.IntRange(1, 1000), default=1, show_default=True)
@click.option(
    "--routing",
    type=click.Choice(("round-robin", "least-loaded", "prefix-affine")),
    default="round-robin",
    show_default=True,
)
@click.option("--max-num-seqs", type=click.IntRange(1), default=256, show_default=True)
@click.option("--max-num-batched-tokens", type=click.IntRange(1), default=2048, show_default=True)
@click.option("--long-prefill", type=click.IntRange(0), default=0, help="Tokens a step, 0: any.")
@click.option("--no-chunked-prefill", is_flag=True, help="Prompts are never cut.")
@click.option("--kv-blocks", "blocks", type=TOKENS, default=16_384, show_default=True)
@click.option("--block-size", type=click.IntRange(1), default=16, show_default=True)
@click.option("--no-prefix-caching", is_flag=True)
@click.option("--policy", type=click.Choice(("fcfs", "priority")), default="fcfs")
@click.option("--async-scheduling", is_flag=True, help="Plan a step while another runs.")
@click.option("--step-ms", type=TIME, default=6.0, show_default=True, help="Any step.")
@click.option("--prefill-us", type=TIME, default=30.0, show_default=True, help="A prompt token.")
@click.option("--attention-ns", type=TIME, default=1.0, show_default=True, help="... a pair.")
@click.option("--decode-us", type=TIME, default=20.0, show_default=True, help="A decoding call.")
@click.option("--kv-ns", type=TIME, default=50.0, show_default=True, help="... a context token.")
@click.option("--table", type=click.Path(dir_okay=False, path_type=Path), help="CSV or JSONL.")
@click.option(
    "--recordings",
    type=(click.IntRange(1), click.Path(dir_okay=False, path_type=Path)),
    metavar="N FILE",
    help="N calls, drawn by seed, as recordings with their truth.",
)
@click.option("--rtt-ms", type=TIME, default=2.0, show_default=True, help="Of the recordings.")
@click.option("--metrics", is_flag=True, help="The recordings hold vLLM's own figures.")
@click.option("--json", "as_json", is_flag=True, help="Everything as one JSON object.")
def fleet_command(
    as_json: bool, table: Path | None, recordings: tuple[int, Path] | None, **asked: Any
) -> None:
    """Simulates continuous batching: waiting queue, token budget, chunked prefill, KV memory with
    preemption, prefix cache, replicas. The same seed gives the same result, byte for byte.

    \b
      latscope sim fleet --load 0.9
      latscope sim fleet --rate 20 --replicas 2 --routing least-loaded --json
      latscope sim fleet --load 0.95 --recordings 200 calls.jsonl
      latscope explain calls.jsonl

    The table of truth, one row a call, goes to --table or else into the JSON.
    """
    count, file = recordings or (0, None)
    run, told = _served(count, asked)
    if table is not None:
        _write_table(table, table_rows(run.table))
    if file is not None:
        path = recorded.Path(rtt_ns=round(asked["rtt_ms"] * 1e6), metrics=asked["metrics"])
        _write_recordings(file, recorded.recordings(run, path))
    found = document(run, told, rows=as_json and table is None)
    if as_json:
        json_line(found)
        return
    out = screen()
    out.lines(fleet_lines(found, width=out.width, colours=out.colours))


def _served(traced: int, asked: Mapping[str, Any]) -> tuple[Run, Mapping[str, Any]]:
    """The run, and what to say of its traffic; so many of its calls traced."""
    for name, value in asked.items():
        if isinstance(value, float) and not isfinite(value):
            raise UsageError(f"--{name.replace('_', '-')}: {value} is no number")
    progress = Progress()
    try:
        fleet = _fleet(asked)
        traffic = _traffic(fleet, asked)
        trace = recorded.sampled(traffic.count, traced, asked["seed"])
        progress.begin(f"simulating {traffic.count} calls")
        return simulate(fleet, traffic.calls, trace=trace), traffic.told
    except OverflowError:
        raise UsageError("such a rate or such costs take more than 292 simulated years") from None
    finally:
        progress.end()


def _fleet(asked: Mapping[str, Any]) -> Fleet:
    if asked["max_num_batched_tokens"] < asked["max_num_seqs"]:
        raise UsageError("--max-num-batched-tokens must not be below --max-num-seqs")
    names = ("max_num_seqs", "max_num_batched_tokens", "long_prefill", "blocks", "block_size")
    limits = Limits(
        **{name: asked[name] for name in names},
        chunked=not asked["no_chunked_prefill"],
        caching=not asked["no_prefix_caching"],
        policy=asked["policy"],
        depth=2 if asked["async_scheduling"] else 1,
    )
    cost = Cost(**{name: asked[option] * unit for option, (name, unit) in COST.items()})
    return Fleet(limits=limits, cost=cost, replicas=asked["replicas"], routing=asked["routing"])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Traffic:
    """calls, in order of arrival; count: how many; told: what the result says of them."""

    calls: Iterable[Call]
    count: int
    told: Mapping[str, Any]


def _traffic(fleet: Fleet, asked: Mapping[str, Any]) -> _Traffic:
    trace, rate, load = asked["trace"], asked["rate"], asked["load"]
    if rate is not None and load is not None:
        raise UsageError("--rate and --load are two ways to say the same; give one")
    if trace is not None:
        if rate is not None or load is not None:
            raise UsageError("--trace says when calls arrive; --rate and --load cannot")
        calls = _read_trace(trace)
        told = {"trace": trace.name, "calls": len(calls), "seed": asked["seed"]}
        return _Traffic(calls=calls, count=len(calls), told=told)
    names = ("seed", "calls", "pattern", "burst", "prefixes", "prefix_tokens")
    lengths = ("prompt", "prompt_spread", "output", "output_spread")
    workload = Workload(**{name: asked[name] for name in (*names, *lengths)}, rate=rate or 10.0)
    workload = replace(
        workload,
        most_prompt=max(workload.most_prompt, workload.prompt),
        most_output=max(workload.most_output, workload.output),
    )
    if load is not None:
        some = replace(workload, calls=min(workload.calls, CAPACITY_CALLS))
        workload = replace(workload, rate=load * capacity(fleet, drawn(some)))
    told = {**asdict(workload), "load": load}
    return _Traffic(calls=drawn(workload), count=workload.calls, told=told)


def _read_trace(path: Path) -> list[Call]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            return parse(file, name=str(path))
    except UnicodeDecodeError:
        raise InputError(f"{path}: not UTF-8 text; a trace is CSV or JSONL") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


@contextmanager
def _written(path: Path, option: str) -> Iterator[IO[str]]:
    """The file, written anew."""
    try:
        with path.open("w", encoding="utf-8", newline="") as file:
            yield file
    except OSError as error:
        raise InputError(f"{option}: {path} cannot be written: {error.strerror}") from error


def _write_table(path: Path, rows: Iterable[Mapping[str, int]]) -> None:
    with _written(path, "--table") as file:
        if path.suffix.lower() != ".csv":
            file.writelines(json.dumps(row) + "\n" for row in rows)
            return
        writer: Any = None
        for row in rows:
            if writer is None:
                writer = csv.DictWriter(file, row, lineterminator="\n")
                writer.writeheader()
            writer.writerow(row)


def _write_recordings(path: Path, recordings: Iterable[Recording]) -> None:
    with _written(path, "--recordings") as file:
        for recording in recordings:
            file.writelines(line_pieces(recording))
            file.write("\n")
