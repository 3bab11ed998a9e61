"""What the hops of a joined call took themselves, from their own spans.

A hop's span covers all it waited for; what it worked is that less the time of the request it passed
on. Both ends of such a difference lie on one clock, so it needs no agreement between hosts.
"""

from collections.abc import Iterator, Sequence

from latscope.protocols.events import Covers, Reported
from latscope.protocols.otlp import is_request
from latscope.recording import Recording, ServerSpan
from latscope.units import Ns

SOURCE = "hop.span"


def gateway_ns(recording: Recording) -> tuple[Reported, ...]:
    """One figure a hop, in the order a call passes them: its span less those of what it waited for.

    `field` names the hop's service. It covers `network.gateway` where the hop made a span of its
    own for the request upstream, or what it called is a further hop (the way between them is
    network too). Where only the engine's span is known, the difference also holds what the model
    server did before and after its span (reading the request, a busy event loop): it is `stated`.
    """
    return own_times(recording.spans)


def own_times(spans: Sequence[ServerSpan]) -> tuple[Reported, ...]:
    """As `gateway_ns`, of spans that belong to one call."""
    return tuple(figure for hop in spans if (figure := _figure(hop, spans)) is not None)


def _figure(hop: ServerSpan, spans: Sequence[ServerSpan]) -> Reported | None:
    if hop.source or hop.kind != "server":
        return None
    below = [span for span in spans if _under(span, hop)]
    own = [span for span in below if span.kind == "client" and span.service == hop.service]
    waited = own or [span for span in below if span.kind == "server" or is_request(span)]
    if not waited:
        return None
    pure = not any(span.source for span in waited)
    covers: Covers = "network.gateway" if pure else "stated"
    busy = _union(waited) if own else sum(span.duration_ns for span in waited)
    ns = max(0, hop.duration_ns - busy)
    return Reported(source=SOURCE, field=hop.service or hop.name, covers=covers, ns=ns)


def _under(span: ServerSpan, hop: ServerSpan) -> bool:
    return span.parent_id == hop.span_id and span.trace_id == hop.trace_id


def _union(spans: Sequence[ServerSpan]) -> Ns:
    """Time covered by spans of one clock; tries of a request upstream may overlap."""
    total, reached = 0, 0
    for start, end in sorted(_intervals(spans)):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def _intervals(spans: Sequence[ServerSpan]) -> Iterator[tuple[Ns, Ns]]:
    for span in spans:
        yield span.start_unix_ns, span.start_unix_ns + span.duration_ns
