"""The smallest round trip of the last five minutes, by address."""

import pytest

from latscope.capture import rtt
from latscope.units import MS, S


@pytest.fixture(autouse=True)
def nothing_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rtt, "_seen", {})


def test_the_smallest_of_the_window_stands() -> None:
    """A smaller sample takes over at once, a larger one when the smaller is five minutes old."""
    assert rtt.lowest("a", 30 * MS, 0) == 30 * MS
    assert rtt.lowest("a", 20 * MS, 60 * S) == 20 * MS
    assert rtt.lowest("a", 25 * MS, 120 * S) == 20 * MS
    assert rtt.lowest("a", 40 * MS, 200 * S) == 20 * MS
    assert rtt.lowest("a", None, 359 * S) == 20 * MS
    assert rtt.lowest("a", None, 360 * S) == 25 * MS
    assert rtt.lowest("a", None, 420 * S) == 40 * MS
    assert rtt.lowest("a", None, 500 * S) is None
    assert rtt._seen == {}


def test_addresses_do_not_mix() -> None:
    assert rtt.lowest("a:1", MS, 0) == MS
    assert rtt.lowest("a:2", None, 0) is None


def test_samples_stay_few() -> None:
    """A rising round trip asked for each 0.1 s keeps one sample each ten seconds."""
    for tick in range(5000):
        rtt.lowest("a", MS + tick, tick * S // 10)
    assert len(rtt._seen["a"]) <= rtt.WINDOW // rtt.SLOT + 1
    assert rtt.lowest("a", None, 500 * S) == rtt._seen["a"][0][1]


def test_addresses_stay_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one heard of longest ago goes; one that was asked for again stays."""
    monkeypatch.setattr(rtt, "ADDRESSES", 3)
    for peer in ("a", "b", "c", "a", "d"):
        rtt.lowest(peer, MS, 0)
    assert list(rtt._seen) == ["c", "a", "d"]
