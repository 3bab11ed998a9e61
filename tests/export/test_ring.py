"""The sink in memory."""

import pytest

from latscope.export.ring import RingSink

from .test_jsonl import recording


@pytest.mark.parametrize(
    ("n", "expected"),
    [(None, "cde"), (0, ""), (-1, ""), (1, "e"), (2, "de"), (9, "cde")],
)
def test_the_last_calls_are_kept_oldest_first(n: int | None, expected: str) -> None:
    ring = RingSink(limit=3)
    for name in "abcde":
        ring.write(recording(name))
    assert [call.call_id for call in ring.recent(n)] == list(expected)
    assert repr(ring) == "RingSink(3 of 3)"
    ring.clear()
    assert ring.recent() == []
