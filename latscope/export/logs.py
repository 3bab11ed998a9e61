"""The sink in the application's own log: one line a call.

from latscope.export.logs import LoggingSink
latscope.instrument(client, sink=LoggingSink())
"""

import logging
from collections.abc import Iterator
from typing import Any

from latscope.attribution.attribute import attribute_timeline
from latscope.attribution.model import Attribution
from latscope.recording import Recording
from latscope.timeline import build
from latscope.units import MS, Ns


class LoggingSink:
    """Logs each call to `logger` (a name or a logger, `latscope.calls` by default): at `level` one
    that went well, as a warning one that did not. The figures are also the record's attribute
    `latscope`, a dict, for handlers that write JSON. Content is in neither.
    """

    def __init__(
        self, logger: str | logging.Logger = "latscope.calls", level: int = logging.INFO
    ) -> None:
        self.logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self.level = level

    def write(self, recording: Recording) -> None:
        for _ in self.write_slowly(recording):
            pass

    def write_slowly(self, recording: Recording) -> Iterator[None]:
        """`write`, stopping wherever others may run."""
        if not self.logger.isEnabledFor(logging.WARNING):
            return
        timeline = build(recording)
        yield
        found = attribute_timeline(recording, timeline)
        yield
        level = self.level if found.status == "complete" else logging.WARNING
        if self.logger.isEnabledFor(level):
            told = figures(found)
            text = " ".join(f"{name}={value}" for name, value in told.items() if value is not None)
            self.logger.log(level, "llm call %s", text, extra={"latscope": told})


def figures(found: Attribution) -> dict[str, Any]:
    """What a line says: whose call, how it went, its times in ms, the segments in ms, tokens."""
    segments = {f"{share.name}_ms": _ms(share.ns) for share in found.segments if share.ns}
    return {
        "id": found.call_id,
        "model": found.model,
        "endpoint": found.endpoint,
        "status": found.status,
        "http": found.http_status,
        "ttft_ms": _ms(found.first_token_ns),
        "e2e_ms": _ms(found.wall_ns),
        **segments,
        "dominant": found.dominant,
        "input_tokens": found.input_tokens,
        "output_tokens": found.output_tokens,
        "attempts": len(found.attempts),
    }


def _ms(ns: Ns | None) -> float | None:
    return None if ns is None else round(ns / MS, 3)
