"""What the path does to packets, as data, and the commands that change it while it runs.

    delay=20ms jitter=2ms loss=1% rate=10mbit queue=64kB       settings of one way
    set both delay=40ms | hold down 300ms | blackout 200ms | drop down 2 | at 1.5s hold down 300ms

A way is `up` (client to server), `down` or `both`, which is also what is meant when none is named.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from latscope.units import MS, US, Ns, S

WAYS = ("up", "down")
TIMES: Mapping[str, Ns] = {"us": US, "ms": MS, "s": S}
RATES: Mapping[str, int] = {"bit": 1, "kbit": 1_000, "mbit": 1_000_000, "gbit": 1_000_000_000}
SIZES: Mapping[str, int] = {"b": 1, "kb": 1_000, "mb": 1_000_000}


class ProfileError(ValueError):
    """A setting or command nobody can follow; the message is for the person who wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One direction of the path.

    delay_ns: each packet's; jitter_ns: up to so much more or less, evenly drawn, the order kept
    (a late packet holds those behind it back). loss: share of packets dropped, drawn. rate_bps:
    bits a second, null for any; packets wait for their turn, at most queue_bytes of them, the rest
    is dropped at the tail.
    """

    delay_ns: Ns = 0
    jitter_ns: Ns = 0
    loss: float = 0.0
    rate_bps: int | None = None
    queue_bytes: int = 256_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Both ways; seed decides losses and jitter; congestion is the TCP algorithm at both ends;
    trace: each segment with data that leaves for the client is logged."""

    up: Way = Way()
    down: Way = Way()
    seed: int = 1
    congestion: str | None = None
    trace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One thing to do. ns: how long (`hold`, `blackout`) or when (`at`); packets: how many that
    carry data (`drop`); settings: of `set`; then: the rest of `at`."""

    do: str
    ways: tuple[str, ...] = WAYS
    ns: Ns = 0
    packets: int = 0
    settings: str = ""
    then: str = ""


def both(settings: str, **more: Any) -> Profile:
    """Make a profile with the same settings each way."""
    way = change(Way(), settings)
    return Profile(up=way, down=way, **more)


def change(way: Way, settings: str) -> Way:
    """Apply `name=value` settings; what is not named stays."""
    changed: dict[str, Any] = {}
    for word in settings.replace(",", " ").split():
        name, _, value = word.partition("=")
        if name not in SETTINGS:
            raise ProfileError(f"unknown setting {name!r}: one of {', '.join(SETTINGS)}")
        field, read = SETTINGS[name]
        changed[field] = read(value)
    return replace(way, **changed)


def parse(text: str) -> Command:
    """Read a command; the words are in the head of this file."""
    do, *words = text.split() or [""]
    if do == "at" and len(words) > 1:
        parse(" ".join(words[1:]))
        return Command(do=do, ns=duration(words[0]), then=" ".join(words[1:]))
    ways: tuple[str, ...] = WAYS
    if words and words[0] in (*WAYS, "both"):
        ways = WAYS if words[0] == "both" else (words[0],)
        words = words[1:]
    if do == "set" and words:
        change(Way(), " ".join(words))
        return Command(do=do, ways=ways, settings=" ".join(words))
    if do in ("hold", "blackout") and len(words) == 1:
        return Command(do=do, ways=ways, ns=duration(words[0]))
    if do == "drop" and len(words) == 1 and words[0].isdigit():
        return Command(do=do, ways=ways, packets=int(words[0]))
    raise ProfileError(f"not a command: {text!r}; try `hold down 300ms`")


def duration(text: str) -> Ns:
    """Read `20ms`, `1.5s`, `300us` as nanoseconds."""
    return round(_number(text, TIMES, "a duration such as 20ms"))


def share(text: str) -> float:
    """Read `1%` or `0.01`."""
    value = _number(text, {"%": 0.01, "": 1.0}, "a share such as 1%")
    if value > 1:
        raise ProfileError(f"{text!r} is more than all")
    return value


def rate(text: str) -> int | None:
    """Read `10mbit`; `any` is no limit."""
    if text == "any":
        return None
    value = round(_number(text, RATES, "a rate such as 10mbit"))
    if value < 1:
        raise ProfileError("a rate of nothing: use blackout")
    return value


def size(text: str) -> int:
    """Read `64kB`."""
    return round(_number(text.lower(), SIZES, "a size such as 64kB"))


def _number(text: str, units: Mapping[str, float], wanted: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z%]*)", text)
    if found is None or found[2] not in units:
        raise ProfileError(f"{text!r} is not {wanted}")
    return float(found[1]) * units[found[2]]


SETTINGS: Mapping[str, tuple[str, Callable[[str], Any]]] = {
    "delay": ("delay_ns", duration),
    "jitter": ("jitter_ns", duration),
    "loss": ("loss", share),
    "rate": ("rate_bps", rate),
    "queue": ("queue_bytes", size),
}


def to_mapping(profile: Profile) -> dict[str, Any]:
    """JSON-ready values; `from_mapping` reads them back."""
    return asdict(profile)


def from_mapping(plain: Mapping[str, Any]) -> Profile:
    """Read a profile that came as JSON."""
    ways = {name: Way(**plain[name]) for name in WAYS if name in plain}
    return Profile(**{**plain, **ways})
