"""The attributes and events of a call's own span."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from latscope.attribution.model import SEGMENTS, Stall
from latscope.export.otel import names
from latscope.export.otel.rows import Attributes, Moment
from latscope.export.otel.told import (
    Told,
    add,
    error_type,
    identity,
    number,
    provider,
    requested_model,
    seconds,
    word,
)
from latscope.units import Ns, rfc3339

# -- the conventions' own --------------------------------------------------------------------------


def inference(told: Told) -> Attributes:
    """What the GenAI conventions ask of a client's inference span, as far as it is known."""
    found = identity(told)
    if told.operation is not None:
        found |= _asked(told)
        found |= _answered(told)
        found |= usage(told)
    add(found, names.ERROR, error_type(told))
    return found


def _asked(told: Told) -> Attributes:
    request = told.call.request or {}
    a = told.attribution
    found: Attributes = {}
    add(found, names.CONVERSATION, word(a.session_id))
    if request.get("stream") is True or a.streamed:
        found[names.REQUEST_STREAM] = True
    add(found, names.REQUEST_MAX_TOKENS, a.max_output_tokens)
    add(found, names.REQUEST_PREVIOUS, word(a.previous_response_id))
    for field, name in names.REQUEST_NUMBERS.items():
        add(found, name, number(request, field))
    for field, name in (*names.REQUEST_INTEGERS.items(), ("n", names.REQUEST_CHOICES)):
        value = number(request, field)
        if value is not None and not (field == "n" and value == 1):
            found[name] = int(value)
    add(found, names.REQUEST_REASONING, _effort(request))
    add(found, names.OUTPUT_TYPE, _output_type(request))
    if provider(told) in ("openai", "azure.ai.openai"):
        add(found, names.OPENAI_TIER_REQUESTED, word(a.service_tier.requested))
        add(found, names.OPENAI_TIER_SERVED, word(a.service_tier.served))
        add(found, names.OPENAI_FINGERPRINT, word(told.timeline.fingerprint))
    return found


def _effort(request: Mapping[str, Any]) -> str | None:
    reasoning = request.get("reasoning")
    nested = reasoning.get("effort") if isinstance(reasoning, Mapping) else None
    return word(request.get("reasoning_effort")) or word(nested)


def _output_type(request: Mapping[str, Any]) -> str | None:
    form = request.get("response_format")
    text = request.get("text")
    if form is None and isinstance(text, Mapping):
        form = text.get("format")
    kind = form.get("type") if isinstance(form, Mapping) else None
    if kind in ("json_object", "json_schema"):
        return "json"
    return "text" if kind == "text" else None


def _answered(told: Told) -> Attributes:
    a = told.attribution
    found: Attributes = {}
    add(found, names.RESPONSE_ID, word(a.response_id))
    add(found, names.RESPONSE_FINISH, _finished(told))
    if a.streamed and a.first_token_ns is not None:
        found[names.RESPONSE_FIRST_CHUNK] = seconds(a.first_token_ns)
    return found


def _finished(told: Told) -> tuple[str, ...]:
    """One reason a choice; `error` for a choice whose stream ended early."""
    t, a = told.timeline, told.attribution
    choices = set(t.finish)
    if a.status in ("error", "cut") and told.api in ("chat", "completions"):
        choices |= {arrival.choice for arrival in t.arrivals}
    return tuple(word(t.finish.get(choice)) or "error" for choice in sorted(choices))


def usage(told: Told) -> Attributes:
    """Token counts as the server states them; what it does not state is absent."""
    a = told.attribution
    found: Attributes = {}
    if told.operation == "fetch_response":  # its tokens were counted when it was made
        return found
    add(found, names.USAGE_INPUT, a.input_tokens)
    add(found, names.USAGE_OUTPUT, a.output_tokens)
    add(found, names.USAGE_CACHE_READ, a.cached_tokens)
    add(found, names.USAGE_CACHE_WRITE, a.cache_write_tokens)
    add(found, names.USAGE_REASONING, a.reasoning_tokens)
    return found


# -- ours ------------------------------------------------------------------------------------------


def summary(told: Told) -> Attributes:
    """The attribution in numbers: seconds, never words for them."""
    a = told.attribution
    found: Attributes = {names.CALL_ID: a.call_id, names.STATUS: a.status, "latscope.mode": a.mode}
    for name in SEGMENTS:
        share = a.segment(name)
        found[f"latscope.{name}.duration"] = seconds(share.ns)
        found[f"latscope.{name}.min"] = seconds(share.bounds_ns[0])
        found[f"latscope.{name}.max"] = seconds(share.bounds_ns[1])
        found[f"latscope.{name}.provenance"] = share.provenance
        add(found, f"latscope.{name}.ttft", _s(share.ttft_ns))
    add(found, "latscope.dominant", a.dominant)
    add(found, "latscope.dominant_candidates", a.dominant_candidates)
    add(found, "latscope.unsplit", tuple("|".join(piece.candidates) for piece in a.unsplit))
    found |= _times(told)
    found |= _circumstances(told)
    return found


def _times(told: Told) -> Attributes:
    a = told.attribution
    found: Attributes = {}
    add(found, "latscope.headers", _s(a.headers_ns))
    add(found, "latscope.first_byte", _s(a.first_byte_ns))
    add(found, names.TTFT, _s(a.first_token_ns))
    add(found, "latscope.first_visible_token", _s(a.first_visible_token_ns))
    add(found, "latscope.tpot", _s(a.tpot_ns))
    if a.itl is not None:
        found["latscope.itl.p50"] = seconds(a.itl.p50_ns)
        found["latscope.itl.p95"] = seconds(a.itl.p95_ns)
        found["latscope.itl.max"] = seconds(a.itl.max_ns)
        found["latscope.itl.count"] = a.itl.n
        found["latscope.itl.unit"] = a.itl.unit
    if a.load_excess is not None:
        found["latscope.load_excess"] = seconds(a.load_excess.ns)
        found["latscope.load_excess_low"] = seconds(a.load_excess.low_ns)
        found["latscope.load_excess_high"] = seconds(a.load_excess.high_ns)
    if a.stalls:
        found["latscope.stalls"] = len(a.stalls)
        found["latscope.stall.max"] = seconds(max(stall.ns for stall in a.stalls))
    return found


def _circumstances(told: Told) -> Attributes:
    a = told.attribution
    found: Attributes = {"latscope.attempts": len(a.attempts)}
    backoff = sum(attempt.backoff_ns for attempt in a.attempts)
    add(found, "latscope.backoff", seconds(backoff) if len(a.attempts) > 1 else None)
    add(found, "latscope.in_flight", a.in_flight)
    add(found, "latscope.profile", a.profile)
    add(found, "latscope.flags", a.flags)
    add(found, "latscope.turn", a.turn)
    if a.sample.rate < 1:
        found["latscope.sample.rate"] = a.sample.rate
        found["latscope.sample.why"] = a.sample.why
    if a.status == "cancelled":
        found["latscope.end"] = told.call.end.reason
    for tag, value in a.tags.items():
        found[names.TAGS + tag] = value
    return found


def _s(ns: Ns | None) -> float | None:
    return None if ns is None else seconds(ns)


# -- events ----------------------------------------------------------------------------------------


def moments(told: Told, start_unix_ns: int, *, aliases: bool) -> tuple[Moment, ...]:
    """First byte and first token, then the stalls; of too many the longest."""
    a = told.attribution
    found = []
    for name, at in (
        ("latscope.first_byte", a.first_byte_ns),
        ("latscope.first_token", a.first_token_ns),
        ("latscope.first_visible_token", a.first_visible_token_ns),
        (names.OPENINFERENCE_FIRST if aliases else "", a.first_token_ns),
    ):
        if name and at is not None and a.streamed:
            found.append(Moment(name=name, unix_ns=start_unix_ns + at))
    room = names.MOST_EVENTS - len(found)
    longest = sorted(a.stalls, key=lambda stall: -stall.ns)[:room]
    found += [_stall(stall, start_unix_ns) for stall in longest]
    return tuple(sorted(found, key=lambda moment: moment.unix_ns))


def _stall(stall: Stall, start_unix_ns: int) -> Moment:
    return Moment(
        name="latscope.stall",
        unix_ns=start_unix_ns + stall.at_ns,
        attributes={
            names.DURATION: seconds(stall.ns),
            "latscope.cause": stall.cause,
            "latscope.confidence": stall.confidence,
        },
    )


# -- names of before and of backends ---------------------------------------------------------------


def aliases_of(told: Told, start_unix_ns: int) -> Attributes:
    """The same facts under the names that backends read today: SigNoz, Langfuse, Phoenix."""
    if told.operation is None:
        return {}
    a = told.attribution
    found: Attributes = {
        names.OLD_SYSTEM: provider(told),
        names.OPENINFERENCE_KIND: "EMBEDDING" if told.operation == "embeddings" else "LLM",
        names.LLM_PROVIDER: provider(told),
    }
    add(found, names.LLM_MODEL, word(told.timeline.model) or requested_model(told))
    add(found, names.SESSION, word(a.session_id))
    parameters = dict(_parameters(told.call.request or {}))
    if parameters:
        found[names.LLM_PARAMETERS] = json.dumps(parameters)
    if a.streamed and a.first_token_ns is not None:
        found[names.SIGNOZ_TTFT] = seconds(a.first_token_ns)
        found[names.LANGFUSE_START] = _iso(start_unix_ns + a.first_token_ns)
    return found | _counted(told)


def _counted(told: Told) -> Attributes:
    counts = usage(told)
    found: Attributes = {}
    for name, others in (
        (names.USAGE_INPUT, (names.LLM_PROMPT,)),
        (names.USAGE_OUTPUT, (names.LLM_COMPLETION,)),
        (names.USAGE_CACHE_READ, (names.LLM_CACHE_READ,)),
        (names.USAGE_CACHE_WRITE, (names.LLM_CACHE_WRITE, names.OLD_CACHE_WRITE)),
        (names.USAGE_REASONING, (names.LLM_REASONING,)),
    ):
        for other in others:
            add(found, other, counts.get(name))
    a = told.attribution
    if names.LLM_PROMPT in found and names.LLM_COMPLETION in found:
        found[names.LLM_TOTAL] = (a.input_tokens or 0) + (a.output_tokens or 0)
    return found


def _parameters(request: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    for field in (*names.REQUEST_NUMBERS, *names.REQUEST_INTEGERS, "n", *_CAPS):
        value = number(request, field)
        if value is not None:
            yield field, int(value) if value.is_integer() else value


_CAPS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


def _iso(unix_ns: int) -> str:
    second, rest = divmod(unix_ns, 10**9)
    return rfc3339(second).replace("Z", f".{rest // 1000:06}Z")
