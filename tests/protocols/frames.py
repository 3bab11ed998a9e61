"""Frames and events for the dialects' tests, and short words for what they should be."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from latscope.protocols.dialect import Dialect
from latscope.protocols.events import Event
from latscope.units import MS, Ns
from latscope.wire.frames import Frame, FrameKind
from latscope.wire.ndjson import NDJSONDecoder
from latscope.wire.sse import SSEDecoder


def frame(
    data: bytes | str | Mapping[str, Any] | list[Any],
    *,
    name: str = "",
    kind: FrameKind = "event",
    ns: Ns = 0,
    truncated: bool = False,
) -> Frame:
    """A frame holding `data`, JSON unless it is bytes or text."""
    if isinstance(data, str):
        data = data.encode()
    payload = data if isinstance(data, bytes) else json.dumps(data).encode()
    return Frame(kind, name, payload, 0, len(payload), ns, ns, truncated)


def decode(dialect: Dialect, frames: Iterable[Frame]) -> list[Event]:
    """The events one fresh decoder gives for `frames`."""
    decoder = dialect.decoder()
    return [event for one in frames for event in decoder(one)]


def decode_wire(dialect: Dialect, *writes: tuple[float, bytes]) -> list[Event]:
    """The events of a stream written as (at ms, bytes), through the real wire decoder."""
    wire = NDJSONDecoder() if dialect.api == "ollama" else SSEDecoder()
    frames = [one for ms, data in writes for one in wire.feed(data, round(ms * MS))]
    return decode(dialect, frames + wire.close())


def words(events: Iterable[Event]) -> str:
    """Events in one line: kind, `[choice]` but for 0, `:name`, `=size`, `~tokens`, `<think>`."""
    return " ".join(_word(event) for event in events)


def _word(event: Event) -> str:
    parts = [
        event.kind,
        f"[{event.choice}]" if event.choice else "",
        f":{event.name}" if event.name else "",
        f"={event.size}" if event.size else "",
        f"~{event.tokens}" if event.tokens is not None else "",
        "<think>" if event.opens_think else "",
    ]
    return "".join(parts)
