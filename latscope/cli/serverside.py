"""`latscope explain --spans`: server spans joined to recordings on the way, or explained alone."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from latscope.cli.join import Told, account, read_spans
from latscope.cli.output import json_line, say, screen
from latscope.errors import InputError, UsageError
from latscope.recording import Recording, ServerSpan
from latscope.timeline.serverside import ServerRequest
from latscope.units import US

SLOWEST = 10
"""Requests that are listed unless asked otherwise."""


def joined(files: Sequence[str], span_files: Sequence[str]) -> Iterator[tuple[ServerSpan, ...]]:
    """Of each usable recording of the files, in their order, the spans joined to it."""
    from latscope.documents import spans as documents

    for file in files:
        if file == "-" or (Path(file).exists() and not Path(file).is_file()):
            raise UsageError(f"--spans: {file} can be read only once; use latscope join first")
    told = Told()
    found = read_spans(span_files, told)
    told.say()
    with documents.sources(files) as sources:
        # Unusable lines are told when the recordings are read to be explained.
        keys = [key for source in sources for key in documents.keys(source, problems=[])]
    joins = documents.joins(keys, found)
    for line in account(joins.summary):
        say(line)
    return iter(joins.spans)


def with_spans(recording: Recording, spans: Sequence[ServerSpan]) -> Recording:
    """The recording with these spans too; one it has already is replaced."""
    if not spans:
        return recording
    every = {(span.trace_id, span.span_id): span for span in (*recording.spans, *spans)}
    return replace(recording, spans=tuple(every.values()))


def explain(files: Sequence[str], *, as_json: bool, every: bool, slowest: int | None) -> int:
    """What the spans alone tell of each engine request: queue, prefill and decode."""
    from latscope.report import serverside as report
    from latscope.timeline.serverside import requests

    told = Told()
    found = requests(read_spans(files, told))
    told.say()
    if not found:
        raise InputError(
            f"{', '.join(files)}: no engine request among the spans; vLLM, SGLang and TensorRT-LLM"
            " make them when they are started with an OTLP endpoint"
        )
    listed = found if every else _slowest(found, slowest, as_json)
    if as_json:
        say(report.NOTE)
        for request in listed:
            json_line(report.to_mapping(request, _rfc3339(request.start_unix_ns)))
    else:
        screen().lines(report.lines(found, listed=listed))
    return 0


def _slowest(
    found: Sequence[ServerRequest], asked: int | None, as_json: bool
) -> Sequence[ServerRequest]:
    if asked is None and as_json:
        return found
    ordered = sorted(found, key=lambda request: -request.duration_ns)
    return ordered[: SLOWEST if asked is None else asked]


def _rfc3339(unix_ns: int) -> str:
    text = datetime.fromtimestamp(unix_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{unix_ns % 10**9 // US:06d}Z"
