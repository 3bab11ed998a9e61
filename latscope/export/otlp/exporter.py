"""Recorded calls to a collector: spans as the calls come, metrics when all have come."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from latscope.attribution.model import Attribution
from latscope.export.otel.metrics import metric_points
from latscope.export.otel.spans import span_rows, started, trace_of
from latscope.export.otel.told import told
from latscope.export.otlp import encode
from latscope.export.otlp.aggregate import Aggregate
from latscope.export.otlp.lines import line_points
from latscope.export.otlp.sender import PATIENCE_S, Sender
from latscope.export.otlp.settings import Signal, Way
from latscope.export.otlp.transport import transport
from latscope.recording import Recording
from latscope.timeline import Timeline
from latscope.units import US, S, wall_s

MOST_SPANS = 512
MOST_BYTES = 1 << 20
"""What one request holds of spans; collectors take 4 MiB and more."""
MOST_POINTS = 1_000
"""What one request holds of points of metrics."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What became of one signal's items (spans, or points of metrics)."""

    signal: Signal
    url: str
    sent: int
    rejected: int
    refused: int
    unsent: int
    requests: int
    repeats: int
    said: Mapping[str, int]
    given_up: str | None
    unreachable: bool

    @property
    def whole(self) -> bool:
        """Whether the collector has taken all of it."""
        return not (self.rejected or self.refused or self.unsent or self.given_up)


class Exporter:
    """Mutable: what waits to be sent, and the counts. One of the two ways may be null: then that
    signal is not made.

    aliases: also the names of before, and those that single backends read. tags: names of tags that
    become attributes of metrics. waiting: told what a repetition waits for.
    """

    def __init__(
        self,
        *,
        traces: Way | None,
        metrics: Way | None,
        aliases: bool = False,
        tags: Sequence[str] = (),
        delta: bool = False,
        patience_s: float = PATIENCE_S,
        waiting: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.aliases = aliases
        self.tags = tuple(tags)
        self.delta = delta
        self.no_ids = 0
        """Calls whose recorded ids are none: they make no spans."""
        self._resource: Any = None
        self._aggregate = Aggregate()
        self._spans: list[Any] = []
        self._bytes = 0
        how = {"patience_s": patience_s, "waiting": waiting}
        self._traces = None if traces is None else _sender(traces, self._pack_spans, how)
        self._metrics = None if metrics is None else _sender(metrics, self._pack_metrics, how)
        if self._metrics is not None:
            self._metrics.size = encode.points_in

    # -- calls ------------------------------------------------------------------------------------

    def take(self, call: Recording, timeline: Timeline, attribution: Attribution) -> None:
        """One recorded call; sends what is enough for a request."""
        self._begin(call.call_id)
        about = told(call, timeline, attribution)
        spans = []
        if self._traces is not None:
            try:
                spans = [encode.span(row) for row in span_rows(about, aliases=self.aliases)]
            except ValueError:
                self.no_ids += 1
        if self._metrics is not None:
            points = metric_points(about, aliases=self.aliases, tags=self.tags)
            trace = trace_of(call)
            self._aggregate.add(
                points,
                end_unix_ns=started(call) + timeline.wall_ns,
                trace=(trace.trace_id, trace.span_id) if spans else None,
            )
        for span in spans:
            self._spans.append(span)
            self._bytes += span.ByteSize()
        if len(self._spans) >= MOST_SPANS or self._bytes >= MOST_BYTES:
            self._send_spans()

    def take_line(self, line: Mapping[str, Any]) -> None:
        """One line of `latscope.attribution/1`: metrics only."""
        self._begin(line["call_id"])
        if self._metrics is not None:
            points = line_points(line, aliases=self.aliases, tags=self.tags)
            start = round(wall_s(line["started_at"]) * (S // US)) * US
            self._aggregate.add(points, end_unix_ns=start + line["wall_ns"])

    @property
    def lost(self) -> bool:
        """Whether nothing that could still be made would be sent."""
        if self._traces is None or self._traces.given_up is None:
            return False
        return self._metrics is None or (self._traces.unreachable and self._one_place)

    def finish(self) -> list[Account]:
        """Sends what is left, and says what became of everything."""
        if self._traces is not None:
            self._send_spans()
        if self._metrics is not None:
            if self._traces is not None and self._traces.unreachable and self._one_place:
                # Nobody is there for spans: the same patience need not be spent on metrics.
                self._metrics.given_up = self._traces.given_up
                self._metrics.unreachable = True
            self._send_metrics(self._metrics)
        return self.accounts()

    def accounts(self) -> list[Account]:
        """What has become of everything so far."""
        senders = (self._traces, self._metrics)
        return [_account(sender) for sender in senders if sender is not None]

    def close(self) -> None:
        for sender in (self._traces, self._metrics):
            if sender is not None:
                with suppress(Exception):
                    sender.transport.close()

    @property
    def _one_place(self) -> bool:
        """Whether both signals go to the same address."""
        if self._traces is None or self._metrics is None:
            return False
        here, there = urlsplit(self._traces.way.url), urlsplit(self._metrics.way.url)
        return here.netloc == there.netloc

    # -- requests ---------------------------------------------------------------------------------

    def _begin(self, call_id: str) -> None:
        """The first call names the export: the same calls again are the same instance, and other
        ones another, whose sums never mix."""
        if self._resource is None:
            digest = hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()
            self._resource = encode.resource(f"latscope-export-{digest[:12]}")

    def _pack_spans(self, spans: Sequence[Any]) -> bytes:
        return encode.traces_request(spans, self._resource)

    def _pack_metrics(self, metrics: Sequence[Any]) -> bytes:
        return encode.metrics_request(metrics, self._resource)

    def _send_spans(self) -> None:
        spans, self._spans, self._bytes = self._spans, [], 0
        if self._traces is not None:
            self._traces.send(spans)

    def _send_metrics(self, sender: Sender[Any]) -> None:
        for batch in _batches(self._metrics_in_order(), MOST_POINTS):
            sender.send(batch)

    def _metrics_in_order(self) -> Iterator[Any]:
        """A metric a series; a store takes each series' points in order of time."""
        for series, points in self._aggregate.series(delta=self.delta):
            for at in range(0, len(points), MOST_POINTS):
                yield encode.metric(series, points[at : at + MOST_POINTS], delta=self.delta)


def _sender(way: Way, pack: Callable[[Sequence[Any]], bytes], how: dict[str, Any]) -> Sender[Any]:
    return Sender(way=way, transport=transport(way), pack=pack, **how)


def _batches(metrics: Iterator[Any], most: int) -> Iterator[list[Any]]:
    batch: list[Any] = []
    held = 0
    for metric in metrics:
        n = encode.points_in(metric)
        if batch and held + n > most:
            yield batch
            batch, held = [], 0
        batch.append(metric)
        held += n
    if batch:
        yield batch


def _account(sender: Sender[Any]) -> Account:
    return Account(
        signal=sender.way.signal,
        url=sender.way.url,
        sent=sender.taken,
        rejected=sender.rejected,
        refused=sender.refused,
        unsent=sender.unsent,
        requests=sender.requests,
        repeats=sender.repeats,
        said=dict(sender.said),
        given_up=sender.given_up,
        unreachable=sender.unreachable,
    )
