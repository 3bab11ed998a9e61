"""What is known of one call's lead beyond bounds: from a profile, or from tokens it counted unseen.

Nothing here for a call whose server states its own times: a statement outranks every model. The
load excess is told for all calls of a profiled endpoint alike.
"""

from dataclasses import dataclass

from latscope.attribution.estimate import Lead
from latscope.attribution.excess import Estimate, split
from latscope.attribution.figures import Figures
from latscope.attribution.model import LoadExcess, Segment
from latscope.attribution.observe import endpoint_of, observe
from latscope.attribution.pace import Pace
from latscope.attribution.profile import Profile
from latscope.recording import Recording
from latscope.timeline import Timeline
from latscope.units import MS, Ns, wall_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """lead: what to lay on the partition, null when nothing is known; leader: which of queue and
    prefill took more, where that is likelier than their intervals can say; flags: what a reader
    must know of it."""

    leader: Segment | None = None
    lead: Lead | None = None
    excess: LoadExcess | None = None
    source: str | None = None
    flags: tuple[str, ...] = ()


def known_of(
    call: Recording, timeline: Timeline, figures: Figures, found: Pace, profile: Profile | None
) -> Known:
    """What the profile and the call's own counts tell of the time before its first token."""
    if timeline.first_token is None or timeline.verdict != "complete":
        return Known()
    decode, least = _hidden_decode(timeline, found, profile)
    estimate, flags = _estimate(call, timeline, figures, found, profile)
    lead = None
    if not figures.known and (decode or estimate is not None):
        lead = _lead(estimate, decode, least, profile)
    excess = None if estimate is None or profile is None else _excess(estimate, profile)
    source = None if estimate is None or profile is None else source_of(profile)
    leader = None if lead is None or estimate is None else estimate.dominant
    return Known(leader=leader, lead=lead, excess=excess, source=source, flags=flags)


def source_of(profile: Profile) -> str:
    """Where a profile's figures come from, for people."""
    if profile.provenance == "probed":
        return f"probed on {profile.made_at[:10]}"
    return f"inferred from {profile.n} calls"


def _estimate(
    call: Recording, timeline: Timeline, figures: Figures, found: Pace, profile: Profile | None
) -> tuple[Estimate | None, tuple[str, ...]]:
    if profile is None:
        return None, ()
    model = timeline.model or str((call.request or {}).get("model"))
    if (endpoint_of(call), model) != (profile.endpoint, profile.model):
        return None, ("profile_of_another",)
    if wall_s(call.started_at) > wall_s(profile.expires_at):
        return None, ("profile_expired",)
    row = observe(call, timeline, found, figures)
    estimate = None if row is None else split(row, profile)
    if estimate is None:
        return None, ()
    return estimate, () if estimate.calibrated else ("uncalibrated",)


def _hidden_decode(timeline: Timeline, found: Pace, profile: Profile | None) -> tuple[Ns, Ns]:
    """How long the tokens never shown took, and at least: their count by the step of the stream
    itself, or the profile's. Half of it is sure at most: a step's time is its company's, too."""
    hidden = timeline.usage.reasoning_tokens if timeline.hidden_reasoning else 0
    if not hidden:
        return 0, 0
    step = found.step_ns if found.paced else 0
    if not step and profile is not None and profile.step is not None:
        step = profile.step.at(timeline.usage.input_tokens or 0)
    return hidden * step, hidden * step // 2


def _lead(estimate: Estimate | None, decode: Ns, least: Ns, profile: Profile | None) -> Lead:
    if estimate is None or profile is None or profile.floor is None:
        why = "reasoning tokens by the time of a step"
        return Lead(
            prefill_ns=None,
            decode_ns=decode,
            decode_low_ns=least,
            provenance="inferred",
            evidence=(why,),
        )
    return Lead(
        prefill_ns=estimate.prefill_ns,
        prefill_low_ns=estimate.prefill_low_ns,
        prefill_high_ns=estimate.prefill_high_ns + estimate.early_ns,
        decode_ns=decode,
        decode_low_ns=least,
        way_ns=estimate.way_ns,
        loose_ns=max(MS, profile.floor.noise_ns, 3 * estimate.way_ns),
        provenance=profile.provenance,
        evidence=(f"the floor of this endpoint, {source_of(profile)}",),
    )


def _excess(estimate: Estimate, profile: Profile) -> LoadExcess:
    return LoadExcess(
        ns=estimate.excess_ns,
        low_ns=estimate.excess_low_ns,
        high_ns=estimate.excess_high_ns,
        floor_ns=estimate.floor_ns,
        n=profile.floor.n if profile.floor is not None else 0,
        provenance=profile.provenance,
    )
