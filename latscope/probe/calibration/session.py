"""A calibration as it runs: warm-up, then block after block; each finished call is kept at once."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from latscope.attribution.arms import Sample, sample
from latscope.attribution.model import Attribution
from latscope.attribution.probed import About, profile_from_arms
from latscope.attribution.profile import Profile
from latscope.errors import EndpointError
from latscope.probe import prompts
from latscope.probe.calibration.plan import (
    ANSWER,
    Block,
    Call,
    Plan,
    middle,
    without_first_token,
)
from latscope.probe.calibration.send import Sender, Sending, sending
from latscope.probe.outcome import Outcome, outcome
from latscope.probe.requests import Ask
from latscope.probe.rtt import RttProbe
from latscope.probe.run import Ready, Result, Say
from latscope.recording import Recording
from latscope.timeline import build
from latscope.units import rfc3339

CAPS = (1, 16)
"""The smallest output cap, and the one asked for where a single token is refused."""
HOPELESS = 5
"""Calls in a row that fail before nothing more is sent."""
MOST_WAIT_S = 60.0
"""Longest wait a rate limit may ask for."""


@dataclass(slots=True, kw_only=True)
class Session:
    """Mutable: what a calibration has learned so far. keep: gets every recording, masked; tell:
    how many of the plan's calls are done. rtt: round trips beside every call. ready: awaited after
    the warm-up. calls: the plan's completed ones. scale: words of filler to a token here."""

    ask: Ask
    plan: Plan
    timeout_s: float
    keep: Callable[[Recording], None]
    tell: Callable[[int], None]
    say: Say
    seed: int = 0
    rtt: RttProbe | None = None
    ready: Ready | None = None
    calls: list[Attribution] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    troubles: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)
    spent: Counter[str] = field(default_factory=Counter)
    last: Attribution | None = None
    prompts: int = 0
    done: int = 0
    failed: int = 0
    least: int = CAPS[0]
    scale: float = 1.0

    @property
    def tokens(self) -> int:
        return self.spent["input_tokens"] + self.spent["output_tokens"]


async def calibrate(session: Session) -> None:
    """Warm-up, then the plan. EndpointError when the warm-up does not complete."""
    async with sending(session.ask, session.timeout_s, session.say, session.rtt) as sender:
        try:
            await _warm_up(session, sender)
            if session.ready is not None:
                await session.ready()
            await _blocks(session, sender)
        finally:
            session.spent["requests"] = sender.sent


async def _warm_up(session: Session, sender: Sender) -> None:
    """Finds the smallest cap the endpoint takes and how many tokens its filler makes, and looks for
    reasoning that is not shown. Neither call counts as a sample."""
    prompt = _prompt(session, middle(session.plan.longest))
    found = _kept(session, await sender.send(Sending(prompt=prompt, cap=session.least)))
    if found.result.status in (400, 422):
        session.least = CAPS[1]
        found = _kept(session, await sender.send(Sending(prompt=prompt, cap=session.least)))
    if not found.completed:
        raise EndpointError(found.trouble or "the warm-up failed")
    _scale(session, found)
    longer = Sending(prompt=_prompt(session, middle(session.plan.longest)), cap=ANSWER)
    found = _kept(session, await sender.send(longer))
    if not found.completed:
        raise EndpointError(found.trouble or "the warm-up failed")
    _note(session, found)


def _scale(session: Session, found: Outcome) -> None:
    tokens = found.call.input_tokens if found.call is not None else None
    if tokens:
        session.scale = min(1.5, max(0.2, middle(session.plan.longest) / tokens))


def _note(session: Session, found: Outcome) -> None:
    """What this endpoint cannot show, said once."""
    call = found.call
    if call is None:
        return
    if session.least > 1:
        session.skipped.append(f"an output cap of 1 is refused here: {session.least} instead")
    if call.input_tokens is None:
        session.skipped.append("no usage is stated: prompt tokens are counted as words sent")
    if call.reasoning_tokens and call.first_token_ns is None:
        session.plan = without_first_token(session.plan)
        session.skipped.append(
            "prefill, cache and response head: the model reasons unseen, so its first token is not"
            " seen; ask for less reasoning with --extra-body"
        )


async def _blocks(session: Session, sender: Sender) -> None:
    for index, block in enumerate(session.plan.blocks):
        if _over(session, sender, block):
            session.skipped.append(
                f"{len(session.plan.blocks) - index} of {len(session.plan.blocks)} blocks: the caps"
                " were reached"
            )
            return
        await (_crowd if block.at_once else _in_turn)(session, sender, block, index)
        if session.failed >= HOPELESS:
            session.skipped.append(
                f"{len(session.plan.blocks) - index - 1} blocks: {session.failed} calls in a row"
                " failed"
            )
            return


def _over(session: Session, sender: Sender, block: Block) -> bool:
    """Whether the block would pass a cap, by what calls have really cost so far."""
    tokens = sum(call.prompt + (ANSWER if call.long_answer else 1) for call in block.calls)
    return (
        sender.sent + len(block.calls) > session.plan.most_requests
        or session.tokens + tokens > session.plan.most_tokens
    )


async def _in_turn(session: Session, sender: Sender, block: Block, index: int) -> None:
    prompt = ""
    for call in block.calls:
        prompt = prompt if call.again else _prompt(session, call.prompt)
        found = _kept(session, await sender.send(_sending(session, call, prompt)))
        _sampled(session, found, call, index)
        await _rest(found)


async def _crowd(session: Session, sender: Sender, block: Block, index: int) -> None:
    wanted = [_sending(session, call, _prompt(session, call.prompt)) for call in block.calls]
    results = await sender.at_once(wanted)
    for call, result in zip(block.calls, results, strict=True):
        _sampled(session, _kept(session, result), call, index)


async def _rest(found: Outcome) -> None:
    """Waits as long as a rate limit asks."""
    asked = found.result.retry_after or ""
    if found.result.status in (429, 529):
        wait = float(asked) if asked.replace(".", "", 1).isdigit() else 1.0
        await asyncio.sleep(min(MOST_WAIT_S, wait))


def _kept(session: Session, result: Result) -> Outcome:
    found = outcome(result, session.timeout_s)
    if found.recording is not None:
        session.keep(found.recording)
    if found.call is not None:
        session.spent["input_tokens"] += found.call.input_tokens or 0
        session.spent["output_tokens"] += found.call.output_tokens or 0
        if found.completed:
            session.last = found.call
    return found


def _sampled(session: Session, found: Outcome, call: Call, index: int) -> None:
    session.done += 1
    session.tell(session.done)
    if found.trouble is not None or found.recording is None or found.call is None:
        session.failed += 1
        session.troubles[found.trouble or "a call was not recorded"] += 1
        return
    session.failed = 0
    session.calls.append(found.call)
    seen = sample(
        build(found.recording),
        arm=call.arm,
        block=index,
        order=found.result.number,
        planned=call.prompt,
    )
    if seen is not None:
        session.samples.append(seen)


def _sending(session: Session, call: Call, prompt: str) -> Sending:
    return Sending(
        prompt=prompt,
        cap=max(ANSWER, 2 * session.least) if call.long_answer else session.least,
        stream=call.stream,
        fresh_connection=call.fresh_connection,
    )


def _prompt(session: Session, tokens: int) -> str:
    """New to every cache."""
    session.prompts += 1
    return prompts.fresh(prompts.filler(round(tokens * session.scale), seed=session.prompts))


# -- what was learned -----------------------------------------------------------------------------


def profile(session: Session, *, now: datetime, days: float) -> Profile:
    """The profile of what was seen so far. EndpointError when nothing completed."""
    call = session.last
    if call is None or not session.samples:
        raise EndpointError(f"{session.ask.target.url}: no probe call completed, nothing learned")
    return profile_from_arms(
        session.samples,
        About(
            endpoint=call.endpoint,
            model=call.model or session.ask.model,
            api=call.api,
            made_at=rfc3339(now.timestamp()),
            expires_at=rfc3339((now + timedelta(days=days)).timestamp()),
            skipped=(*session.plan.dropped, *session.skipped, *warnings(session.samples)),
            spent={name: session.spent[name] for name in SPENT},
        ),
        seed=session.seed,
    )


SPENT = ("requests", "input_tokens", "output_tokens")


def warnings(samples: Sequence[Sample]) -> list[str]:
    """What to know of the cache pairs before their figure is believed."""
    pairs = [one for one in samples if one.arm == "repeated"]
    if not pairs:
        return []
    if not any(one.cached_stated for one in pairs):
        return [
            "cached tokens are not stated here: the cache effect is counted over the whole prompt"
        ]
    hits = sum(1 for one in pairs if one.cached)
    if hits == len(pairs):
        return []
    return [
        f"cache: {hits} of {len(pairs)} repeated prompts were served from a cache; routing by a"
        " hash of the prompt may send a pair to different machines"
    ]
