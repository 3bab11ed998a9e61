"""Spans that servers send while a command runs: `join --listen` and `probe --receive-spans`."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic, sleep
from typing import TYPE_CHECKING

from latscope.cli.output import Progress, say
from latscope.errors import InputError, UsageError
from latscope.recording import ServerSpan
from latscope.report.figures import counted
from latscope.timeline.joins import Call, join

if TYPE_CHECKING:
    from latscope.probe.receiver import Receiver
    from latscope.probe.run import Result

LOOK_S = 0.2
WAIT_S = 10.0
"""How long after the last call spans are waited for: exporters send every 5 s by default."""
MOST_SPANS = 500_000


def receiver_at(text: str, option: str) -> "Receiver":
    """A receiver for HOST:PORT, not started. UsageError when that is none; MissingExtra without
    `latscope[otel]`."""
    from latscope.probe import receiver

    host, port = receiver.address(text, option)
    return receiver.Receiver(host, port, option=option)


def seconds(text: str | None, option: str) -> float | None:
    """A span of time: 30s, 5m, 1h."""
    from latscope.cli.select import AGO, SECONDS

    if text is None:
        return None
    match = AGO.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{option}: {text!r} is no span of time: give one like 30s or 5m")
    return float(match[1]) * SECONDS[match[2]]


# -- join --listen ---------------------------------------------------------------------------------


def listened(receiver: "Receiver", for_s: float | None, progress: Progress) -> list[ServerSpan]:
    """The spans that come until Ctrl-C, or until the time is over. InputError when none does."""
    found: list[ServerSpan] = []
    with receiver:
        until = "Ctrl-C" if for_s is None else f"Ctrl-C, or {for_s:g} s are over"
        say(f"spans are taken at {receiver.url} until {until}")
        end = None if for_s is None else monotonic() + for_s
        try:
            while (end is None or monotonic() < end) and len(found) < MOST_SPANS:
                left = LOOK_S if end is None else min(LOOK_S, max(0.0, end - monotonic()))
                sleep(left)
                found += receiver.take()
                progress.reached(f"{counted(len(found), 'span')} received")
        except KeyboardInterrupt:
            pass  # the way to say that enough have come
        finally:
            progress.end()
    found += receiver.take()
    tell(receiver)
    if not found:
        raise InputError(f"--listen: no span came{_hint(receiver)}")
    if len(found) >= MOST_SPANS:
        say(f"{counted(len(found), 'span')} are as many as are taken at a time; joining these")
    return found


def tell(receiver: "Receiver") -> None:
    """What came and could not be used."""
    for n, what in (
        (receiver.refused, "request was no OTLP of spans, or too large, and was refused"),
        (receiver.damaged, "span without usable ids or times was left out"),
        (receiver.rejected, "span was refused for want of room"),
    ):
        noun, _, rest = what.partition(" ")
        if n:
            said = rest if n == 1 else rest.replace("was ", "were ", 1)
            say(f"{counted(n, noun)} {said}")


def _hint(receiver: "Receiver") -> str:
    if receiver.grpc:
        return (
            "; something spoke gRPC, which is not spoken here: set"
            " OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf at the sender"
        )
    return (
        f": point an OTLP/HTTP exporter at {receiver.url} (a vLLM:"
        " --otlp-traces-endpoint and OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/protobuf)"
    )


# -- probe --receive-spans -------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Held:
    """Mutable: a probe's calls, kept back until the spans of their server have come."""

    receiver: "Receiver"
    wait_s: float = WAIT_S
    results: list["Result"] = field(default_factory=list)
    spans: list[ServerSpan] = field(default_factory=list)

    async def come(self) -> None:
        """Until the spans of every call's engine have come, at most `wait_s`."""
        keys = self._keys()
        with suppress(TimeoutError):
            async with asyncio.timeout(self.wait_s):
                while not all(_has_engine(spans) for spans in self._join(keys)):
                    await asyncio.sleep(LOOK_S)

    def joined(self) -> list[tuple["Result", tuple[ServerSpan, ...]]]:
        """Each call with the spans that came of it; says how many have some. Then none is held."""
        rest = iter(self._join(self._keys()))
        pairs = [(result, next(rest) if result.recording else ()) for result in self.results]
        self.results = []
        self._tell(pairs)
        return pairs

    def _keys(self) -> list[Call]:
        from latscope.documents import spans as documents
        from latscope.middleware.pipeline import finish

        recordings = [result.recording for result in self.results]
        return [documents.key(finish(recording)) for recording in recordings if recording]

    def _join(self, keys: Sequence[Call]) -> tuple[tuple[ServerSpan, ...], ...]:
        if len(self.spans) < MOST_SPANS:
            self.spans += self.receiver.take()
        return join(keys, self.spans).spans

    def _tell(self, pairs: Sequence[tuple["Result", tuple[ServerSpan, ...]]]) -> None:
        measured = [spans for result, spans in pairs if not result.warm_up]
        engines = sum(1 for spans in measured if _has_engine(spans))
        hops = sum(1 for spans in measured if spans) - engines
        text = f"{engines} of {counted(len(measured), 'call')} joined to spans of the server"
        text += f", {hops} to spans of hops only" if hops else ""
        came = f"{counted(len(self.spans), 'span')} came"
        say(f"{text}; {came}" if self.spans else f"{text}: no span came{_hint(self.receiver)}")
        tell(self.receiver)


def _has_engine(spans: Sequence[ServerSpan]) -> bool:
    from latscope.protocols.otlp import is_request

    return any(is_request(span) for span in spans)
