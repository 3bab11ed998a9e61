"""`latscope.inbound/1` lines, alone and among recordings."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from latscope.documents import lines
from latscope.documents import spans as joining
from latscope.documents.inbound import schema, to_line, understood
from latscope.documents.recordings import read, read_inbound, read_series
from latscope.documents.series import Series
from latscope.documents.series import to_line as series_line
from latscope.recording import to_line as recording_line
from latscope.rules.inbound import SCHEMA, Inbound
from tests.calls import stream, tokens

ASKED = Inbound(
    turn="req-7",
    started_at="2026-11-29T12:00:00.500000Z",
    wall_ns=2_000_000,
    first_byte_ns=1_000_000,
    status=200,
    method="POST",
    route="/chat/{room}",
    trace_id="a" * 32,
)
CALL = stream(tokens(3, start=20, step=10))


def file_of(tmp_path: Path, *rows: str) -> Path:
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(f"{row}\n" for row in rows))
    return path


def test_a_request_comes_back_as_it_was_written() -> None:
    """Schema first, as in every line of such a file; nulls are left out."""
    line = to_line(ASKED)
    assert line.startswith('{"schema":"latscope.inbound/1","turn":')
    assert "detail" not in line
    assert understood(line) == ASKED


def test_every_reader_of_calls_passes_over_it(tmp_path: Path) -> None:
    """Of a later version too; nothing is told, and `join` hands it on as it is."""
    later = to_line(ASKED).replace(SCHEMA, "latscope.inbound/9")
    beside = series_line(Series(at="2026-11-29T12:00:00.5Z", source="s", values={"a": 1.0}))
    path = file_of(tmp_path, to_line(ASKED), beside, recording_line(CALL), later)
    problems: list[str] = []
    assert len(list(read(path, problems=problems))) == 1
    assert len(list(lines.read(path, problems=problems, refused=problems))) == 1
    assert len(list(lines.read_recordings(path))) == 1
    assert len(list(read_series(path, problems=problems))) == 1
    with joining.sources([str(path)]) as (source,):
        assert len(list(joining.keys(source, problems=problems))) == 1
        passed = b"".join(joining.joined_lines(source, iter([()])))
    assert passed == path.read_bytes()
    assert problems == []


def test_requests_are_read_from_among_recordings(tmp_path: Path) -> None:
    """One that cannot be used is told by line, and costs itself only."""
    later = to_line(ASKED).replace(SCHEMA, "latscope.inbound/9")
    path = file_of(tmp_path, recording_line(CALL), later, to_line(ASKED), '{"latscope.inbound')
    problems: list[str] = []
    assert list(read_inbound(path, problems=problems)) == [ASKED]
    assert [problem.removeprefix(f"{path}:") for problem in problems] == [
        "2: schema 'latscope.inbound/9': this latscope reads up to latscope.inbound/1; left out"
    ]
    with pytest.warns(UserWarning, match="left out"):
        assert list(read_inbound(path)) == [ASKED]


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"turn": None}, "turn: Input should be a valid string"),
        ({"wall_ns": "2"}, "wall_ns: Input should be a valid integer"),
        ({"wall_ns": -1}, "first_byte_ns: must lie from 0 to wall_ns"),
        ({"first_byte_ns": 2_000_001}, "first_byte_ns: must lie from 0 to wall_ns"),
        ({"first_byte_ns": -1}, "first_byte_ns: must lie from 0 to wall_ns"),
        ({"end": "fine"}, "end: Input should be 'complete', 'cut', 'error' or 'cancelled'"),
        ({"started_at": "today"}, "started_at: no RFC 3339 time"),
        ({"started_at": "2026-11-29T12:00:00"}, "started_at: needs a time zone, like Z"),
    ],
)
def test_a_bad_field_is_named(more: dict[str, Any], why: str) -> None:
    line = json.dumps(json.loads(to_line(ASKED)) | more)
    assert understood(line) == why


def test_a_line_that_is_no_object_is_told() -> None:
    assert str(understood("[]")).startswith("inbound: ")


def test_the_schema_describes_the_lines() -> None:
    validator = jsonschema.Draft202012Validator(schema())
    validator.validate(json.loads(to_line(ASKED)))
    validator.validate(json.loads(to_line(replace(ASKED, first_byte_ns=None, route=None))))
    assert not validator.is_valid({"schema": "latscope.inbound/2", "turn": "a"})
