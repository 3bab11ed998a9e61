"""Which server spans belong to which call. Nothing is guessed: what fits twice is left out.

In this order, each step only for calls that have no engine's span yet:

    parent       a span's parent is the call's own span (the client sent its `traceparent`)
    chain        the same, through further spans of the input: a proxy, a router
    response_id  the id in the answer's body is the engine's id of the request
    request_id   the answer's `x-request-id` is
    time         the one request of the call's trace that lies inside the call, and inside no other

An engine's spans are one tree a request. A call with several of them (retries that share a trace,
several prompts) keeps the one whose id its answer has, else it is ambiguous. What is joined is that
tree and the hops above it.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from latscope.recording import Recording, ServerSpan
from latscope.timeline.forest import Forest
from latscope.units import MS, Ns, S

HOWS = ("parent", "chain", "response_id", "request_id", "time")

SLACK: Ns = 20 * MS
"""How far two hosts' wall clocks may differ for a span to lie inside a call."""
SKEW: Ns = 300 * S
"""How far they may for an equal id to be the same request's and not a reused one's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What of a call its spans are found by. start_unix_ns: its zero on the wall clock, null when
    unreadable. response_id: the id in the answer's body; request_ids: the answer's request-id
    headers."""

    trace_id: str | None = None
    span_id: str | None = None
    response_id: str | None = None
    request_ids: tuple[str, ...] = ()
    start_unix_ns: int | None = None
    wall_ns: Ns = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """calls = joined + ambiguous + sampled_out + unmatched. hops_only: of the joined, those with
    spans of hops and none of an engine. sampled_out: calls whose trace is in the input, but not
    the spans that would lead to them. unmatched_requests: engines' requests joined to no call.
    repeated: spans that were in the input twice."""

    calls: int
    joined: Mapping[str, int]
    hops_only: int
    ambiguous: int
    sampled_out: int
    unmatched: int
    spans: int
    joined_spans: int
    unmatched_requests: int
    repeated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Joins:
    """spans: for each call, in its order, the spans joined to it, earliest first."""

    spans: tuple[tuple[ServerSpan, ...], ...]
    summary: Summary


def key_of(
    recording: Recording, *, start_unix_ns: int | None, response_id: str | None, wall_ns: Ns
) -> Call:
    """What a recording is found by. The caller states what lies in its body and on its clock."""
    trace = recording.trace
    headers = recording.attempts[-1].headers if recording.attempts else ()
    return Call(
        trace_id=trace.trace_id.lower() if trace else None,
        span_id=trace.span_id.lower() if trace else None,
        response_id=response_id,
        request_ids=tuple(value for name, value in headers if name == "x-request-id"),
        start_unix_ns=start_unix_ns,
        wall_ns=wall_ns,
    )


def join(calls: Sequence[Call], spans: Iterable[ServerSpan]) -> Joins:
    """Each call's spans, and how many of either found none."""
    given = list(spans)
    forest = Forest(given)
    found = _Found([None] * len(calls))
    _by_parent(calls, forest, found)
    _by_key(calls, forest, found, "response_id", _response_keys)
    _by_key(calls, forest, found, "request_id", _request_keys)
    _by_time(calls, forest, found)
    joined = tuple(_spans(match, forest) for match in found.matches)
    return Joins(spans=joined, summary=_summary(calls, len(given), forest, found, joined))


@dataclass(frozen=True, slots=True)
class _Match:
    """The spans joined to a call, by index, and how; engine: its request's span, null when only
    hops are known."""

    how: str
    engine: int | None
    spans: frozenset[int]
    hows: Mapping[int, str]


@dataclass(slots=True)
class _Found:
    """Mutable: what the steps have found so far. ambiguous: calls that fit more than once; held:
    spans that lie under such a call, and so can be no other's."""

    matches: list[_Match | None]
    ambiguous: set[int] = field(default_factory=set)
    held: set[int] = field(default_factory=set)

    def wanting(self) -> list[int]:
        """Calls without an engine's span that nothing is uncertain of."""
        return [
            index
            for index, match in enumerate(self.matches)
            if index not in self.ambiguous and (match is None or match.engine is None)
        ]

    def taken(self) -> set[int]:
        return {span for match in self.matches if match for span in match.spans}


def _spans(match: _Match | None, forest: Forest) -> tuple[ServerSpan, ...]:
    if match is None:
        return ()
    return tuple(
        replace(forest.spans[at], joined=match.hows.get(at, match.how))
        for at in forest.in_order(match.spans)
    )


def _by_parent(calls: Sequence[Call], forest: Forest, found: _Found) -> None:
    """Parent and chain. A call's own span, should it be in the input, is not a server's."""
    owners: dict[tuple[str, str], list[int]] = {}
    for index, call in enumerate(calls):
        if call.trace_id is not None and call.span_id is not None:
            owners.setdefault((call.trace_id, call.span_id), []).append(index)
    claims: dict[int, dict[int, str]] = {}
    for index, span in enumerate(forest.spans):
        owner = _owner(index, span, forest, owners)
        if owner is None:
            continue
        which, how = owner
        if len(which) > 1:
            found.ambiguous.update(which)
            found.held.add(index)
        else:
            claims.setdefault(which[0], {})[index] = how
    for index, claim in claims.items():
        _claimed(index, claim, calls[index], forest, found)


def _owner(
    index: int, span: ServerSpan, forest: Forest, owners: Mapping[tuple[str, str], list[int]]
) -> tuple[list[int], str] | None:
    """The calls whose span it lies under, and how far."""
    if (span.trace_id, span.span_id) in owners:
        return None
    for depth, at in enumerate((index, *forest.above(index))):
        which = owners.get((span.trace_id, forest.spans[at].parent_id or ""))
        if which is not None:
            return which, "chain" if depth else "parent"
    return None


def _claimed(
    index: int, claim: Mapping[int, str], call: Call, forest: Forest, found: _Found
) -> None:
    """One call's claim: all of it, or of several requests the one its answer names."""
    requests = [at for at in claim if at in forest.requests]
    if len(requests) > 1:
        keys = _response_keys(call) | _request_keys(call)
        requests = [at for at in requests if keys & _engine_keys(forest.spans[at])]
        if len(requests) != 1:
            found.ambiguous.add(index)
            found.held |= claim.keys()
            return
    if not requests:
        found.matches[index] = _Match(
            min(claim.values(), key=HOWS.index), None, frozenset(claim), claim
        )
        return
    (engine,) = requests
    top = [at for at in forest.above(engine) if at in claim]
    found.matches[index] = _Match(claim[engine], engine, forest.tree(engine, top), claim)


def _by_key(
    calls: Sequence[Call],
    forest: Forest,
    found: _Found,
    how: str,
    keys_of: Callable[[Call], set[str]],
) -> None:
    """Ids: one request for the call, and one call for the request."""
    holders: dict[str, list[int]] = {}
    for at in _free(forest, found):
        for key in _engine_keys(forest.spans[at]):
            holders.setdefault(key, []).append(at)
    fits: dict[int, set[int]] = {}
    for index in found.wanting():
        call = calls[index]
        named = {at for key in keys_of(call) for at in holders.get(key, ())}
        fits[index] = {at for at in named if _near(call, forest.spans[at], SKEW)}
    _settle(fits, calls, forest, found, how)


def _by_time(calls: Sequence[Call], forest: Forest, found: _Found) -> None:
    """Containment in time, within the call's own trace only."""
    traced: dict[str, list[int]] = {}
    for at in _free(forest, found):
        traced.setdefault(forest.spans[at].trace_id, []).append(at)
    fits = {
        index: {
            at
            for at in traced.get(calls[index].trace_id or "", ())
            if calls[index].start_unix_ns is not None
            and _near(calls[index], forest.spans[at], SLACK)
        }
        for index in found.wanting()
    }
    _settle(fits, calls, forest, found, "time")


def _free(forest: Forest, found: _Found) -> list[int]:
    taken = found.taken() | found.held
    return [at for at in sorted(forest.requests) if at not in taken]


def _settle(
    fits: Mapping[int, set[int]],
    calls: Sequence[Call],
    forest: Forest,
    found: _Found,
    how: str,
) -> None:
    """Joins what fits once from both sides; what fits more than once is ambiguous."""
    asked = Counter(at for options in fits.values() for at in options)
    for index, options in fits.items():
        if len(options) > 1 or any(asked[at] > 1 for at in options):
            if found.matches[index] is None:  # hops that are sure stay
                found.ambiguous.add(index)
            continue
        for engine in options:
            top = _hops_above(engine, calls[index], forest)
            hops = found.matches[index]
            before = hops.hows if hops else {}
            spans = forest.tree(engine, top) | frozenset(before)
            found.matches[index] = _Match(how, engine, spans, before)


def _hops_above(engine: int, call: Call, forest: Forest) -> list[int]:
    """The spans above a request that are surely on this call's way: of this request alone, no
    longer than the call, and below a server's (above it lies the client's own)."""
    way: list[int] = []
    for at in forest.above(engine):
        if forest.spans[at].duration_ns > call.wall_ns or forest.under[at] > 1:
            break
        way.append(at)
    while way and forest.spans[way[-1]].kind != "server":
        way.pop()
    return way


def _near(call: Call, span: ServerSpan, slack: Ns) -> bool:
    """Whether the span lies in the call, give or take what two clocks may differ."""
    start = call.start_unix_ns
    if start is None:
        return True
    end = start + call.wall_ns + slack
    return start - slack <= span.start_unix_ns and span.start_unix_ns + span.duration_ns <= end


_PREFIX = re.compile(r"(?:chatcmpl|cmpl|resp|msg)[-_]")
_COUNTED = re.compile(r"((?:cmpl-|resp_).+)[-_]\d+")
"""vLLM counts what one call makes of requests: a completion's prompts as `cmpl-ID-0`, the turns of
a response as `resp_ID_0`."""


def _forms(id: str | None) -> set[str]:
    """An id as it is, and without the prefix of its API."""
    return {id, _PREFIX.sub("", id, count=1) if _PREFIX.match(id) else id} if id else set()


def _response_keys(call: Call) -> set[str]:
    return _forms(call.response_id)


def _request_keys(call: Call) -> set[str]:
    return {form for id in call.request_ids for form in _forms(id)}


def _engine_keys(span: ServerSpan) -> set[str]:
    keys: set[str] = set()
    for name in ("gen_ai.request.id", "gen_ai.response.id", "rid"):
        value = span.attributes.get(name)
        if isinstance(value, str):
            keys |= _forms(value)
            counted = _COUNTED.fullmatch(value)
            if counted is not None:
                keys |= _forms(counted[1])
    return keys


def _summary(
    calls: Sequence[Call],
    given: int,
    forest: Forest,
    found: _Found,
    joined: Sequence[tuple[ServerSpan, ...]],
) -> Summary:
    taken = found.taken()
    lost = [
        call
        for index, call in enumerate(calls)
        if index not in found.ambiguous and found.matches[index] is None
    ]
    sampled = sum(call.trace_id in forest.traces for call in lost)
    matches = [match for match in found.matches if match is not None]
    hows = Counter(match.how for match in matches)
    return Summary(
        calls=len(calls),
        joined={how: hows[how] for how in HOWS if hows[how]},
        hops_only=sum(match.engine is None for match in matches),
        ambiguous=len(found.ambiguous),
        sampled_out=sampled,
        unmatched=len(lost) - sampled,
        spans=len(forest.spans),
        joined_spans=sum(len(each) for each in joined),
        unmatched_requests=sum(at not in taken for at in forest.requests),
        repeated=given - len(forest.spans),
    )
