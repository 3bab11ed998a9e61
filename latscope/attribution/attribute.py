"""`attribute`: a recording to its Attribution. Pure: the same recording, the same answer."""

from collections.abc import Sequence
from dataclasses import replace

from latscope.attribution.assemble import Found, assemble
from latscope.attribution.estimate import with_lead
from latscope.attribution.figures import figures_of
from latscope.attribution.lead import known_of
from latscope.attribution.model import Attribution, Mode, Piece
from latscope.attribution.owners import mode_of
from latscope.attribution.pace import pace
from latscope.attribution.partition import partition
from latscope.attribution.profile import Profile
from latscope.attribution.quanta import of_stream
from latscope.attribution.schedule import schedule
from latscope.attribution.stalls import find
from latscope.attribution.window import Basis
from latscope.recording import Recording, ServerSpan
from latscope.steps import Steps, finish
from latscope.timeline import Timeline, build
from latscope.units import Ns


def attribute(
    call: Recording,
    *,
    profile: Profile | None = None,
    spans: Sequence[ServerSpan] = (),
    mode: Mode | None = None,
) -> Attribution:
    """Where the call's time went, and how sure that is.

    call: a recording with decoded bodies (as read from a file or handed out by a sink); masked or
    not makes no difference. profile: what is known of its endpoint and model (`learn`,
    `latscope calibrate`); one of another endpoint, or expired when the call was made, is not used
    and flagged. spans: of its server, besides those joined to it. mode: vendor, self-hosted or
    on-device, when the host does not tell.
    The pieces are a partition of the wall time, `ttft_pieces` one of the time to first token.
    """
    if spans:
        call = replace(call, spans=(*call.spans, *spans))
    return attribute_timeline(call, build(call), profile=profile, mode=mode)


def attribute_timeline(
    call: Recording,
    timeline: Timeline,
    *,
    profile: Profile | None = None,
    mode: Mode | None = None,
) -> Attribution:
    """The same, of a call whose timeline is built already."""
    return finish(attribute_steps(call, timeline, profile=profile, mode=mode))


def attribute_steps(
    call: Recording,
    timeline: Timeline,
    *,
    profile: Profile | None = None,
    mode: Mode | None = None,
) -> Steps[Attribution]:
    """`attribute_timeline`, a part at a time."""
    mode = mode or mode_of(call.target.host, timeline.path.server)
    figures, demoted = figures_of(timeline)
    steps = pace(timeline.arrivals)
    yield
    known = known_of(call, timeline, figures, steps, profile)
    plan = schedule(timeline.arrivals)
    yield
    stalls = find(timeline, plan)
    yield
    quantum = of_stream(timeline.arrivals, plan)
    yield
    basis = Basis(timeline=timeline, figures=figures, mode=mode, pace=steps, stalls=stalls)

    def cut(end: Ns, *, to_first: bool) -> tuple[Piece, ...]:
        pieces = partition(basis, end, to_first=to_first)
        return pieces if known.lead is None else with_lead(pieces, known.lead)

    first = timeline.first_token_ns
    pieces = cut(timeline.wall_ns, to_first=False)
    yield
    found = Found(
        basis=basis,
        pieces=pieces,
        to_first=None if first is None else cut(first, to_first=True),
        known=known,
        quantum=quantum,
        flags=(
            *timeline.flags,
            *(("reported_contradicts_clock",) if demoted else ()),
            *known.flags,
        ),
    )
    yield
    return assemble(call, found)
