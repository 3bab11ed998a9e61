"""Facts of the recording, the units and the errors: what everything above leans on."""

import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from latscope.errors import (
    EndpointError,
    InputError,
    InstrumentError,
    LatscopeError,
    MissingExtra,
    UsageError,
)
from latscope.recording import (
    MEMORY_ONLY,
    SCHEMA,
    Attempt,
    Connection,
    EventRow,
    Mark,
    Read,
    Recording,
    Target,
    TcpInfo,
    body_text,
    line_pieces,
    to_line,
    to_mapping,
)
from latscope.units import MS, US, S, Span, clamp, ns_from_ms, ns_from_s

ATTEMPT = Attempt(
    marks=(Mark("entry", 0), Mark("headers", 7), Mark("headers", 9)),
    connection=Connection(id=1, reused=False),
    status=200,
    headers=(("x-request-id", "r1"),),
    reads=(Read(0, 8, 5, 5),),
    body=b"hello",
    wire=(b"WIRE",),
    tcp_raw=(("end", 3, b"RAW"),),
    tcp_info=(TcpInfo(at="end", rtt_ns=4),),
)
CALL = Recording(
    call_id="c",
    started_at="2026-11-29T10:00:00Z",
    target=Target(scheme="http", host="h", port=80, path="/"),
    marks=(Mark("entry", 0), Mark("end", 11)),
    attempts=(ATTEMPT,),
    sent=b"SENT",
    context=["CONTEXT"],
    tags={"team": "search"},
)


def test_a_line_never_holds_what_lives_in_memory() -> None:
    """Raw wire bytes, the request as sent, the kernel's struct, the caller's context."""
    line = to_line(CALL)
    assert not [word for word in ("WIRE", "SENT", "RAW", "CONTEXT") if word in line]
    plain = json.loads(line)
    assert not MEMORY_ONLY & {*plain, *plain["attempts"][0]}


def test_a_repr_shows_no_payload() -> None:
    """Logs and assertion messages carry reprs."""
    shown = repr(replace(CALL, request={"prompt": "REQUEST"}))
    assert not [
        word
        for word in ("hello", "WIRE", "SENT", "RAW", "CONTEXT", "REQUEST", "r1")
        if word in shown
    ]


Travel = Callable[[Any], Any]


@pytest.mark.parametrize("travel", [copy.copy, lambda one: pickle.loads(pickle.dumps(one))])
def test_a_copy_takes_no_raw_bytes_along(travel: Travel) -> None:
    """Nor raw headers, while the payload is still on board; the rest is equal."""
    call = replace(CALL, attempts=())
    assert travel(call) == call
    assert (travel(call).sent, travel(call).context) == (None, None)
    attempt = travel(ATTEMPT)
    assert (attempt.wire, attempt.tcp_raw, attempt.headers) == (None, (), ())
    assert attempt == replace(ATTEMPT, headers=())
    assert travel(replace(ATTEMPT, wire=None)).headers == ATTEMPT.headers


def test_nulls_and_empties_are_left_out() -> None:
    """An empty body is no absent body, and zero is no null."""
    bare = replace(CALL, attempts=(Attempt(body=b"", status=0),), tags={}, marks=())
    plain = to_mapping(bare)
    assert plain["attempts"] == [{"status": 0, "body": ""}]
    assert not {"tags", "marks", "trace", "request", "broken"} & set(plain)
    assert to_mapping(replace(bare, attempts=()))["attempts"] == []


def test_the_schema_leads_the_line() -> None:
    """So that a reader can tell the format from the first bytes."""
    assert to_line(CALL).startswith(f'{{"schema":"{SCHEMA}"')


def test_rows_are_arrays_and_nested_values_stay() -> None:
    """The request keeps its nulls: they are the caller's."""
    request = {"stop": None, "messages": [{"content": "é"}]}
    plain = to_mapping(replace(CALL, request=request))
    assert plain["marks"] == [["entry", 0], ["end", 11]]
    assert plain["attempts"][0]["reads"] == [[0, 8, 5, 5]]
    assert plain["request"] == request
    assert "é" in to_line(replace(CALL, request=request))


@pytest.mark.parametrize(
    ("body", "written"),
    [
        (b"", {"body": ""}),
        ("é\n".encode(), {"body": "é\n"}),
        (b"\xff", {"body_b64": "/w=="}),
    ],
)
def test_a_body_is_text_where_it_can_be(body: bytes, written: dict[str, str]) -> None:
    """Bytes that are not UTF-8 become base64: body_offset counts bytes."""
    assert body_text(body) == written


BIG = replace(
    ATTEMPT,
    reads=tuple(Read(i, i, i, i) for i in range(200)),
    body=('"é\\\n' * 40_000).encode(),
    events=(EventRow(1, "done", None),),
)


@pytest.mark.parametrize(
    "attempts",
    [
        (),
        (ATTEMPT,),
        (ATTEMPT, Attempt(), ATTEMPT),
        (BIG, BIG),
        (Attempt(reads=(Read(0, 1, 2, 3),)),),
        (Attempt(body=b""),),
        (Attempt(body=b"\xff" * 100_000),),
    ],
)
def test_the_pieces_of_a_line_are_the_line(attempts: tuple[Attempt, ...]) -> None:
    """Cut small, and the same JSON as the whole mapping."""
    call = replace(CALL, attempts=attempts)
    pieces = list(line_pieces(call))
    assert json.loads("".join(pieces)) == to_mapping(call)
    assert "".join(pieces) == to_line(call)
    assert max(map(len, pieces)) < 250_000
    assert "\n" not in to_line(call)


def test_a_mark_is_found_by_its_name() -> None:
    """The first of that name; null when it did not happen."""
    assert (ATTEMPT.mark("headers"), ATTEMPT.mark("error")) == (7, None)
    assert (CALL.mark("end"), CALL.mark("stop")) == (11, None)


@pytest.mark.parametrize(
    ("call", "last"),
    [
        (CALL, 11),
        (replace(CALL, marks=()), 9),
        (replace(CALL, marks=(), attempts=(Attempt(reads=(Read(1, 5, 1, 1),)),)), 5),
        (replace(CALL, marks=(), attempts=()), 0),
    ],
)
def test_the_last_stamp_is_the_wall_time_at_least(call: Recording, last: int) -> None:
    """Of the call's marks, its attempts' marks and their last reads."""
    assert call.last_ns == last


def test_a_recording_cannot_be_changed() -> None:
    """What capture saw stays what it saw."""
    with pytest.raises(FrozenInstanceError):
        CALL.call_id = "other"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (ns_from_ms(0.25), 250 * US),
        (ns_from_ms(-1), -MS),
        (ns_from_ms(0.0000006), 1),
        (ns_from_s(1.5), S + S // 2),
        (clamp(5, 0, 10), 5),
        (clamp(-5, 0, 10), 0),
        (clamp(15, 0, 10), 10),
        (Span(3, 10).width, 7),
    ],
)
def test_units(found: int, expected: int) -> None:
    """Durations become whole nanoseconds, the nearest ones."""
    assert found == expected
    assert isinstance(found, int)


@pytest.mark.parametrize(
    ("error", "code", "kind"),
    [
        (LatscopeError("m"), 3, Exception),
        (UsageError("m"), 2, LatscopeError),
        (InstrumentError("m"), 2, UsageError),
        (InputError("m"), 3, LatscopeError),
        (EndpointError("m"), 3, LatscopeError),
    ],
)
def test_every_error_has_its_exit_code(
    error: LatscopeError, code: int, kind: type[Exception]
) -> None:
    """2 for wrong usage, 3 for input or endpoints that cannot be used."""
    assert error.exit_code == code
    assert isinstance(error, kind)
    assert str(error) == "m"


def test_a_missing_extra_says_how_to_get_it() -> None:
    """Feature, extra and the command that installs it."""
    error = MissingExtra("latscope calibrate", "analysis")
    assert str(error) == "latscope calibrate needs an extra: pip install 'latscope[analysis]'"
    assert (error.extra, error.exit_code) == ("analysis", 2)
