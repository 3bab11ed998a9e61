"""`latscope join`: what servers traced of recorded calls, and what a Prometheus kept of the servers
meanwhile, joined to the recordings."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import click

from latscope.cli.output import Progress, json_line, say
from latscope.errors import InputError, UsageError
from latscope.recording import ServerSpan
from latscope.report.figures import counted
from latscope.timeline.joins import Call, Summary

if TYPE_CHECKING:
    from latscope.documents.spans import Source

TOLD = 10
"""Lines left out that are told one by one."""
EVERY = 500
"""Recordings between two looks of the progress line."""
SCHEMA = "latscope.join/1"

WORDS = {
    "parent": "by parent span",
    "chain": "through further spans",
    "response_id": "by response id",
    "request_id": "by request id",
    "time": "by time",
}


@click.command("join", short_help="server spans joined to recorded calls")
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=str)
@click.option(
    "--spans", "span_files", multiple=True, metavar="FILE", type=str, help="Spans; repeatable."
)
@click.option(
    "--listen", metavar="HOST:PORT", help="Take spans over OTLP/HTTP first, until Ctrl-C."
)
@click.option("--for", "for_", metavar="TIME", help="End --listen after so long: 30s, 5m.")
@click.option("--metrics", metavar="URL", type=str, help="A Prometheus, asked for the calls' time.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Instead of stdout."
)
@click.option("--json", "as_json", is_flag=True, help="What was joined, as one JSON line.")
def join_command(
    files: tuple[str, ...],
    span_files: tuple[str, ...],
    listen: str | None,
    for_: str | None,
    metrics: str | None,
    output: Path | None,
    as_json: bool,
) -> int:
    """Joins the spans that servers exported to the calls recorded in FILE... (`-` reads stdin).

    \b
      latscope join calls.jsonl --spans traces.json -o joined.jsonl
      latscope join calls.jsonl --listen 127.0.0.1:4318 -o joined.jsonl
      latscope explain joined.jsonl

    Spans are OTLP JSON as a collector's file exporter writes it, or what the API of Jaeger or Tempo
    gives. A call is found by its parent span, through further spans, by the id of its answer or
    request, or as the only one of its trace at that time; what fits twice is left out and counted.
    --listen takes spans as servers and collectors send them (OTLP/HTTP, at /v1/traces), then reads
    FILE... and joins; whoever reaches the address can send.
    --metrics asks a Prometheus (http://host:9090) what the servers stated from 5 s before the first
    call to 5 s after the last, and adds it behind the recordings as lines of latscope.series/1.
    With -o the account is the result, on stdout; else the recordings are, and it goes to stderr.
    """
    from latscope.documents import spans as documents

    if not span_files and listen is None and metrics is None:
        raise UsageError(
            "join needs spans or metrics: --spans FILE (OTLP, Jaeger or Tempo JSON),"
            " --listen HOST:PORT, --metrics URL"
        )
    if for_ is not None and listen is None:
        raise UsageError("--for says how long --listen HOST:PORT goes on")
    if [*files, *span_files].count("-") > 1:
        raise UsageError("- (stdin) can be read only once")
    told = Told()
    came = [] if listen is None else _listened(listen, for_)
    with documents.sources(files) as sources:
        found = [*read_spans(span_files, told), *came]
        keys = _keys(sources, told)
        joined = documents.joins(keys, found)
        series = [] if metrics is None else read_series(metrics, keys)
        with _out(output) as out:
            rest = iter(joined.spans)
            new = dict.fromkeys(series)
            for source in sources:
                for line in documents.joined_lines(source, rest):
                    new.pop(line, None)  # joined before, with the same time asked for
                    out.write(line)
            out.writelines(new)
    told.say()
    said = [*account(joined.summary)] if span_files or came else []
    if metrics is not None:
        said.append(f"{counted(len(series), 'line')} of series from the Prometheus")
    _account(said, to_mapping(joined.summary, told, len(series)), output, as_json)
    return 0


def _listened(listen: str, for_: str | None) -> list[ServerSpan]:
    from latscope.cli import receiving

    for_s = receiving.seconds(for_, "--for")
    return receiving.listened(receiving.receiver_at(listen, "--listen"), for_s, Progress())


def _keys(sources: Sequence["Source"], told: "Told") -> list[Call]:
    from latscope.documents import spans as documents

    progress = Progress()
    keys: list[Call] = []
    for source in sources:
        for key in documents.keys(source, problems=told.recordings):
            keys.append(key)
            if len(keys) % EVERY == 0:
                progress.reached(f"{counted(len(keys), 'call')} read")
    progress.end()
    return keys


def read_series(url: str, calls: Sequence[Call]) -> list[bytes]:
    """Lines of what the Prometheus at `url` kept while the calls ran."""
    from latscope.documents.series import to_line
    from latscope.probe import prometheus

    timed = [(call.start_unix_ns, call.wall_ns) for call in calls if call.start_unix_ns is not None]
    if not timed:
        raise InputError("--metrics: no call has a readable started_at, so no time to ask for")
    found = prometheus.read(
        url, first=min(start for start, _ in timed), last=max(start + wall for start, wall in timed)
    )
    return [to_line(series).encode() + b"\n" for series in found]


class Told:
    """Mutable: what could not be used, of the spans and of the recordings."""

    def __init__(self) -> None:
        self.spans: list[str] = []
        self.recordings: list[str] = []

    def say(self) -> None:
        """The first few; the others are counted."""
        every = [*self.spans, *self.recordings]
        for problem in every[:TOLD]:
            say(problem)
        if len(every) > TOLD:
            say(f"and {counted(len(every) - TOLD, 'more line')} that could not be used")


def read_spans(files: Sequence[str], told: Told) -> list[ServerSpan]:
    """The spans of all the files."""
    from latscope.documents import spans as documents

    return [span for file in files for span in documents.read(file, problems=told.spans)]


@contextmanager
def _out(output: Path | None) -> Iterator[BinaryIO]:
    from latscope.documents import spans as documents

    if output is None or str(output) == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        with documents.replacing(output) as file:
            yield file
    except OSError as error:
        raise InputError(f"--output: {output} cannot be written: {error.strerror}") from error


def _account(
    lines: Sequence[str], mapping: dict[str, Any], output: Path | None, as_json: bool
) -> None:
    result = output is not None and str(output) != "-"
    if as_json:
        if result:
            json_line(mapping)
        else:
            click.echo(json.dumps(mapping, separators=(",", ":")), err=True)
        return
    for line in lines:
        if result:
            click.echo(line)
        else:
            say(line)


def to_mapping(found: Summary, told: Told, series: int) -> dict[str, Any]:
    """`latscope.join/1`: the account as JSON-ready values."""
    return {
        "schema": SCHEMA,
        "calls": found.calls,
        "joined": {how: found.joined.get(how, 0) for how in WORDS},
        "hops_only": found.hops_only,
        "ambiguous": found.ambiguous,
        "sampled_out": found.sampled_out,
        "unmatched": found.unmatched,
        "spans": found.spans,
        "joined_spans": found.joined_spans,
        "unmatched_requests": found.unmatched_requests,
        "repeated_spans": found.repeated,
        "damaged_lines": len(told.spans),
        "passed_on": len(told.recordings),
        "series": series,
    }


def account(found: Summary) -> Iterator[str]:
    """What was joined and what was not, in words: one line of calls, one of spans."""
    joined = sum(found.joined.values())
    said = ", ".join(f"{n} {WORDS[how]}" for how, n in found.joined.items())
    text = f"{joined} of {counted(found.calls, 'call')} joined" + (f" ({said})" if said else "")
    for number, why in (
        (found.hops_only, "of them only to hops: no engine's span came with them"),
        (found.ambiguous, "ambiguous, left unjoined: more than one request fits"),
        (found.sampled_out, "whose trace is here, but not the spans that lead to it"),
        (found.unmatched, "with no span at all"),
    ):
        text += f"; {number} {why}" if number else ""
    yield text
    rest = found.spans - found.joined_spans
    text = f"{found.joined_spans} of {counted(found.spans, 'span')} joined"
    text += f"; {rest} left" if rest else ""
    if found.unmatched_requests:
        text += f", {counted(found.unmatched_requests, 'engine request')} of no call among them"
    text += f"; {counted(found.repeated, 'span')} came twice" if found.repeated else ""
    yield text
