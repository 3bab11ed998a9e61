"""What the response head and the server's events prove of where in the call the server was.

A server that sends its head before the request waits (early), or when it is scheduled (slot), says
by the head's arrival what came before it; so does an event sent while the request still waited.
Arrivals are later than what they tell of, by delivery at most: `grace`.
"""

from dataclasses import dataclass

from latscope.attribution.profile import HeaderPolicy
from latscope.attribution.splits import engine_of
from latscope.timeline import Timeline
from latscope.units import MS, Ns

POLICIES: dict[str, HeaderPolicy] = {"vllm": "early", "llama.cpp": "slot", "sglang": "token"}
"""When a known engine lets its response head go, streamed (vLLM 0.32 serving code: after
templating and tokenising, before the engine; llama.cpp: when a slot starts the prompt, since pull
request 23884, with the first token before; SGLang 0.5: with the first chunk)."""

APART: Ns = 50 * MS
"""Events this far apart were not collected by anything on the way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stages:
    """unscheduled_ns: until then the request was surely not scheduled; scheduled_ns: from then on
    it surely was; both null when nothing proves it. frontend: that first stretch lies before the
    engine's own queue. firm: it is proved; else a vendor's word says so, an estimate. evidence:
    what proves them, for people."""

    unscheduled_ns: Ns | None = None
    scheduled_ns: Ns | None = None
    frontend: bool = False
    firm: bool = True
    evidence: tuple[str, ...] = ()


UNTOLD = Stages()


def stages(timeline: Timeline, grace: Ns, *, hop_free: bool) -> Stages:
    """Proofs only: without them, and behind a hop that may keep the head, nothing is claimed."""
    told = _by_markers(timeline, grace)
    if not hop_free or timeline.answer.headers_ns is None:
        return told
    headers, first = timeline.answer.headers_ns, timeline.first_token_ns
    policy = POLICIES.get(engine_of(timeline)) if timeline.streamed else None
    before = max(headers - grace, told.unscheduled_ns or 0)
    if policy == "early":
        why = "the server sends its head before the engine's queue"
        return Stages(
            unscheduled_ns=before,
            scheduled_ns=told.scheduled_ns,
            frontend=told.unscheduled_ns is None,
            evidence=(why, *told.evidence),
        )
    # An older llama.cpp sent its head with the first token: then the two come together.
    if policy == "slot" and first is not None and first - headers > grace:
        after = min(headers, told.scheduled_ns if told.scheduled_ns is not None else headers)
        why = "the server sends its head when a slot starts the prompt"
        return Stages(unscheduled_ns=before, scheduled_ns=after, evidence=(why, *told.evidence))
    return told


def _by_markers(timeline: Timeline, grace: Ns) -> Stages:
    """An event that was sent while the request waited was sent before it came; several of them,
    well apart, were not collected on the way, so the last is late by less than the gap before it.
    An event sent after scheduling proves it for all that follows its arrival."""
    if not timeline.markers:  # nearly every call
        return UNTOLD
    told = [marker for marker in timeline.markers if marker.milestone == "waiting"]
    waiting = [marker.at for marker in told]
    started = [m.at for m in timeline.markers if m.milestone in ("scheduled", "prefilled")]
    evidence: list[str] = []
    unscheduled = None
    if len(waiting) > 1 and waiting[-1].earliest - waiting[-2].latest > APART:
        late = grace if timeline.path.direct else waiting[-1].earliest - waiting[-2].latest
        unscheduled = max(0, waiting[-1].earliest - late)
        evidence.append("the server said the request still waited")
    if started:
        evidence.append("the server said it was at the prompt")
    return Stages(
        unscheduled_ns=unscheduled,
        scheduled_ns=started[0].latest if started else None,
        firm=all(marker.firm for marker in told),
        evidence=tuple(evidence),
    )
