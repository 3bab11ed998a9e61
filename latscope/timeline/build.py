"""A recording to its timeline: one pass, nothing split, nothing guessed."""

import re
from collections.abc import Mapping, Sequence

from latscope.protocols import reported
from latscope.protocols.events import VISIBLE_KINDS, Event, Reported
from latscope.recording import Attempt, Recording, ServerSpan
from latscope.steps import Steps, finish
from latscope.timeline.connection import connection_flags, left_running
from latscope.timeline.exchanges import exchanges
from latscope.timeline.hops import own_times
from latscope.timeline.markers import markers
from latscope.timeline.model import (
    Arrival,
    Evidence,
    Exchange,
    Failure,
    Hold,
    Path,
    Timeline,
    Verdict,
)
from latscope.timeline.stream import Stream, arrivals, head_holds, holds, merged_usage, read_stream
from latscope.timeline.verdict import end_of, judge
from latscope.units import US, Ns, Span, clamp

PROXIES = (
    "nginx",
    "envoy",
    "cloudflare",
    "haproxy",
    "openresty",
    "caddy",
    "kong",
    "traefik",
    "apache",
    "cloudfront",
    "awselb",
    "istio-envoy",
    "varnish",
    "squid",
    "google",
    "gws",
    "litellm",
)
"""Server tokens that name a hop, not a model server."""

MODEL_SERVERS = frozenset(
    {"uvicorn", "hypercorn", "granian", "llama.cpp", "ollama", "lmstudio", "latscope-sim"}
)
"""Server tokens of a model server's own HTTP front end; any other may be a hop."""

HOP_HEADERS = re.compile(
    r"via|cf-ray|x-envoy-.*|x-kong-.*|x-litellm-.*|x-amz-cf-.*|x-cache|x-served-by|"
    r"x-portkey-.*|helicone-.*|cf-aig-.*|x-proxy-.*|x-varnish|fly-request-id"
)

LOCAL = re.compile(r"127\.|\[?::1\b|unix:")
PRIVATE = re.compile(
    r"(127\.|10\.|192\.168\.|172\.(1[6-9]|2\d|3[01])\.|\[?::1\b|\[?f[cd][0-9a-f]{2}:|\[?fe80:|unix:)"
)

CLOCK_BOUND: Ns = 50 * US
"""What a stamp may be off by on an idle machine: the clock's own resolution is far below it."""


def build(recording: Recording) -> Timeline:
    """The timeline of a call. Reads everything but `truth`; pure, and total: any recording that
    passed validation has a timeline, a damaged one with flags that say what is missing."""
    return finish(build_steps(recording))


def build_steps(recording: Recording) -> Steps[Timeline]:
    """`build`, some events at a time."""
    attempt = recording.attempts[-1] if recording.attempts else None
    stream = None
    if attempt is not None and attempt.status is not None:
        since = attempt.mark("headers") or 0
        stream = yield from read_stream(attempt, recording.target.path, since)
    wall = max(end_of(recording, stream), 0)
    verdict, failure = judge(recording, stream)
    waits = exchanges(recording.attempts, wall, recording.request_bytes)
    arrived = (yield from arrivals(stream)) if stream else ()
    yield
    since = waits[-1].start_ns
    tokens = tuple(
        [
            arrival if since <= arrival.at.earliest else _within(arrival, since, wall)
            for arrival in arrived
            if arrival.at.latest <= wall
        ]
    )
    if verdict == "error" and failure is not None and failure.phase == "headers":
        tokens = ()
    yield
    return _assemble(recording, attempt or Attempt(), stream, waits, tokens, wall, verdict, failure)


def _assemble(
    recording: Recording,
    attempt: Attempt,
    stream: Stream | None,
    waits: tuple[Exchange, ...],
    tokens: tuple[Arrival, ...],
    wall: Ns,
    verdict: Verdict,
    failure: Failure | None,
) -> Timeline:
    events: Sequence[Event] = stream.telling if stream else ()
    facts = _facts(events)
    return Timeline(
        dialect=stream.dialect.name if stream and stream.dialect else None,
        api=stream.dialect.api if stream and stream.dialect else None,
        streamed=bool(stream and stream.streamed),
        verdict=verdict,
        failure=failure,
        wall_ns=wall,
        exchanges=waits,
        first_byte_ns=stream.reads[0].got_ns if stream and stream.reads else None,
        first_token=tokens[0].at if tokens else None,
        first_visible_token_ns=next(
            (a.at.latest for a in tokens if a.channel in VISIBLE_KINDS), None
        ),
        last_token_ns=tokens[-1].at.latest if tokens else None,
        last_byte_ns=min(stream.reads[-1].got_ns, wall) if stream and stream.reads else None,
        arrivals=tokens,
        shown_tokens=sum([arrival.tokens or 1 for arrival in tokens]),
        reads=len(stream.reads) if stream else 0,
        holds=_holds(recording, attempt, stream, wall),
        usage=merged_usage(events, attempt.usage),
        reported=_reported(events, attempt, recording.spans, stream),
        finish={event.choice: event.name for event in events if event.kind == "finish"},
        model=facts.get("model"),
        response_id=facts.get("response_id"),
        fingerprint=facts.get("fingerprint"),
        service_tier=facts.get("service_tier"),
        path=path_of(attempt),
        stamp_bound_ns=max([CLOCK_BOUND, *(a.at.width for a in (*tokens[:1], *tokens[-1:]))]),
        flags=_flags(recording, stream, tokens, verdict),
        evidence=Evidence(
            tcp=attempt.tcp_info,
            rtt=recording.rtt_probe,
            loop_lag=recording.client.loop_lag,
            gc=recording.client.gc,
            consumer=recording.client.consumer,
        ),
        markers=markers(recording, attempt, stream),
    )


def _within(arrival: Arrival, start: Ns, end: Ns) -> Arrival:
    """No token of an attempt comes before the attempt began, whatever the stamps say."""
    at = arrival.at
    return arrival._replace(at=Span(clamp(at.earliest, start, end), clamp(at.latest, start, end)))


def path_of(attempt: Attempt) -> Path:
    """What the response admits of its way: see Path."""
    headers = dict(attempt.headers)
    server = headers.get("server", "").split("/")[0].split(" ")[0].lower() or None
    hops = [name for name in headers if HOP_HEADERS.fullmatch(name)]
    if server in PROXIES:
        hops.append(f"server: {server}")
    peer = attempt.connection.peer if attempt.connection else None
    stated = (info.min_rtt_ns or info.rtt_ns for info in attempt.tcp_info)
    seen = [ns for ns in stated if ns is not None]
    rtt = min(seen, default=0)
    # A private peer may be far away (a VPN): only its round trip says how far.
    near = bool(peer and (LOCAL.match(peer) or (PRIVATE.match(peer) and rtt)))
    spread = max((info.rttvar_ns or 0 for info in attempt.tcp_info), default=0)
    return Path(
        peer=peer,
        direct=near and server in MODEL_SERVERS and not hops,
        hops=tuple(hops),
        server=server,
        rtt_ns=rtt or None,
        # A connection's first sample has a deviation of half itself (RFC 6298, 2.2): one sample
        # says little of the next packet's luck, many say much.
        sure_ns=max(rtt - spread, rtt // 2),
    )


def _holds(
    recording: Recording, attempt: Attempt, stream: Stream | None, wall: Ns
) -> tuple[Hold, ...]:
    busy = (*recording.client.loop_lag, *recording.client.gc)
    found = () if stream is None else holds(stream, busy, head_holds(attempt, busy))
    return tuple(hold for hold in found if hold.end_ns <= wall)


def _reported(
    events: Sequence[Event], attempt: Attempt, spans: Sequence[ServerSpan], stream: Stream | None
) -> tuple[Reported, ...]:
    """What the servers state: in the answer, in its headers, in the spans joined to the call."""
    stated = reported.of_call(
        (figure for event in events for figure in event.reported),
        attempt.headers,
        # A span's length stands under its own name: SGLang has one a stage.
        ((span.source, {span.name: span.duration_ns, **span.attributes}) for span in spans),
        streamed=stream.streamed if stream else None,
    )
    return (*stated, *own_times(spans))


def _facts(events: Sequence[Event]) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for event in events:
        if event.facts is not None:
            for name in ("model", "response_id", "fingerprint", "service_tier"):
                value = getattr(event.facts, name)
                if value:
                    found[name] = value
    return found


def _flags(
    recording: Recording, stream: Stream | None, tokens: tuple[Arrival, ...], verdict: Verdict
) -> tuple[str, ...]:
    """What a reader of the figures must know, in fixed words (docs/attribution.md)."""
    flags = [] if stream is None else _stream_flags(stream, tokens)
    if recording.attempts and reported.replayed(recording.attempts[-1].headers):
        flags.append("replayed_answer")
    if _shared(recording):
        flags.append("shared_connection")
    if verdict == "cancelled" and left_running(recording):
        flags.append("left_running")
    if recording.broken:
        flags.append("capture_incomplete")
    return (*flags, *connection_flags(recording))


def _stream_flags(stream: Stream, tokens: tuple[Arrival, ...]) -> list[str]:
    together = stream.streamed and len(tokens) > 1
    together = together and all(token.read == tokens[0].read for token in tokens)
    held = {
        "inline_think": any(event.opens_think for event in stream.telling),
        "unknown_dialect": stream.dialect is None,
        "frame_truncated": stream.truncated,
        "unreadable_body": stream.unreadable,
        "one_read": together,
        "several_choices": len({token.choice for token in tokens}) > 1,
        "unknown_events": any(event.kind == "unknown" for event in stream.telling),
    }
    return [flag for flag, holds in held.items() if holds]


def _shared(recording: Recording) -> bool:
    """HTTP/2: another stream's read may have brought our bytes."""
    connection = recording.attempts[-1].connection if recording.attempts else None
    return bool(connection and connection.http == "HTTP/2" and (recording.in_flight or 0) > 0)
