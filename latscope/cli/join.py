"""`latscope join`: what servers traced of recorded calls, joined to the recordings."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import click

from latscope.cli.output import Progress, json_line, say
from latscope.errors import InputError, UsageError
from latscope.recording import ServerSpan
from latscope.report.figures import counted
from latscope.timeline.joins import Call, Summary

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
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="Instead of stdout."
)
@click.option("--json", "as_json", is_flag=True, help="What was joined, as one JSON line.")
def join_command(
    files: tuple[str, ...], span_files: tuple[str, ...], output: Path | None, as_json: bool
) -> int:
    """Joins the spans that servers exported to the calls recorded in FILE... (`-` reads stdin).

    \b
      latscope join calls.jsonl --spans traces.json -o joined.jsonl
      latscope explain joined.jsonl

    Spans are OTLP JSON as a collector's file exporter writes it, or what the API of Jaeger or Tempo
    gives. A call is found by its parent span, through further spans, by the id of its answer or
    request, or as the only one of its trace at that time; what fits twice is left out and counted.
    With -o the account is the result, on stdout; else the recordings are, and it goes to stderr.
    """
    from latscope.documents import spans as documents

    if not span_files:
        raise UsageError("join needs spans: --spans FILE (OTLP, Jaeger or Tempo JSON)")
    if [*files, *span_files].count("-") > 1:
        raise UsageError("- (stdin) can be read only once")
    told = Told()
    progress = Progress()
    with documents.sources(files) as sources:
        found = read_spans(span_files, told)
        keys: list[Call] = []
        for source in sources:
            for key in documents.keys(source, problems=told.recordings):
                keys.append(key)
                if len(keys) % EVERY == 0:
                    progress.reached(f"{counted(len(keys), 'call')} read")
        progress.end()
        joined = documents.joins(keys, found)
        with _out(output) as out:
            rest = iter(joined.spans)
            for source in sources:
                for line in documents.joined_lines(source, rest):
                    out.write(line)
    told.say()
    _account(joined.summary, told, output, as_json)
    return 0


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


def _account(found: Summary, told: Told, output: Path | None, as_json: bool) -> None:
    result = output is not None and str(output) != "-"
    if as_json:
        mapping = to_mapping(found, told)
        if result:
            json_line(mapping)
        else:
            click.echo(json.dumps(mapping, separators=(",", ":")), err=True)
        return
    for line in account(found):
        if result:
            click.echo(line)
        else:
            say(line)


def to_mapping(found: Summary, told: Told) -> dict[str, Any]:
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
