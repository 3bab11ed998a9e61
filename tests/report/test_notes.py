from dataclasses import replace

import pytest

from latscope.attribution.model import ErrorInfo
from latscope.report.notes import notes
from latscope.units import MS, US

from . import samples


@pytest.mark.parametrize(
    ("status", "kind", "phase", "said"),
    [
        (404, "NotFoundError", "headers", "the server answered 404 (NotFoundError)"),
        (502, "http_502", "headers", "the server answered 502"),
        (308, "http_308", "headers", "the server answered 308"),
        (200, "oom", "stream", "oom, while waiting for the rest of the stream"),
        (None, "x.ReadTimeout", "headers", "x.ReadTimeout, while waiting for the response headers"),
    ],
)
def test_an_error_says_what_came(status: int | None, kind: str, phase: str, said: str) -> None:
    """An answer that refuses is no wait; a silence names what was waited for."""
    call = replace(
        samples.failed_call(), http_status=status, error=ErrorInfo(type=kind, phase=phase)
    )
    assert next(note.lines for note in notes(call) if note.label == "error") == (said,)


def test_times_that_stand_together_share_a_unit() -> None:
    """850 µs beside 4 ms are 0.85 ms."""
    call = replace(samples.reported_call(), sent_ns=850 * US, headers_ns=4 * MS)
    (line,) = next(note.lines for note in notes(call) if note.label == "times")
    assert line.startswith("sent 0.85 ms · headers 4.0 ms")
    assert "µs" not in line
