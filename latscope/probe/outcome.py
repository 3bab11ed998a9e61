"""A probe's call from what was captured to what is shown: masked, attributed, judged."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from latscope.attribution import attribute
from latscope.attribution.model import Attribution
from latscope.attribution.profile import Profile
from latscope.middleware.pipeline import finish
from latscope.probe.run import Result
from latscope.probe.trouble import eaten, eaten_line, trouble, unknown_model
from latscope.recording import Recording, ServerSpan


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """recording: masked, ready for a file. trouble: one line when the call did not complete.
    advice: one line when it did, yet showed nothing. lost_model: the server lacks the model."""

    result: Result
    recording: Recording | None
    call: Attribution | None
    trouble: str | None
    advice: str | None
    lost_model: bool

    @property
    def completed(self) -> bool:
        return self.trouble is None


def outcome(
    result: Result,
    timeout_s: float,
    profile_of: Callable[[Recording], Profile | None] | None = None,
    spans: tuple[ServerSpan, ...] = (),
) -> Outcome:
    """profile_of: what is known of the endpoint a call went to, where anything is. spans: what its
    server traced of it."""
    ask = result.ask
    recording = finish(result.recording) if result.recording is not None else None
    if recording is not None and spans:
        recording = replace(recording, spans=spans)
    call = None
    if recording is not None:
        profile = profile_of(recording) if profile_of is not None else None
        call = attribute(recording, profile=profile)
    said = trouble(result, call, timeout_s)
    if said is None and (call is None or call.status != "complete"):
        said = f"{ask.target.url}: the call did not complete"
    return Outcome(
        result=result,
        recording=recording,
        call=call,
        trouble=said,
        advice=eaten_line(call, ask) if call is not None and eaten(call) else None,
        lost_model=unknown_model(result),
    )
