"""Files of spans as collectors leave them, and recordings that get theirs."""

import io
import json
import os
from pathlib import Path
from threading import Thread

import pytest

from latscope.documents import recordings, spans
from latscope.errors import InputError
from latscope.recording import ServerSpan, to_line
from tests.calls import stream, tokens
from tests.spans import START, line, otlp, otlp_span, request


def write(path: Path, *parts: str | bytes) -> Path:
    path.write_bytes(b"".join(p if isinstance(p, bytes) else p.encode() for p in parts))
    return path


def read(path: Path | str) -> tuple[list[str], list[str]]:
    """The spans' names and the problems."""
    problems: list[str] = []
    return [span.name for span in spans.read(path, problems=problems)], problems


def export(*names: str) -> str:
    return line(otlp([otlp_span(n, name=name) for n, name in enumerate(names, 1)]))


def test_lines_of_a_collector(tmp_path: Path) -> None:
    file = write(tmp_path / "spans", "\n", export("a", "b"), "\n", export("c"))
    assert read(file) == (["a", "b", "c"], [])


def test_one_document_however_it_is_laid_out(tmp_path: Path) -> None:
    document = otlp([otlp_span(name="a")])
    for indent in (None, 2):
        file = write(tmp_path / "spans", json.dumps(document, indent=indent))
        assert read(file) == (["a"], [])


def test_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stdin = io.TextIOWrapper(io.BytesIO(export("a").encode()))
    monkeypatch.setattr("sys.stdin", stdin)
    assert read("-") == (["a"], [])


def test_a_damaged_line_costs_itself_and_is_told(tmp_path: Path) -> None:
    whole = otlp([otlp_span(name="b"), otlp_span(spanId=""), otlp_span(traceId="")])
    parts = [export("a"), '{"resourceSpans": [\n', '{"other": 1}\n', line(whole)]
    parts += [line({"resourceMetrics": []}), export("c")[:40]]
    file = write(tmp_path / "spans", *parts)
    names, problems = read(file)
    assert names == ["a", "b"]
    assert problems == [
        f"{file}:2: not JSON; left out, the lines after it were read",
        f"{file}:3: JSON, but no spans; left out",
        f"{file}:4: 2 spans without usable ids or times; left out",
        f"{file}:6: not JSON; left out, the lines after it were read",
    ]


def test_a_damaged_first_line_is_told_too(tmp_path: Path) -> None:
    file = write(tmp_path / "spans", "\n", "{cut\n", export("a"))
    assert read(file) == (
        ["a"],
        [f"{file}:2: not JSON; left out, the lines after it were read"],
    )


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\n\n",
        b"no spans\nat all\n" * 9,
        b"\x0a\x8f\x02\xff\xfe",
        b'{"a": 1}',
        b'{"data": []}',
    ],
)
def test_a_file_without_spans_is_refused_in_one_line(tmp_path: Path, text: bytes) -> None:
    file = write(tmp_path / "spans", text)
    with pytest.raises(InputError, match="holds no spans") as caught:
        read(file)
    assert str(file) in str(caught.value)
    assert "resourceSpans" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_long_file_of_something_else_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = write(tmp_path / "spans", b'{"a": 1}\n' * 100_000)
    problems: list[str] = []
    with pytest.raises(InputError):
        spans.read(file, problems=problems)
    assert len(problems) == spans.LOOKED_AT


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read(tmp_path / "none")
    with pytest.raises(InputError, match="none: cannot be read"), spans.sources(["none"]) as found:
        list(spans.keys(found[0], problems=[]))


def call(**fields: object) -> str:
    """A recording's line, with keys this version does not know."""
    plain = json.loads(to_line(stream(tokens(2, start=10, step=5))))
    return json.dumps({"schema": plain.pop("schema"), "later": {"a": 1.50}, **plain, **fields})


SERIES = line({"schema": "latscope.series/1", "at": "2026-11-29T12:00:00Z", "source": "s"})


def keyed(path: Path) -> tuple[list[str | None], list[str]]:
    problems: list[str] = []
    with spans.sources([str(path)]) as (source,):
        found = [key.response_id for key in spans.keys(source, problems=problems)]
    return found, problems


def test_keys_say_what_a_call_is_found_by(tmp_path: Path) -> None:
    file = write(tmp_path / "calls", call() + "\n", SERIES, "{cut\n", call() + "\n")
    found, problems = keyed(file)
    assert found == ["chatcmpl-1", "chatcmpl-1"]
    assert problems == [f"{file}:3: not JSON; passed on as it is"]
    with spans.sources([str(file)]) as (source,):
        key = next(spans.keys(source, problems=[]))
    assert (key.start_unix_ns, key.wall_ns) == (START, 15_000_000)


@pytest.mark.parametrize("text", ["", SERIES, "{cut\n" * 1000])
def test_a_file_without_recordings_is_refused(tmp_path: Path, text: str) -> None:
    file = write(tmp_path / "calls", text)
    with pytest.raises(InputError, match=str(file)):
        keyed(file)


def joined(path: Path, *found: tuple[ServerSpan, ...]) -> list[bytes]:
    with spans.sources([str(path)]) as (source,):
        return list(spans.joined_lines(source, iter(found)))


def test_a_line_gets_its_spans_and_keeps_all_else(tmp_path: Path) -> None:
    lines = [call() + "\n", SERIES, "{cut\n", call() + "\n", call()]
    file = write(tmp_path / "calls", *lines)
    first, *rest = joined(file, (request(1, rid="abc"),), (), ())
    assert [text.decode() for text in rest] == [*lines[1:4], lines[4] + "\n"]
    held = json.loads(first)
    (added,) = held.pop("spans")
    assert held == json.loads(lines[0])
    assert added["attributes"] == {"gen_ai.request.id": "abc"}
    assert recordings.read_text(first).spans == (request(1, rid="abc"),)


def test_spans_that_are_there_already_stay_and_are_not_doubled(tmp_path: Path) -> None:
    file = write(tmp_path / "calls", call() + "\n")
    write(file, *joined(file, (request(1), request(2))))
    (twice,) = joined(file, (request(2, at=5), request(3)))
    found = recordings.read_text(twice).spans
    assert [(span.span_id[-1], span.start_unix_ns - START) for span in found] == [
        ("1", 0),
        ("2", 5_000_000),
        ("3", 0),
    ]


def test_a_pipe_is_read_once_and_used_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=write, args=(pipe, call() + "\n"))
    writer.start()
    with spans.sources([str(pipe)]) as (source,):
        assert source.name == str(pipe)
        assert len(list(spans.keys(source, problems=[]))) == 1
        assert len(list(spans.joined_lines(source, iter(())))) == 1
    writer.join()


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2026-11-29T12:00:00Z", START),
        ("2026-11-29T13:00:00.000001+01:00", START + 1000),
        ("2026-11-29T12:00:00", START),
        ("yesterday", None),
    ],
)
def test_wall_clock_times(text: str, ns: int | None) -> None:
    assert spans.unix_ns(text) == ns


def test_output_replaces_its_goal_only_when_all_went_well(tmp_path: Path) -> None:
    goal = write(tmp_path / "out", "old")
    with pytest.raises(TypeError), spans.replacing(goal) as file:
        file.writelines([b"new", "no bytes"])  # type: ignore[list-item]
    assert goal.read_text() == "old"
    link = tmp_path / "link"
    link.symlink_to(goal)
    with spans.replacing(link) as file:
        file.write(b"new")
    assert goal.read_text() == "new"
    assert link.is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "out"]
    with spans.replacing(Path("/dev/null")) as file:
        file.write(b"gone")
    assert Path("/dev/null").is_char_device()
