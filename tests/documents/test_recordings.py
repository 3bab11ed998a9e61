"""Reading recording files: what is written comes back, what is broken is told."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from latscope.documents.recordings import read, read_text, schema
from latscope.errors import InputError
from latscope.recording import (
    Attempt,
    ClientSide,
    Clock,
    Connection,
    End,
    EventRow,
    Mark,
    Read,
    Recording,
    Sample,
    SegmentTruth,
    Target,
    TcpInfo,
    Trace,
    Truth,
    to_line,
    to_mapping,
)

TARGET = Target(scheme="https", host="api.test", port=443, path="/v1/chat/completions")
CALL = Recording(
    call_id="c1",
    started_at="2026-11-29T10:00:00Z",
    target=TARGET,
    in_flight=0,
    attempts=(
        Attempt(
            status=200,
            marks=(Mark("entry", 0), Mark("headers", 5)),
            reads=(Read(1, 2, 3, 3), Read(2, 9, 4, 7)),
            body=b"data: 1",
            events=(EventRow(7, "done", None),),
            usage={"input_tokens": 3},
            tcp_info=(TcpInfo(at="connect", rtt_ns=4),),
            retry_count=0,
        ),
    ),
    client=ClientSide(gc=((1, 2),)),
    truth=Truth(segments=(SegmentTruth(name="queue", ns=1),), source="sim"),
)


def written(tmp_path: Path, *lines: str | bytes, end: bytes = b"\n") -> Path:
    path = tmp_path / "calls.jsonl"
    raw = [line if isinstance(line, bytes) else line.encode() for line in lines]
    path.write_bytes(b"\n".join(raw) + end)
    return path


def test_a_recording_comes_back_as_it_was_written(tmp_path: Path) -> None:
    """Every field that is written is read; order is the file's."""
    other = replace(CALL, call_id="c2")
    assert list(read(written(tmp_path, to_line(CALL), to_line(other)))) == [CALL, other]


def test_a_body_that_is_no_utf8_comes_back(tmp_path: Path) -> None:
    """Bytes that no JSON string can hold travel as base64."""
    odd = replace(
        CALL, attempts=(replace(CALL.attempts[0], body=b"\xff\x00\xfe"), CALL.attempts[0])
    )
    assert b"body_b64" in to_line(odd).encode()
    assert list(read(written(tmp_path, to_line(odd)))) == [odd]


def test_a_body_that_is_no_base64_is_refused() -> None:
    """The attempt is named."""
    line = to_line(replace(CALL, attempts=(replace(CALL.attempts[0], body=b"\xff"),)))
    with pytest.raises(InputError, match=r"^x:1: attempts\[0\]\.body_b64: not base64$"):
        read_text(line.replace('"body_b64":"/w=="', '"body_b64":"?"'), where="x:1")


@pytest.mark.parametrize("value", ["7", "[1]"])
def test_a_base64_body_that_is_no_string_is_refused(value: str) -> None:
    """What base64 decoding stumbles over is the reader's own error."""
    line = to_line(replace(CALL, attempts=(replace(CALL.attempts[0], body=b"\xff"),)))
    with pytest.raises(InputError, match="body_b64"):
        read_text(line.replace('"body_b64":"/w=="', f'"body_b64":{value}'))


def test_unknown_keys_are_ignored() -> None:
    """A later version may add keys without changing the schema."""
    plain = {**to_mapping(CALL), "new": {"a": 1}}
    plain["attempts"][0]["newer"] = [1]
    assert read_text(json.dumps(plain)) == CALL


def test_no_file_fills_the_fields_that_live_in_memory() -> None:
    """A line that names them is read without them."""
    plain = {**to_mapping(CALL), "sent": "secret", "context": {"a": 1}}
    plain["attempts"][0] |= {"wire": ["secret"], "tcp_raw": [["end", 1, "x"]]}
    found = read_text(json.dumps(plain))
    assert found.sent is None
    assert found.context is None
    assert found.attempts[0].wire is None
    assert found.attempts[0].tcp_raw == ()
    assert found == CALL


def test_blank_lines_are_skipped(tmp_path: Path) -> None:
    """Also before the first recording, and without a line end after the last."""
    path = written(tmp_path, "", to_line(CALL), "  ", to_line(CALL), end=b"")
    assert list(read(path)) == [CALL, CALL]


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch) -> None:
    """`-` means standard input, and problems name it."""
    stdin = io.TextIOWrapper(io.BytesIO(to_line(CALL).encode() + b'\n{"cut'))
    monkeypatch.setattr("sys.stdin", stdin)
    problems: list[str] = []
    assert list(read("-", problems=problems)) == [CALL]
    assert problems == [
        "<stdin>:2: the last line is cut off; left out, the one recording before it was read"
    ]


def test_a_broken_last_line_costs_only_itself(tmp_path: Path) -> None:
    """A killed writer leaves half a line: the rest is read, and one sentence says so."""
    line = to_line(CALL)
    path = written(tmp_path, line, line, line[: len(line) // 2], end=b"")
    problems: list[str] = []
    assert len(list(read(path, problems=problems))) == 2
    assert problems == [f"{path}:3: the last line is cut off; left out, the 2 before it were read"]


def test_a_broken_line_between_others_is_left_out(tmp_path: Path) -> None:
    """Bytes that are no UTF-8 are no JSON either."""
    line = to_line(CALL)
    path = written(tmp_path, line, b"\xff{", line)
    problems: list[str] = []
    assert len(list(read(path, problems=problems))) == 2
    assert problems == [f"{path}:2: not JSON; left out, the lines after it were read"]


def test_problems_nobody_asked_for_are_warnings(tmp_path: Path) -> None:
    """A library user who passes no list is told all the same."""
    path = written(tmp_path, to_line(CALL), '{"cut')
    with pytest.warns(UserWarning, match="the last line is cut off"):
        assert list(read(path)) == [CALL]


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    """What and where."""
    with pytest.raises(InputError, match=r"absent\.jsonl: cannot be read: No such file"):
        list(read(tmp_path / "absent.jsonl"))


def test_a_folder_is_no_recording_file(tmp_path: Path) -> None:
    """Unreadable is told as unreadable."""
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        list(read(tmp_path))


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b"\x89PNG", r":1: not JSON; a recording file holds one latscope.recording/1 object"),
        (b"", r": holds no recording; a recording file"),
        (b"\n\nx", r":3: not JSON; a recording file"),
        (b"[]", r":1: not a recording but a JSON list$"),
        (b"{}", r":1: has no schema; a recording says latscope.recording/1$"),
        (b'{"schema": 7}', r":1: schema '7' is no recording; this needs latscope.recording/1$"),
        (b'{"schema": "latscope.attribution/1"}', r"'latscope.attribution/1' is no recording"),
        (
            b'{"schema": "latscope.recording/9"}',
            r":1: schema 'latscope.recording/9': this latscope reads up to latscope.recording/1;"
            r" upgrade latscope to read it$",
        ),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, line: bytes, told: str) -> None:
    """Each kind of wrong file has its own sentence, with file and line."""
    path = written(tmp_path, line)
    with pytest.raises(InputError, match=told) as caught:
        list(read(path))
    assert str(caught.value).startswith(str(path))


LATER = to_line(replace(CALL, schema="latscope.recording/2"))


def test_an_unknown_version_is_left_out_even_when_its_fields_fit(tmp_path: Path) -> None:
    """The recordings before and after it are handed out; the sentence says what would read it."""
    path = written(tmp_path, LATER, to_line(CALL), LATER, to_line(CALL), LATER)
    problems: list[str] = []
    assert list(read(path, problems=problems)) == [CALL, CALL]
    assert problems == [
        f"{path}:{number}: schema 'latscope.recording/2': this latscope reads up to"
        " latscope.recording/1; upgrade latscope to read it; left out, the other lines were read"
        for number in (1, 3, 5)
    ]


def test_refused_lines_can_be_told_from_torn_ones(tmp_path: Path) -> None:
    """A torn line is the trace of a kill; a refused one is data that is there and not used."""
    path = written(tmp_path, to_line(CALL), LATER, '{"cut')
    problems: list[str] = []
    refused: list[str] = []
    assert list(read(path, problems=problems, refused=refused)) == [CALL]
    assert [text.partition(": ")[0] for text in problems + refused] == [f"{path}:3", f"{path}:2"]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([LATER, LATER], r":1: schema .*; nor can the line after it be used$"),
        ([LATER, "{}", "[]"], r":1: schema .*; nor can any of the 2 after it be used$"),
        ([LATER, "{", "{"], r":1: schema .*; nor can any of the 2 after it be used$"),
        (["{", LATER], r":1: not JSON; a recording file holds"),
    ],
)
def test_a_file_without_a_usable_line_is_refused(
    tmp_path: Path, lines: list[str], told: str
) -> None:
    """One sentence, the first line's."""
    problems: list[str] = []
    with pytest.raises(InputError, match=told):
        list(read(written(tmp_path, *lines), problems=problems))
    assert problems == []


def test_two_lines_of_no_json_are_enough(tmp_path: Path) -> None:
    """A large file of something else is not read to its end."""
    with pytest.raises(InputError, match=r":1: not JSON"):
        list(read(written(tmp_path, "{", "{", to_line(CALL))))


def test_not_json_in_one_line() -> None:
    """`read_text` has no other lines to fall back on."""
    with pytest.raises(InputError, match=r"^recording: not JSON$"):
        read_text("{")


Change = Callable[[dict[str, Any]], None]


def put(*path: str | int, value: object) -> Change:
    def change(plain: dict[str, Any]) -> None:
        node: Any = plain
        for step in path[:-1]:
            node = node[step]
        node[path[-1]] = value

    return change


A = ("attempts", 0)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (put("start", value="x"), "start: Input should be 'sdk' or 'transport'"),
        (put("target", value={}), "target.scheme: Field required"),
        (put("target", "port", value=65536), "target.port: must be from 0 to 65535"),
        (put("target", "port", value="80"), "target.port: Input should be a valid integer"),
        (put("sample", value={"rate": 0.0}), "sample.rate: must be above 0 and at most 1"),
        (put("in_flight", value=-1), "in_flight: must not be negative"),
        (put("marks", value=[["end", -1]]), "marks[0].ns: must not be negative"),
        (put("client", "gc", value=[[0, -1]]), "client.gc[0]: must not be negative"),
        (put("truth", "segments", 0, "ns", value=-1), "truth.segments[0].ns: must not be negative"),
        (put(*A, "status", value=42), "attempts[0].status: must be from 100 to 999"),
        (put(*A, "marks", 1, 1, value=-5), "attempts[0].marks[1].ns: must not be negative"),
        (put(*A, "marks", 1, 1, value=0.5), "attempts[0].marks[1].ns: Input should be a valid int"),
        (put(*A, "reads", 0, 0, value=-1), "attempts[0].reads[0].asked_ns: must not be negative"),
        (put(*A, "reads", 1, 1, value="x"), "attempts[0].reads[1].got_ns: Input should be a valid"),
        (put(*A, "reads", 1, value=[2, 9, 4]), "attempts[0].reads[1].body_offset: Field required"),
        (put(*A, "reads", 1, 0, value=99), "attempts[0].reads[1].got_ns: must not lie before aske"),
        (put(*A, "reads", 1, value=[0, 1, 1, 9]), "attempts[0].reads[1].got_ns: must not lie befo"),
        (put(*A, "reads", 1, 3, value=2), "attempts[0].reads[1].body_offset: must not fall"),
        (put(*A, "events", 0, 0, value=-1), "attempts[0].events[0].body_offset: must not be neg"),
        (put(*A, "tcp_info", 0, "rtt_ns", value=-1), "attempts[0].tcp_info[0].rtt_ns: must not be"),
        (put(*A, "usage", "input_tokens", value=-1), "attempts[0].usage.input_tokens: must not be"),
        (put(*A, "retry_count", value=-1), "attempts[0].retry_count: must not be negative"),
        (put(*A, "headers", value=[["a"]]), "attempts[0].headers[0][1]: Field required"),
    ],
)
def test_a_field_out_of_range_is_named(tmp_path: Path, change: Change, told: str) -> None:
    """File, line and path of the field; never the value."""
    plain = json.loads(to_line(CALL))
    change(plain)
    path = written(tmp_path, to_line(CALL), json.dumps(plain), to_line(CALL))
    problems: list[str] = []
    assert list(read(path, problems=problems)) == [CALL, CALL]
    (problem,) = problems
    assert problem.startswith(f"{path}:2: {told}")
    assert problem.endswith("; left out, the other lines were read; mend the line or drop it")


def test_the_schema_describes_what_is_written() -> None:
    """Published bounds are those checked; in-memory fields are no part of the format."""
    described = schema()
    assert described["properties"]["schema"] == {"const": "latscope.recording/1"}
    assert set(to_mapping(CALL)) <= set(described["properties"])
    attempt = described["$defs"]["Attempt"]["properties"]
    assert {"body", "body_b64", "reads"} <= set(attempt)
    assert not {"wire", "tcp_raw"} & set(attempt)
    assert not {"sent", "context"} & set(described["properties"])
    assert described["$defs"]["Mark"]["prefixItems"][1]["minimum"] == 0
    assert described["required"] == ["schema", "call_id", "started_at", "target"]


# What hypothesis may put where. Nulls and empties are left out of a line, so optional mappings are
# absent or hold something.
ns = st.integers(0, 10**13)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
maybe_text = st.none() | text
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | text | st.floats(-1e9, 1e9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
marks = st.lists(st.builds(Mark, text, ns), max_size=3).map(tuple)
pairs = st.lists(st.tuples(ns, ns), max_size=3).map(tuple)


@st.composite
def read_rows(draw: st.DrawFn) -> tuple[Read, ...]:
    got = sorted(draw(st.lists(ns, max_size=4)))
    offsets = sorted(draw(st.lists(ns, min_size=len(got), max_size=len(got))))
    asked = [draw(st.integers(0, at)) for at in got]
    return tuple(Read(a, g, draw(ns), o) for a, g, o in zip(asked, got, offsets, strict=True))


attempts = st.builds(
    Attempt,
    marks=marks,
    connection=st.none()
    | st.builds(Connection, id=st.none() | ns, reused=st.none() | st.booleans(), peer=maybe_text),
    status=st.none() | st.integers(100, 599),
    headers=st.lists(st.tuples(text, text), max_size=3).map(tuple),
    encoding=maybe_text,
    reads=read_rows(),
    body=st.none() | st.binary(max_size=40) | text.map(str.encode),
    tcp_info=st.lists(st.builds(TcpInfo, at=text, rtt_ns=st.none() | ns), max_size=2).map(tuple),
    retry_count=st.none() | st.integers(0, 9),
    error_type=maybe_text,
    events=st.none()
    | st.lists(st.builds(EventRow, ns, text, st.none() | ns), min_size=1, max_size=3).map(tuple),
    usage=st.none() | st.dictionaries(text, ns, min_size=1, max_size=3),
)
truths = st.lists(st.builds(SegmentTruth, name=text, ns=ns), min_size=1, max_size=3).map(tuple)
recordings = st.builds(
    Recording,
    call_id=text,
    started_at=text,
    start=st.sampled_from(["sdk", "transport"]),
    target=st.builds(Target, scheme=text, host=text, port=st.integers(0, 65535), path=text),
    end=st.builds(End, reason=st.sampled_from(["complete", "error"]), detail=maybe_text),
    marks=marks,
    attempts=st.lists(attempts, max_size=3).map(tuple),
    sdk=maybe_text,
    tags=st.dictionaries(text, text, max_size=3),
    trace=st.none() | st.builds(Trace, trace_id=text, span_id=text, parent_id=maybe_text),
    turn=maybe_text,
    session=maybe_text,
    previous_response_id=maybe_text,
    request=st.none() | st.dictionaries(text, json_values, min_size=1, max_size=3),
    prefix=st.none()
    | st.lists(st.fixed_dictionaries({"hash": text, "part": text}), min_size=1).map(tuple),
    in_flight=st.none() | ns,
    client=st.builds(ClientSide, loop_lag=pairs, gc=pairs, consumer=pairs),
    sample=st.builds(Sample, rate=st.floats(0.001, 1.0), why=text),
    broken=st.lists(text, max_size=2).map(tuple),
    truth=st.none() | st.builds(Truth, segments=truths, ttft=st.none() | truths, source=text),
    clock=st.none() | st.builds(Clock, name=text, zero_ns=ns),
    masked=st.booleans(),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(recordings)
def test_every_recording_survives_its_file_form(recording: Recording) -> None:
    """Any recording that capture could make is read as it was."""
    assert read_text(to_line(recording)) == recording


def test_a_broken_first_line_costs_only_itself(tmp_path: Path) -> None:
    """The writer was killed in its first line; the next one appended whole lines after it."""
    line = to_line(CALL)
    path = written(tmp_path, line[:40], line, line)
    problems: list[str] = []
    assert len(list(read(path, problems=problems))) == 2
    assert problems == [f"{path}:1: not JSON; left out, the lines after it were read"]
