"""What broke the bounds or the laws once: each world by hand, the truth known by construction."""

from dataclasses import replace
from typing import Any

import pytest

from latscope.attribution import Attribution
from latscope.recording import Mark
from latscope.units import MS
from tests.calls import (
    DONE,
    Chunk,
    attempt,
    attributed,
    call,
    delta,
    finish,
    metrics,
    stream,
    tokens,
    usage,
)


def bounds(found: Attribution, name: str, *, ttft: bool = False) -> tuple[float, float]:
    pieces = (found.ttft_pieces or ()) if ttft else found.pieces
    least = sum(piece.ns for piece in pieces if piece.sure and piece.owner == name)
    return least / MS, sum(piece.ns for piece in pieces if name in piece.candidates) / MS


def ended(chunks: list[Chunk], output: int, reason: str = "stop", **extra: Any) -> list[Chunk]:
    return [*chunks, (chunks[-1][0] + 0.5, finish(reason) + usage(output, **extra) + DONE)]


# -- law 1 on recordings whose marks are incomplete or out of order --------------------------------


@pytest.mark.parametrize("reused", [True, False])
def test_without_a_header_mark_time_is_conserved(reused: bool) -> None:
    made = attempt(tokens(6, start=50, step=10), connect=None if reused else 1.0)
    kept = tuple(mark for mark in made.marks if mark.name != "request.headers")
    attributed(call(replace(made, marks=kept)))


def test_marks_out_of_order_conserve_time() -> None:
    made = attempt(tokens(6, start=50, step=10))
    late = [Mark(m.name, 4 * MS) if m.name == "request.started" else m for m in made.marks]
    attributed(call(replace(made, marks=tuple(late))))


def test_attempts_out_of_order_conserve_time() -> None:
    first = attempt((), status=429, headers=20, end=21)
    second = attempt((), status=500, entry=100, connect=None, sent=101, headers=110, end=120)
    last = attempt(tokens(6, start=150, step=10), entry=60, connect=None, sent=61, headers=70)
    attributed(call(first, second, last))


def test_a_token_before_its_attempt_conserves_time() -> None:
    first = attempt((), status=429, headers=20, end=21)
    last = attempt(tokens(6, start=10, step=10), entry=60, connect=None, sent=61, headers=70)
    attributed(call(first, last))


# -- law 2 -----------------------------------------------------------------------------------------


def test_reported_hidden_reasoning_is_decode_before_the_first_token() -> None:
    """Scheduled 53, first (hidden) token 153, 20 hidden ones: the first shown token at 453."""
    chunks = ended(tokens(20, start=453.2, step=15), 40, metrics=metrics(50, 100, 585))
    found = attributed(stream(chunks))
    least, most = bounds(found, "decode", ttft=True)
    assert least <= 300 <= most
    assert bounds(found, "network", ttft=True)[0] <= 3


def test_when_reasoning_ate_the_cap_the_silence_may_be_decode() -> None:
    chunks: list[Chunk] = [(600.0, finish("length") + usage(30) + DONE)]
    assert bounds(attributed(stream(chunks)), "decode")[1] > 500


@pytest.mark.parametrize("reason", ["cancelled", "closed"])
def test_a_call_broken_off_in_silence_may_have_decoded(reason: str) -> None:
    stopped = call(attempt(headers=5.0, end=5.0), reason=reason, stop=705.0)  # type: ignore[arg-type]
    assert bounds(attributed(stopped), "decode")[1] > 600


def test_one_token_never_shown_may_lie_before_the_first() -> None:
    """Output counts one token more than was shown, its step 200 ms: no end-of-text when the cap
    ended it, and perhaps none else."""
    for reason in ("length", "stop"):
        found = attributed(stream(ended(tokens(20, start=503, step=200), 21, reason)))
        assert bounds(found, "decode")[1] >= 20 * 200
        assert bounds(found, "decode", ttft=True)[1] >= 200


@pytest.mark.parametrize(("every", "step"), [(200, 120), (200, 210), (150, 100), (350, 400)])
def test_a_hop_without_headers_that_flushes_by_time(every: int, step: int) -> None:
    """It passes one or two tokens at a time, and keeps the first as long as its beat."""
    exists = [303 + step * index for index in range(40)]
    flushed = sorted({-(-(at - 302) // every) * every + 302 for at in exists})
    chunks: list[Chunk] = []
    for at in flushed:
        count = sum(at - every < born <= at for born in exists)
        chunks.append((float(at), b"".join(delta("t") for _ in range(count))))
    found = attributed(stream(ended(chunks, 40)))
    least, most = bounds(found, "decode")
    assert least <= 39 * step <= most
    assert bounds(found, "network", ttft=True)[1] >= flushed[0] - exists[0]


def test_lateness_of_a_first_burst_counts_its_tokens() -> None:
    """The first two tokens 90 ms late together, the third on time (step 60)."""
    exists = [303.0 + 60 * index for index in range(40)]
    chunks = [(393.0, delta("a") + delta("b")), *((at, delta("t")) for at in exists[2:])]
    found = attributed(stream(ended(chunks, 40)))
    assert bounds(found, "network", ttft=True)[1] >= 90


def test_a_reader_that_never_catches_up_says_nothing_of_decode() -> None:
    """Every read found its bytes waiting: the pace is the reader's own."""
    chunks = [(100 + 0.8 * index, delta("x")) for index in range(600)]
    chunks = ended(chunks, 600)
    asked = {index: at - 0.01 for index, (at, _) in enumerate(chunks) if index}
    found = attributed(call(attempt(chunks, asked=asked, headers=50)))
    assert bounds(found, "decode")[0] <= 180
    assert bounds(found, "client")[1] > 400


def test_partial_figures_leave_the_first_token_its_delivery() -> None:
    """Queue and prefill stated, decode not; the first token 40 ms late, so decode began earlier."""
    exists = [303.0 + 60 * index for index in range(40)]
    chunks = [(343.0, delta("a")), *((at, delta("t")) for at in exists[1:])]
    found = attributed(stream(ended(chunks, 40, metrics=metrics(199.9, 100, 0))))
    assert bounds(found, "decode")[1] >= 39 * 60
