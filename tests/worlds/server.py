"""The server of a world: a case gives a script of what happens when, and the bytes of each step.

Instants count from the moment the server has the request. The virtual world takes them as they
are; a real server sleeps until them and stamps what really happened.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias

from latscope.protocols import DIALECTS
from latscope.protocols.dialect import Channel, Dialect, Encoder, Piece, Reply
from latscope.protocols.events import Usage
from latscope.sim.answer import with_timings
from latscope.units import MS, US, Ns
from tests import calls
from tests.worlds.case import Case, Server, ns

Kind: TypeAlias = Literal["hidden", "reasoning", "tool_call", "content"]
What: TypeAlias = Literal["head", "open", "emit", "ping", "tail", "error", "whole", "refuse"]

PROMPT_TOKENS = 100


class Token(NamedTuple):
    at: Ns
    kind: Kind


class Step(NamedTuple):
    """At `at`, `what` leaves; `emit`: tokens [first, stop)."""

    at: Ns
    what: What
    first: int = 0
    stop: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """queued, scheduled, tokens: as in `Server`, hidden tokens included; scheduled null when the
    engine never saw the call. drop: when the connection drops; null when it does not."""

    queued: Ns
    scheduled: Ns | None
    tokens: tuple[Token, ...]
    steps: tuple[Step, ...]
    drop: Ns | None = None


@dataclass(slots=True, kw_only=True)
class Stamps:
    """What really happened, on whichever clock: in a virtual world, the script itself."""

    received: Ns
    queued: Ns
    scheduled: Ns | None
    tokens: list[Ns]


def script(case: Case) -> Script:
    server, random = case.server, Random(case.seed)
    queued = ns(server.frontend)
    if case.ending == "refused":
        refusal = Step(queued, "refuse")
        return Script(queued=queued, scheduled=None, tokens=(), steps=(refusal,))
    scheduled = queued + ns(server.queue)
    tokens = _tokens(server, scheduled + ns(server.prefill), random)
    if case.ending in ("cut", "error"):
        tokens = tokens[: int(case.at)]
    last = tokens[-1].at if tokens else scheduled + ns(server.prefill) // 2
    end = last + ns(server.tail)
    steps = [] if case.ending == "cut" else [Step(end, "whole")]
    if case.stream:
        steps = _streamed(case, queued, scheduled, tokens, end)
    drop = end if case.ending == "cut" else None
    return Script(queued=queued, scheduled=scheduled, tokens=tokens, steps=tuple(steps), drop=drop)


def _tokens(server: Server, first: Ns, random: Random) -> tuple[Token, ...]:
    kinds: list[Kind] = ["hidden"] * server.hidden
    kinds += ["reasoning"] * server.reasoning
    kinds += ["tool_call"] * server.tools
    kinds += ["content"] * server.tokens
    pauses = dict(server.pauses)
    found, at = [], first
    for index, kind in enumerate(kinds):
        if index and index % server.burst == 0:
            at += ns(server.step * random.uniform(1 - server.jitter, 1 + server.jitter))
        if index:
            at += ns(pauses.get(index, 0.0))
        found.append(Token(at, kind))
    return tuple(found)


def _streamed(
    case: Case, queued: Ns, scheduled: Ns, tokens: Sequence[Token], end: Ns
) -> list[Step]:
    """Head, envelope, tokens, keep-alives, end, in the order they leave."""
    emits = _emits(case.server, tokens)
    first = emits[0].at if emits else end
    head = {"early": queued, "slot": scheduled, "token": first}[case.server.headers]
    early = case.server.role == "early" or case.api == "responses"
    steps = [Step(head, "head"), Step(head if early else first, "open"), *emits]
    if case.server.pings is not None:
        steps += _pings(ns(case.server.pings), head, [*(step.at for step in emits), end])
    if case.ending == "error":
        steps.append(Step(end, "error"))
    elif case.ending != "cut":
        steps.append(Step(end, "tail"))
    order = ("head", "open", "ping", "emit", "error", "tail")
    return sorted(steps, key=lambda step: (step.at, order.index(step.what)))


def _emits(server: Server, tokens: Sequence[Token]) -> list[Step]:
    """The first sent token's step leaves alone; then a group leaves when it holds `interval`
    tokens at the end of a step, when the channel changes, or with the last token."""
    found: list[Step] = []
    first = 0
    for index, token in enumerate(tokens):
        if token.kind == "hidden":
            first = index + 1
            continue
        after = tokens[index + 1] if index + 1 < len(tokens) else None
        stepped = after is None or after.at > token.at
        changes = after is None or after.kind != token.kind
        full = not found or index + 1 - first >= server.interval
        if changes or (stepped and full):
            found.append(Step(token.at, "emit", first, index + 1))
            first = index + 1
    return found


def _pings(every: Ns, head: Ns, made: Sequence[Ns]) -> list[Step]:
    """A keep-alive whenever nothing left for so long, from the head on."""
    found, before = [], head
    for at in made:
        found += [Step(due, "ping") for due in range(before + every, at, every)]
        before = max(at, head)
    return found


class Writer:
    """The bytes of each step of one answer. Where the API reports the server's own times, they
    are those of `stamps`, so a step is written once everything before it has happened."""

    def __init__(self, case: Case, tokens: Sequence[Token]) -> None:
        self._case = case
        self._tokens = tokens
        self._reply = Reply(
            id="w",
            model="tiny",
            stream=case.stream,
            include_usage=case.server.usage,
            prompt=Usage(input_tokens=PROMPT_TOKENS),
        )
        self._encoder: Encoder = dialect_of(case).encoder(self._reply)

    def write(self, step: Step, stamps: Stamps) -> bytes:
        match step.what:
            case "head":
                return b""
            case "open":
                return self._open()
            case "emit":
                return self._emit(step)
            case "ping":
                return self._encoder.ping()
            case "tail":
                return self._tail(stamps)
            case "error":
                done = calls.DONE if self._case.api in ("chat", "completions") else b""
                return self._encoder.error("server_error", "stopped") + done
            case "whole":
                return self._whole(stamps)
            case "refuse":
                status = self._case.status
                return dialect_of(self._case).error_body(status, "refused", "no")

    def _open(self) -> bytes:
        if self._case.literal:
            return calls.delta(role="assistant", content="")
        return self._encoder.start()

    def _emit(self, step: Step) -> bytes:
        tokens = list(enumerate(self._tokens))[step.first : step.stop]
        if self._case.literal:
            return calls.delta("".join(f"t{index} " for index, _ in tokens))
        pieces = _pieces(self._case, tokens)
        return b"".join(self._encoder.piece(piece) for piece in pieces)

    def _tail(self, stamps: Stamps) -> bytes:
        metrics = self._metrics(stamps)
        if self._case.literal:
            extra: dict[str, Any] = {} if metrics is None else {"metrics": metrics}
            close = calls.usage(len(self._tokens), prompt=PROMPT_TOKENS, **extra)
            written = calls.finish() + (close if self._case.server.usage else b"")
        else:
            close = self._encoder.close(self._usage(), metrics)
            written = self._encoder.finish("stop") + close
        if self._case.server.reports == "llama":
            written = with_timings(written, _timings(stamps))
        if self._case.ending == "no_done":
            return written
        return written + self._encoder.done()

    def _whole(self, stamps: Stamps) -> bytes:
        pieces = _pieces(self._case, list(enumerate(self._tokens)))
        body = self._encoder.whole(pieces, "stop", self._usage(), self._metrics(stamps))
        return with_timings(body, _timings(stamps)) if self._timed else body

    @property
    def _timed(self) -> bool:
        return self._case.server.reports == "llama"

    def _usage(self) -> Usage:
        server = self._case.server
        thought = sum(token.kind in ("hidden", "reasoning") for token in self._tokens)
        return Usage(
            input_tokens=PROMPT_TOKENS,
            output_tokens=len(self._tokens),
            reasoning_tokens=thought if server.hidden or server.reasoning else None,
        )

    def _metrics(self, stamps: Stamps) -> Mapping[str, float] | None:
        if self._case.server.reports != "vllm":
            return None
        queued, scheduled, first, last = _spans(stamps)
        return calls.metrics(
            (scheduled - queued) / MS, (first - scheduled) / MS, (last - first) / MS
        )


def dialect_of(case: Case) -> Dialect:
    return next(dialect for dialect in DIALECTS if dialect.api == case.api)


def _pieces(case: Case, tokens: Sequence[tuple[int, Token]]) -> list[Piece]:
    """One piece for each run of a channel; legacy completions know text only."""
    found = []
    shown = [(index, token) for index, token in tokens if token.kind != "hidden"]
    for kind, run in groupby(shown, key=lambda pair: pair[1].kind):
        channel: Channel = "content" if case.api == "completions" else _channel(kind)
        found.append(Piece(channel=channel, text="".join(f"t{index} " for index, _ in run)))
    return found


def _channel(kind: Kind) -> Channel:
    assert kind != "hidden"
    return kind


def _timings(stamps: Stamps) -> dict[str, float]:
    """llama.cpp's: whole microseconds; a single token's predicted_ms is its floor."""
    _, scheduled, first, last = _spans(stamps)
    return {
        "prompt_n": PROMPT_TOKENS,
        "prompt_ms": (first - scheduled) // US / 1000,
        "predicted_n": len(stamps.tokens),
        "predicted_ms": max((last - first) // US, 1) / 1000,
    }


def _spans(stamps: Stamps) -> tuple[Ns, Ns, Ns, Ns]:
    assert stamps.scheduled is not None
    return stamps.queued, stamps.scheduled, stamps.tokens[0], stamps.tokens[-1]


def offsets(parts: Sequence[bytes]) -> list[int]:
    """How far into the body each part reaches."""
    return list(accumulate(len(part) for part in parts))
