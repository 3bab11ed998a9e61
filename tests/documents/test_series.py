"""`latscope.series/1` lines, alone and among recordings."""

import io
import json
from math import inf, nan
from pathlib import Path
from typing import Any

import pytest

from latscope.documents.recordings import read, read_series
from latscope.documents.series import SCHEMA, Series, schema, to_line, understood
from latscope.errors import InputError
from latscope.recording import to_line as recording_line
from tests.calls import stream, tokens

LOADED = Series(
    at="2026-11-29T12:00:00.5Z",
    source="http://127.0.0.1:8000/metrics",
    values={"vllm:num_requests_running": 3.0, 'sglang:stage_sum{stage="tokenize"}': 0.25},
)
CALL = stream(tokens(3, start=20, step=10))


def file_of(tmp_path: Path, *lines: str) -> Path:
    path = tmp_path / "calls.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_a_series_comes_back_as_it_was_written() -> None:
    """Schema first, as in every line of such a file."""
    line = to_line(LOADED)
    assert line.startswith('{"schema":"latscope.series/1","at":')
    assert understood(line) == LOADED


def test_what_json_has_no_word_for_is_left_out() -> None:
    """A page may say NaN; a line may not."""
    odd = Series(at=LOADED.at, source="s", values={"a": nan, "b": inf, "c": 1.0})
    assert json.loads(to_line(odd))["values"] == {"c": 1.0}


def test_readers_of_recordings_pass_over_series(tmp_path: Path) -> None:
    """Before, between and after recordings, of a later version too; nothing is told."""
    later = to_line(LOADED).replace(SCHEMA, "latscope.series/9")
    path = file_of(tmp_path, to_line(LOADED), recording_line(CALL), later, recording_line(CALL))
    problems: list[str] = []
    assert len(list(read(path, problems=problems))) == 2
    assert problems == []


def test_series_are_read_from_among_recordings(tmp_path: Path) -> None:
    """One that cannot be used is told by line, and costs itself only."""
    bad = json.dumps({"schema": SCHEMA, "at": "yesterday", "source": "s", "values": {}})
    later = to_line(LOADED).replace(SCHEMA, "latscope.series/9")
    path = file_of(
        tmp_path, recording_line(CALL), bad, later, to_line(LOADED), "{cut latscope.series"
    )
    problems: list[str] = []
    assert list(read_series(path, problems=problems)) == [LOADED]
    assert [problem.removeprefix(f"{path}:") for problem in problems] == [
        "2: at: no RFC 3339 time; left out",
        "3: schema 'latscope.series/9': this latscope reads up to latscope.series/1; left out",
    ]


def test_series_are_read_from_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    """As recordings are, with `-`; without a list what cannot be used is a warning."""
    lines = f"{to_line(LOADED)}\n" + '{"schema":"latscope.series/1"}\n'
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(lines.encode())))
    with pytest.warns(UserWarning, match="<stdin>:2: at: Field required; left out"):
        assert list(read_series("-")) == [LOADED]


def test_a_file_of_series_alone_holds_no_recording(tmp_path: Path) -> None:
    """And says so, rather than nothing."""
    with pytest.raises(InputError, match="holds no recording"):
        list(read(file_of(tmp_path, to_line(LOADED))))
    with pytest.raises(InputError, match="cannot be read"):
        list(read_series(tmp_path / "none"))


def test_a_recording_that_quotes_the_name_is_still_read(tmp_path: Path) -> None:
    """Only the line's own schema counts."""
    quoting = stream([(20.0, b'data: {"note": "latscope.series/1"}\n\n')])
    assert len(list(read(file_of(tmp_path, recording_line(quoting))))) == 1


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        ({"values": {"a": "much"}}, "values.a: "),
        ({"values": None}, "values: "),
        ({"at": "2026-11-29T12:00:00"}, "at: needs a time zone"),
        ({"schema": "latscope.recording/1"}, "schema 'latscope.recording/1'"),
    ],
)
def test_what_is_wrong_with_a_series_is_said(change: dict[str, Any], wrong: str) -> None:
    """By field, never by what the field holds."""
    found = understood(json.dumps({**json.loads(to_line(LOADED)), **change}))
    assert isinstance(found, str)
    assert found.startswith(wrong)


def test_a_line_that_is_no_object_is_said() -> None:
    """The line as a whole is wrong, and has no field to name."""
    found = understood("[]")
    assert isinstance(found, str)
    assert found.startswith("series: ")


def test_the_schema_asks_for_its_name() -> None:
    """A JSON Schema of one line."""
    assert schema()["properties"]["schema"] == {"const": SCHEMA}
    assert schema()["required"] == ["schema", "at", "source"]
