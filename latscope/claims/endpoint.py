"""Sends a plan's calls to a real endpoint and keeps what a client sees of them."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from latscope.claims.calls import Observed, Stopped, observe, stopped
from latscope.claims.plan import CROWD_CAP, CROWD_TOKENS, Block, Plan
from latscope.errors import EndpointError
from latscope.probe import prompts
from latscope.probe.outcome import Outcome, outcome
from latscope.probe.requests import Ask
from latscope.probe.run import Load, Result, Say, run
from latscope.recording import Recording


@dataclass(slots=True, kw_only=True)
class Session:
    """Mutable: what one run over an endpoint has learned so far. keep: gets every recording; tell:
    gets how many requests are done."""

    ask: Ask
    plan: Plan
    timeout_s: float
    keep: Callable[[Recording], None]
    tell: Callable[[int], None]
    say: Say
    calls: list[Observed] = field(default_factory=list)
    stopped: list[Stopped] = field(default_factory=list)
    """Of the crowds' calls, those that timed out or were cut before a token."""
    troubles: Counter[str] = field(default_factory=Counter)
    sent: int = 0
    done: int = 0
    scale: float = 1.0
    """Words of filler to a token of this server's."""


class Spent(Exception):
    """As many requests were sent as may be; some of them had to be sent twice."""


async def measure(session: Session) -> None:
    """Warm-up, then block after block. EndpointError when the warm-up does not complete."""
    try:
        await _warm_up(session)
        for block in session.plan.blocks:
            if session.sent + len(block.prompts) > session.plan.most:
                raise Spent
            await _send(session, block)
    except Spent:
        session.say(f"stopped after {session.sent} requests, as many as may be sent")


async def _warm_up(session: Session) -> None:
    """One call that does not count; it tells how many tokens of this server's the filler makes."""
    seen: list[Outcome] = []

    def take(result: Result) -> None:
        seen.append(_kept(session, result))

    block = Block(prompts=(CROWD_TOKENS,), cap=CROWD_CAP, callers=1, crowd=True)
    await _run(session, block, take)
    if not seen or not seen[0].completed:
        raise EndpointError(seen[0].trouble or "the warm-up failed" if seen else "nothing was sent")
    call = seen[0].call
    if call is not None and call.input_tokens:
        session.scale = min(1.0, CROWD_TOKENS / call.input_tokens)


async def _send(session: Session, block: Block) -> None:
    def take(result: Result) -> None:
        found = _kept(session, result)
        if found.trouble is not None:
            session.troubles[found.trouble] += 1
            if block.crowd and found.recording is not None:
                left = stopped(found.recording, load=block.callers)
                session.stopped += [left] if left is not None else []
        elif found.recording is not None:
            call = observe(found.recording, load=block.callers, crowd=block.crowd)
            if call is not None:
                session.calls.append(call)

    await _run(session, block, take)


async def _run(session: Session, block: Block, take: Callable[[Result], None]) -> None:
    """The block's calls, on one connection a caller. How the endpoint wants its request spelled
    stays known for the blocks after it."""
    load = Load(
        calls=len(block.prompts),
        warm_up=False,
        concurrency=block.callers,
        timeout_s=session.timeout_s,
    )
    ask = replace(session.ask, max_tokens=block.cap)
    wanted = list(block.prompts)

    def prompt() -> str:
        """New to every cache; one asked again is as long as the block's last."""
        if session.sent >= session.plan.most:
            raise Spent
        session.sent += 1
        tokens = wanted.pop(0) if len(wanted) > 1 else wanted[0]
        return prompts.fresh(prompts.filler(round(tokens * session.scale), seed=tokens))

    session.ask = await run(ask, load, prompt=prompt, hand_over=take, say=session.say)


def _kept(session: Session, result: Result) -> Outcome:
    found = outcome(result, session.timeout_s)
    if found.recording is not None:
        session.keep(found.recording)
    session.done += 1
    session.tell(session.done)
    return found
