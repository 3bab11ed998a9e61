"""What one call teaches of its endpoint: one row of figures a call, nothing of its content."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from latscope.attribution.figures import Figures, figures_of
from latscope.attribution.pace import Pace, pace
from latscope.attribution.speed import tokens_per_chunk
from latscope.recording import Recording
from latscope.timeline import Timeline, build
from latscope.units import Ns, wall_s

EARLY_STEPS = 2
"""Steps after the first token whose mean tells how crowded the engine was just then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One call as a floor sees it. All durations are the client's, transit already taken off.

    key: (endpoint, model, api). at_s: wall clock, seconds. uncached, cached: prompt tokens. Of
    `sent_ns`, `headers_ns`: time to the first token from when the request's last byte can have left
    (a process that is put aside in its write is told late that it had), and from the response head;
    null where unknown. head_ns: from that last byte to the response head. step_ns:
    median time a token after the first; context: tokens of context midway. censored: the call was
    stopped before its first token: the times are lower bounds. queue_ns, prefill_ns: the server's
    own figures, where it states them (never used to fit, only to judge and calibrate).
    """

    key: tuple[str, str, str]
    at_s: float
    uncached: int
    cached: int
    sent_ns: Ns | None
    headers_ns: Ns | None
    head_ns: Ns | None
    step_ns: Ns | None
    context: int
    rtt_ns: Ns | None
    tokens_per_chunk: float | None
    in_flight: int | None
    censored: bool = False
    reused: bool | None = None
    peer: str | None = None
    weight: float = 1.0
    """1 / the recording's sampling rate."""
    queue_ns: Ns | None = None
    prefill_ns: Ns | None = None
    early_ns: Ns | None = None
    """Mean time a token over the first steps after the first token: the engine's company then."""
    jitter2: float | None = None
    """Variance of how late reads are for the way's sake, by the stream's own gaps, ns squared; see
    `jitter2`. Of one call alone it may come out negative: only many tell."""
    server: str | None = None
    """Product token of the Server header, lower case."""
    kept: bool = False
    """The first token came together with later ones: something had kept it, nobody knows how long.
    """


def observe(
    recording: Recording,
    timeline: Timeline | None = None,
    found: Pace | None = None,
    figures: Figures | None = None,
) -> Observation | None:
    """The row of a call; null for one that teaches nothing: not streamed, not complete (unless its
    caller gave up before the first token), prompt size unknown, first token hidden or collected.

    timeline, found, figures: of the same recording, where they are made already.
    """
    t = timeline or build(recording)
    usage, answer = t.usage, t.answer
    prompt, sent = usage.input_tokens, answer.sent_ns
    if prompt is None or sent is None or not _teaches(recording, t):
        return None
    rtt = t.path.rtt_ns or 0
    first = t.first_token_ns
    seen = t.wall_ns if first is None else first
    transit = rtt // 2 if first is None else rtt  # of a call that was left, only the way there
    stated = figures or figures_of(t)[0]
    cached = min(usage.cached_tokens or 0, prompt)
    steps = found or pace(t.arrivals)
    step, early = _steps(t, steps)
    head = answer.headers_ns
    ready = sent if answer.ready_ns is None else answer.ready_ns
    return Observation(
        key=(endpoint_of(recording), _model(recording, t), t.api or ""),
        at_s=wall_s(recording.started_at),
        uncached=prompt - cached,
        cached=cached,
        sent_ns=max(0, seen - ready - transit),
        headers_ns=None if head is None else max(0, seen - head),
        head_ns=None if head is None else max(0, head - ready - rtt),
        step_ns=step,
        context=prompt + (usage.output_tokens or 0) // 2,
        rtt_ns=t.path.rtt_ns,
        tokens_per_chunk=tokens_per_chunk(t),
        in_flight=recording.in_flight,
        censored=first is None,
        reused=_reused(recording),
        peer=t.path.peer,
        weight=1 / recording.sample.rate if recording.sample.rate > 0 else 1.0,
        queue_ns=stated.queue_ns,
        prefill_ns=stated.prefill_ns,
        early_ns=early,
        jitter2=jitter2([after.at - before.at for before, after in pairwise(steps.bursts)]),
        server=t.path.server,
        kept=bool(steps.bursts) and steps.bursts[0].events > TOGETHER,
    )


def _teaches(recording: Recording, t: Timeline) -> bool:
    """Whether the time to the first token means what a floor is made of. A token that was hidden,
    or that something collected with all the others, came first at a time nobody saw."""
    if t.first_token is None:
        asked = bool((recording.request or {}).get("stream"))
        return t.verdict == "cancelled" and (t.streamed or asked)
    whole = t.verdict == "complete" and t.streamed
    kept = {"one_read", "replayed_answer"}.intersection(t.flags)
    return whole and not t.hidden_reasoning and not kept


TOGETHER = 2
"""Token events in the first read up to which the first token was on time, give or take a step."""
ORDINARY = 1.6
"""Gaps up to so many times the median are ordinary steps."""
LEAST_GAPS = 12
"""Gaps below which nothing is said of their jitter."""


def jitter2(gaps: Sequence[Ns]) -> float | None:
    """The variance of the reads' lateness, from the gaps between them; null for a few gaps.

    A gap is a step of the engine plus what its end was late, less what its start was. Of the
    differences between neighbouring gaps those two apart share the lateness of one read, and of
    the steps nothing: neither their scatter nor their drift. So their covariance is the lateness's
    variance. Where a gap stands out (a long step for someone's prompt, a stall) it is not asked."""
    if len(gaps) < LEAST_GAPS:
        return None
    most = ORDINARY * median(gaps)
    windows = [gaps[at : at + 4] for at in range(len(gaps) - 3)]
    found = [(b - a) * (d - c) for a, b, c, d in windows if max(a, b, c, d) <= most]
    return fmean(found) if len(found) >= LEAST_GAPS // 2 else None


def _steps(t: Timeline, p: Pace) -> tuple[Ns | None, Ns | None]:
    """Median time a token after the first, and the mean over the first few; null for a stream
    whose tokens did not come at a pace."""
    if not p.paced:
        return None, None
    each = max(1.0, tokens_per_chunk(t) or 1.0)
    near = p.bursts[: EARLY_STEPS + 1]
    events = sum(burst.events for burst in near[1:])
    return round(p.step_ns / each), round((near[-1].at - near[0].at) / events / each)


def _model(recording: Recording, t: Timeline) -> str:
    asked = (recording.request or {}).get("model")
    return t.model or (asked if isinstance(asked, str) else "")


def _reused(recording: Recording) -> bool | None:
    connection = recording.attempts[-1].connection
    return connection.reused if connection else None


def endpoint_of(recording: Recording) -> str:
    """Where the call went, as attributions name it: no user info, no query."""
    target = recording.target
    return f"{target.scheme}://{target.host}:{target.port}{target.path}"
