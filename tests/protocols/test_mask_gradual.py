"""The mask of a body that is still coming gives what the mask of the whole gives."""

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from latscope.documents.recordings import read
from latscope.protocols.mask import gradual
from latscope.protocols.mask.body import mask_body
from latscope.protocols.mask.gradual import GradualMask
from latscope.steps import finish
from tests.test_fixtures import FOLDER, NAMES
from tests.wire.cutting import any_cuts, pieces, single_bytes

from .test_bedrock import STREAM
from .test_mask_properties import bodies

SSE = b'event: a\ndata: {"content":"said"}\n\ndata: {"content":"more"}\n\n'
LINES = b'{"response":"said"}\n{"response":"more"}\n'
DOCUMENT = b'{\n "content": "said",\n "inner": {"text": "a"}\n}\n'


def fed(parts: Iterable[bytes], *, keep_content: bool = False) -> tuple[list[bytes], GradualMask]:
    made = GradualMask(keep_content=keep_content)
    return [finish(made.feed(part)) for part in parts] + [finish(made.close())], made


def same(parts: Sequence[bytes], *, keep_content: bool = False) -> None:
    whole = finish(mask_body(b"".join(parts), keep_content=keep_content))
    assert b"".join(fed(parts, keep_content=keep_content)[0]) == whole


@pytest.fixture(autouse=True, scope="module")
def small_look() -> Iterable[None]:
    """Bodies of tests are short: what they are is to be settled sooner than after 64 KiB."""
    patch = pytest.MonkeyPatch()
    patch.setattr(gradual, "LOOKED_AT", 24)
    yield
    patch.undo()


@settings(deadline=None, max_examples=300)
@given(bodies(), any_cuts(200), st.booleans())
@example(b"\r\n" + SSE, [1, 2, 3], False)
@example(b'data: {"a":1}\n: c\r\n\r\ndata: {"b":2}', [14, 18, 20], False)
@example(b"data: a\r\rdata: b\r\ndata: c\r\n\r\nx", [8, 9, 20], False)
@example(b"\xef\xbb\xbf" + LINES, [2, 5, 23], True)
@example(b'{"a":1}\n\xef\xbb\xbfdata: {"content":"x"}\n\n', [8], False)
def test_any_body_cut_anywhere(body: bytes, cuts: list[int], keep_content: bool) -> None:
    same(pieces(body, cuts), keep_content=keep_content)


@pytest.mark.parametrize("name", NAMES)
def test_every_fixture_byte_by_byte(name: str) -> None:
    for recording in read(FOLDER / f"{name}.jsonl"):
        for attempt in recording.attempts:
            if attempt.body is not None:
                same(single_bytes(attempt.body[:3000]))


@pytest.mark.parametrize("keep_content", [False, True])
@pytest.mark.parametrize("size", [1, 7, 100])
def test_an_event_stream_message_by_message(size: int, keep_content: bool) -> None:
    """Broken in the middle too."""
    whole = b"".join(STREAM)
    broken = bytearray(whole)
    broken[len(whole) // 2] ^= 1
    for body in (whole, bytes(broken), whole[:-5]):
        same([body[at : at + size] for at in range(0, len(body), size)], keep_content=keep_content)
    given_out, mask = fed(single_bytes(whole))
    assert mask.streams
    assert max(map(len, given_out)) < len(whole)


@pytest.mark.parametrize(
    "body", [SSE * 50, LINES * 50, b"\n" + LINES * 50, SSE.replace(b"\n", b"\r\n") * 50]
)
def test_a_stream_is_given_out_as_it_comes(body: bytes) -> None:
    """No more than two events are ever held."""
    made = GradualMask()
    for part in single_bytes(body):
        finish(made.feed(part))
        assert made.held <= 2 * len(SSE) + 8
    assert made.streams


@pytest.mark.parametrize("body", [DOCUMENT, b'{"content": "said"}\n', b"[1,\n2]", b"", b"no frame"])
def test_a_document_is_held_to_its_end(body: bytes) -> None:
    made = GradualMask()
    assert b"".join(finish(made.feed(part)) for part in single_bytes(body)) == b""
    assert (made.held, made.streams) == (len(body), False)
    assert finish(made.close()) == finish(mask_body(body))
    assert made.held == 0
