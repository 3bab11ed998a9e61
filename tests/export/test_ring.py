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


def test_big_recordings_are_fewer() -> None:
    """The ring is bounded in bytes as well, but the last call is always there."""
    ring = RingSink(limit=100, limit_bytes=100_000)
    made = [recording(str(n), body=b"x" * 30_000) for n in range(5)]
    for each in made:
        ring.write(each)
    assert [each.call_id for each in ring.recent()] == ["3", "4"]
    ring.write(recording("big", body=b"x" * 200_000))
    assert [each.call_id for each in ring.recent()] == ["big"]
    ring.write(recording("small"))
    assert [each.call_id for each in ring.recent()] == ["small"]
