"""Markers: the events that prove what the server was at when it sent them.

Most say so themselves (`Event.milestone`, set by the dialect). A comment says nothing by itself:
`: keep-alive` is DeepSeek's word for "not scheduled yet" and vLLM's for "idle", so what a comment
proves depends on who sent it. `RULES` is the table of those that prove something.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from latscope.protocols.events import TOKEN_KINDS, Event, Milestone
from latscope.recording import Attempt, Recording
from latscope.timeline.model import Marker
from latscope.timeline.stream import Stream


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """What a comment proves. word: its first word, empty for an empty comment; host: the target's
    host or a parent domain of it; server: product token of the Server header, lower case (empty:
    any); only_before_data: only while no event but comments and pings has come; firm: read in the
    server's source, not only in its documentation; why: how that is known."""

    word: str
    milestone: Milestone
    host: str = ""
    server: str = ""
    only_before_data: bool = False
    firm: bool = True
    why: str


RULES: tuple[Rule, ...] = (
    Rule(
        host="deepseek.com",
        word="keep-alive",
        milestone="waiting",
        only_before_data=True,
        firm=False,
        why="api-docs.deepseek.com, rate limit: sent while the request waits for the answer to"
        " start, and a request whose inference has not started in ten minutes is closed. After"
        " data they have been seen too and prove nothing",
    ),
    Rule(
        server="llama.cpp",
        word="",
        milestone="scheduled",
        why="tools/server/server-context.cpp (b11434): pings start after the first result, which"
        " is the slot's signal that it has begun the prompt",
    ),
)
"""Not here, because they prove no phase: vLLM's `: keep-alive` (idle in queue, prefill or decode),
OpenRouter's `: OPENROUTER PROCESSING` and LiteLLM's `: ping` (the upstream is silent), TGI's
comment, Anthropic's `ping` events."""

ORDER: tuple[Milestone, ...] = ("waiting", "scheduled", "prefilled")


def markers(recording: Recording, attempt: Attempt, stream: Stream | None) -> tuple[Marker, ...]:
    """The markers of the answered attempt up to its first token, in order of time and of state:
    never `waiting` after `scheduled`. After the first token they tell of a later prefill (a
    server-side tool loop), which no marker of the first one may be taken for."""
    if stream is None or not stream.reads:
        return ()
    if not any(event.milestone or event.kind == "comment" for event in stream.telling):
        return ()  # nearly every stream
    rules = _rules_for(recording, attempt)
    kept: list[tuple[Event, Milestone, bool]] = []
    reached = 0
    for event, milestone, firm in _proofs(stream.events, rules):
        state = ORDER.index(milestone)
        if state >= reached:
            reached = state
            kept.append((event, milestone, firm))
    return tuple(
        Marker(at=at, milestone=milestone, firm=firm)
        for at, (_, milestone, firm) in zip(
            stream.arrived([event for event, _, _ in kept]), kept, strict=True
        )
    )


def _rules_for(recording: Recording, attempt: Attempt) -> tuple[Rule, ...]:
    host = f".{recording.target.host.lower()}"
    server = dict(attempt.headers).get("server", "").split("/")[0].split(" ")[0].lower()
    return tuple(
        rule
        for rule in RULES
        if (not rule.host or host.endswith(f".{rule.host}"))
        and (not rule.server or rule.server == server)
    )


def _proofs(
    events: Iterable[Event], rules: tuple[Rule, ...]
) -> Iterable[tuple[Event, Milestone, bool]]:
    """Each event before the first token that tells something, what, and whether firmly."""
    data = False
    for event in events:
        if event.kind in TOKEN_KINDS and event.size > 0:
            return
        if event.milestone:
            yield event, event.milestone, True
        elif event.kind == "comment":
            rule = next((rule for rule in rules if rule.word == event.name), None)
            if rule is not None and not (rule.only_before_data and data):
                yield event, rule.milestone, rule.firm
        data = data or event.kind not in ("comment", "ping")
