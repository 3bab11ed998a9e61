"""From what capture hands over to what a sink may see."""

import gzip
import json
import pickle
import struct
from collections.abc import Iterator
from dataclasses import replace

import pytest

from latscope.attribution import attribute
from latscope.middleware import pipeline
from latscope.middleware.context import Context
from latscope.middleware.pipeline import Plan, finish, process
from latscope.recording import (
    Attempt,
    Mark,
    Read,
    Recording,
    Target,
    Trace,
    to_line,
)

from .server import ASKED, CANARY, COOKIE, REQUEST, SECRETS, stream

TCP_INFO = bytearray(232)
struct.pack_into("=I", TCP_INFO, 68, 250)


def raw(**changes: object) -> Recording:
    """A recording as capture hands it over: nothing decoded, nothing masked."""
    body = gzip.compress(stream())
    attempt = Attempt(
        marks=(Mark("entry", 0), Mark("body.end", 9)),
        status=200,
        headers=(
            ("content-type", "text/event-stream"),
            ("set-cookie", COOKIE),
            ("x-request-id", "req-1"),
            ("x-team-header", "blue"),
        ),
        encoding="gzip",
        reads=(Read(0, 5, 40, 40), Read(5, 8, len(body) - 40, len(body))),
        wire=(body[:40], body[40:]),
        tcp_raw=(("connect", 4, bytes(TCP_INFO)), ("end", 9, b"short")),
    )
    made = Recording(
        call_id="c1",
        started_at="2026-01-01T00:00:00Z",
        target=Target(scheme="https", host="api.example", port=443, path="/v1/chat/completions"),
        marks=(Mark("entry", 0), Mark("end", 9)),
        attempts=(attempt,),
        sent=request(previous_response_id="resp_1"),
        context=Context(tags={"step": "1", "team": "search"}, turn="t1", trace=TRACE),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def request(**changes: object) -> bytes:
    return json.dumps({**REQUEST, **changes}).encode()


TRACE = Trace(trace_id="a" * 32, span_id="b" * 16, parent_id="c" * 16)


def test_the_steps_decode_parse_inherit_and_mask() -> None:
    """What comes out holds the call's facts, none of its words, and nothing capture kept aside."""
    made = finish(raw())
    (attempt,) = made.attempts
    assert attempt.body is not None
    assert len(attempt.body) == len(stream()) == attempt.reads[-1].body_offset
    assert attempt.body.endswith(b"data: [DONE]\n\n")
    (info,) = attempt.tcp_info
    assert (info.at, info.at_ns, info.rtt_ns) == ("connect", 4, 250_000)
    assert ("x-request-id", "req-1") in attempt.headers
    assert (attempt.wire, attempt.tcp_raw, made.sent, made.context) == (None, (), None, None)
    assert made.request is not None
    assert made.request["model"] == "tiny"
    assert made.previous_response_id == "resp_1"
    assert (made.tags, made.turn, made.trace) == ({"step": "1", "team": "search"}, "t1", TRACE)
    assert (made.broken, made.masked) == ((), True)
    for secret in SECRETS:
        assert secret not in to_line(made)
        assert secret not in repr(made)


@pytest.mark.parametrize("secret", SECRETS)
def test_no_repr_or_pickle_of_a_raw_recording_shows_a_payload(secret: str) -> None:
    """Not even of one that no step has seen, nor in its file form."""
    attempt = replace(raw().attempts[0], wire=(stream(),))
    made = raw(attempts=(attempt,))
    assert secret not in repr(made)
    assert secret not in to_line(replace(made, attempts=(replace(attempt, headers=()),)))
    assert secret.encode() not in pickle.dumps(made)
    copy = pickle.loads(pickle.dumps(made))
    assert (copy.sent, copy.attempts[0].wire, copy.attempts[0].headers) == (None, None, ())
    assert copy.attempts[0].reads == made.attempts[0].reads


def test_the_worker_can_pause_at_every_event_and_between_reads() -> None:
    """However long a stream is, the steps over it give way as often as it has events."""
    body = stream() * 100
    reads = tuple(Read(n, n, 1, n + 1) for n in range(len(body)))
    wire = tuple(body[n : n + 1] for n in range(len(body)))
    attempt = Attempt(encoding=None, reads=reads, wire=wire)
    pauses = sum(1 for _ in process(raw(attempts=(attempt,)), Plan()))
    assert pauses > body.count(b"\n\n") + len(reads) / 100


def test_a_client_tag_yields_to_one_given_where_the_call_is_made() -> None:
    made = exhaust(raw(), Plan(tags={"team": "ads", "app": "shop"}))
    assert made.tags == {"team": "search", "app": "shop", "step": "1"}


def exhaust(recording: Recording, plan: Plan) -> Recording:
    made: list[Recording] = []

    def all_steps() -> Iterator[None]:
        made.append((yield from process(recording, plan)))

    for _ in all_steps():
        pass
    return made[0]


def test_content_and_headers_stay_where_asked_for() -> None:
    """`keep_content` keeps words, `keep_headers` one more header; a cookie never stays."""
    made = finish(raw(), keep_content=True, keep_headers=("x-team-header",))
    (attempt,) = made.attempts
    assert attempt.body is not None
    assert CANARY.encode() in attempt.body
    assert ASKED in str(made.request)
    assert ("x-team-header", "blue") in attempt.headers
    assert COOKIE not in str(attempt.headers)
    assert ("x-team-header", "blue") not in finish(raw()).attempts[0].headers


def test_unmasked_is_for_those_who_ask() -> None:
    made = finish(raw(), mask=False)
    assert made.attempts[0].body == stream()
    assert made.masked is False


@pytest.mark.parametrize("sent", [None, b"", b"--form-data", b"[1, 2]", b'{"cut'])
def test_a_request_that_is_no_json_object_is_left_out(sent: bytes | None) -> None:
    made = finish(raw(sent=sent))
    assert (made.request, made.broken) == (None, ())


@pytest.mark.parametrize("before", [None, 7, "an id that is none", "x" * 200])
def test_what_is_no_response_id_is_left_out(before: object) -> None:
    """It is kept outside the request, where no mask looks at it."""
    made = finish(raw(sent=request(previous_response_id=before)))
    assert made.previous_response_id is None
    assert made.request is not None


@pytest.mark.parametrize("named", ["conv_1", {"id": "conv_1"}])
def test_a_conversation_is_the_calls_session(named: object) -> None:
    """As the Responses API names it, by its id or as an object."""
    made = finish(raw(sent=request(conversation=named)))
    assert made.session == "conv_1"
    assert finish(raw(session="own", sent=request(conversation=named))).session == "own"


@pytest.mark.parametrize("named", [None, 7, "a sentence of somebody's", {"id": None}, ["conv_1"]])
def test_what_names_no_conversation_is_no_session(named: object) -> None:
    assert finish(raw(sent=request(conversation=named))).session is None


def test_prefix_hashes_reach_the_attribution_with_the_roles_of_the_messages() -> None:
    """From the request as sent, masked or not, to `request.hashes` and `request.parts`."""
    said = [{"role": "system", "content": "s" * 600}, {"role": "user", "content": "u" * 600}]
    made = exhaust(raw(sent=request(messages=said)), Plan(key=b"k"))
    shape = attribute(made).request
    assert shape is not None
    assert made.prefix is not None
    assert shape.hashes == "".join(row["hash"] for row in made.prefix)
    assert [name for name, _ in shape.parts] == ["messages[0] system", "messages[1] user"]
    assert sum(count for _, count in shape.parts) == len(made.prefix)


def test_a_body_that_cannot_be_decoded_is_said() -> None:
    (attempt,) = raw().attempts
    made = finish(raw(attempts=(replace(attempt, encoding="rot13"),)))
    assert made.attempts[0].body is None
    assert any("rot13" in fault for fault in made.broken)


@pytest.mark.parametrize("name", ["decode_steps", "from_json", "mask_steps", "tcp_info"])
def test_a_step_that_raises_is_named_and_costs_its_own_result_only(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call's times and the other steps' results stay, and no word of the payload does."""

    class Broken:
        def __call__(self, *args: object, **kwargs: object) -> None:
            raise RuntimeError(f"cannot handle {CANARY}")

        def decode(self, *args: object) -> None:
            raise RuntimeError(f"cannot handle {CANARY}")

    monkeypatch.setattr(pipeline, name, Broken())
    made = finish(raw())
    assert len(made.broken) == 1
    assert made.broken[0].endswith(": RuntimeError")
    assert (made.masked, made.turn, len(made.attempts[0].reads)) == (True, "t1", 2)
    for secret in SECRETS:
        assert secret not in to_line(made)
    if name == "mask_steps":
        assert (made.request, made.attempts[0].body, made.attempts[0].headers) == (None, None, ())
        assert (made.target.path, made.end.detail) == ("", None)
