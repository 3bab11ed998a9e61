"""Spans as collectors and trace stores write them, decoded into server spans.

Three JSON forms, told apart by their keys: OTLP (`resourceSpans`; what a collector's file exporter
writes), Tempo's API (`batches`, or `trace.resourceSpans`) and Jaeger's (`data[].spans`, times in
microseconds). Ids come as hex or, from protobuf's own JSON form, as base64; 64-bit numbers as
numbers or strings. Only numbers and short names of timing, usage and identity are kept: a span's
other attributes may hold prompts, answers and addresses.

An engine is known by its tracer's scope: the same attribute names mean different intervals at vLLM
(vllm/v1/engine/output_processor.py, 0.32) and SGLang (srt/observability/req_time_stats.py, 0.5).
"""

import base64
import binascii
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from latscope.protocols.fields import as_list, as_map, as_str
from latscope.recording import ServerSpan
from latscope.units import US

VLLM = "vllm.otel"
SGLANG = "sglang.otel"
TRTLLM = "trtllm.otel"
ENGINE = "gen_ai.otel"
"""An engine that uses the same names; what intervals it means by them is not known."""

LATENCY = "gen_ai.latency."
REQUEST = "llm_request"

SLICES = frozenset({"prefill_waiting", "prefill_forward", "chunked_prefill", "decode_loop"})
"""Stages of SGLang that are spans of their own. Their duration also stands among their attributes,
under their name and in ns, so that what is stated can be read from the attributes alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The spans of one JSON document; damaged: spans without usable ids or times, left out."""

    spans: tuple[ServerSpan, ...] = ()
    damaged: int = 0


def decode(document: object) -> Decoded | None:
    """The spans of a JSON document in any of the three forms; null when it is none of them.

    An export of metrics or logs alone is a document without spans.
    """
    if isinstance(document, list):
        return _together([decode(item) for item in document])
    fields = as_map(document)
    for name in ("resourceSpans", "resource_spans", "batches"):
        if isinstance(fields.get(name), list):
            return _counted(_otlp(fields[name]))
    if isinstance(fields.get("trace"), dict):
        return decode(fields["trace"])
    if isinstance(fields.get("data"), list):
        return _together([decode(item) for item in fields["data"]])
    if isinstance(fields.get("spans"), list) and isinstance(fields.get("processes"), dict):
        return _counted(_jaeger(fields))
    signals = ("resourceMetrics", "resourceLogs")
    return Decoded() if any(name in fields for name in signals) else None


def is_request(span: ServerSpan) -> bool:
    """Whether the span stands for one whole request to an engine, not for a stage of it."""
    if not span.source:
        return False
    return span.name == REQUEST or "rid" in span.attributes or f"{LATENCY}e2e" in span.attributes


def _together(parts: list[Decoded | None]) -> Decoded | None:
    known = [part for part in parts if part is not None]
    if parts and not known:
        return None
    spans = tuple(span for part in known for span in part.spans)
    return Decoded(spans=spans, damaged=sum(part.damaged for part in known))


def _counted(found: Iterable[ServerSpan | None]) -> Decoded:
    every = list(found)
    spans = tuple(span for span in every if span is not None)
    return Decoded(spans=spans, damaged=len(every) - len(spans))


def _otlp(resources: list[Any]) -> Iterator[ServerSpan | None]:
    for batch in resources:
        resource = dict(_attributes(as_map(as_map(batch).get("resource")).get("attributes")))
        for group in _groups(as_map(batch)):
            name = _first(group, "scope", "instrumentationLibrary")
            scope = as_str(as_map(name).get("name"))
            for span in as_list(group.get("spans")):
                yield _otlp_span(as_map(span), resource, scope)


def _groups(batch: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    found = _first(batch, "scopeSpans", "scope_spans", "instrumentationLibrarySpans")
    for group in as_list(found):
        yield as_map(group)


def _otlp_span(
    span: Mapping[str, Any], resource: Mapping[str, Any], scope: str
) -> ServerSpan | None:
    start = _whole(_first(span, "startTimeUnixNano", "start_time_unix_nano"))
    end = _whole(_first(span, "endTimeUnixNano", "end_time_unix_nano"))
    return _span(
        ids=(
            _id(_first(span, "traceId", "trace_id"), 16),
            _id(_first(span, "spanId", "span_id"), 8),
            _id(_first(span, "parentSpanId", "parent_span_id"), 8),
        ),
        name=as_str(span.get("name")),
        scope=scope,
        service=as_str(resource.get("service.name")),
        kind=_kind(span.get("kind")),
        start=start,
        duration=None if start is None or end is None else end - start,
        attributes=dict(_attributes(span.get("attributes"))),
    )


def _jaeger(trace: Mapping[str, Any]) -> Iterator[ServerSpan | None]:
    processes = as_map(trace.get("processes"))
    for item in as_list(trace.get("spans")):
        span = as_map(item)
        process = as_map(processes.get(as_str(span.get("processID"))) or span.get("process"))
        tags = dict(_tags(span.get("tags")))
        scope = as_str(tags.get("otel.scope.name") or tags.get("otel.library.name"))
        start, duration = _whole(span.get("startTime")), _whole(span.get("duration"))
        trace_id = _id(span.get("traceID"), 16, short=True)
        yield _span(
            ids=(trace_id, _id(span.get("spanID"), 8, short=True), _jaeger_parent(span)),
            name=as_str(span.get("operationName")),
            scope=scope,
            service=as_str(process.get("serviceName")),
            kind=_kind(tags.get("span.kind")),
            start=None if start is None else start * US,
            duration=None if duration is None else duration * US,
            attributes=tags,
        )


def _jaeger_parent(span: Mapping[str, Any]) -> str | None:
    for item in as_list(span.get("references")):
        reference = as_map(item)
        same = reference.get("traceID", span.get("traceID")) == span.get("traceID")
        if reference.get("refType") == "CHILD_OF" and same:
            return _id(reference.get("spanID"), 8, short=True)
    return _id(span.get("parentSpanID"), 8, short=True)


def _span(
    *,
    ids: tuple[str | None, str | None, str | None],
    name: str,
    scope: str,
    service: str,
    kind: str,
    start: int | None,
    duration: int | None,
    attributes: Mapping[str, Any],
) -> ServerSpan | None:
    """One span; null when it cannot be placed: no ids, no start, still open, or ended before."""
    trace_id, span_id, parent_id = ids
    if trace_id is None or span_id is None or not start or duration is None or duration < 0:
        return None
    shown = _name(name)
    source = _source(shown, scope, attributes)
    slice = {shown: duration} if source == SGLANG and shown in SLICES else {}
    return ServerSpan(
        name=shown,
        source=source,
        service=_name(service),
        trace_id=trace_id,
        span_id=span_id,
        parent_id=parent_id,
        kind=kind,
        start_unix_ns=start,
        duration_ns=duration,
        attributes=_kept(attributes) | slice,
    )


def _source(name: str, scope: str, attributes: Mapping[str, Any]) -> str:
    """Whose names the attributes are; empty for a hop's. Some stores drop the scope: then vLLM is
    known by an attribute only it and SGLang set, SGLang's root by its `module`."""
    if scope.startswith("sglang") or as_str(attributes.get("module")).startswith("sglang::"):
        return SGLANG
    for prefix, source in (("vllm", VLLM), ("trt", TRTLLM)):
        if scope.startswith(prefix):
            return source
    if not scope and name == REQUEST and f"{LATENCY}time_in_model_prefill" in attributes:
        return VLLM
    return ENGINE if any(key.startswith(LATENCY) for key in attributes) else ""


_NUMBERS = frozenset(
    {
        "gen_ai.request.max_tokens",
        "gen_ai.request.n",
        "http.status_code",
        "http.response.status_code",
        "tp_rank",
        "pp_rank",
        "dp_rank",
    }
)
_NUMBER_GROUPS = (LATENCY, "gen_ai.usage.")
_NAMES = frozenset(
    {
        "gen_ai.request.id",
        "gen_ai.response.id",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.operation.name",
        "gen_ai.tool.name",
        "rid",
        "response_flags",
    }
)
_SAFE = re.compile(r"[\w.:/@+=,~-]{1,128}")
"""What an identifier or a model's name looks like; prose has spaces."""


def _kept(attributes: Mapping[str, Any]) -> dict[str, float | str]:
    kept: dict[str, float | str] = {}
    for key, value in attributes.items():
        if key in _NUMBERS or key.startswith(_NUMBER_GROUPS):
            number = _number(value)
            if number is not None:
                kept[key] = number
        elif key in _NAMES and isinstance(value, str) and _SAFE.fullmatch(value):
            kept[key] = value
    return kept


def _name(text: str) -> str:
    """A span's or service's name without what may identify: a URL's query, SGLang's host and
    process, anything long."""
    return text.partition("?")[0].partition("(host:")[0].strip()[:64]


def _attributes(pairs: object) -> Iterator[tuple[str, Any]]:
    """OTLP's list of key and tagged value, nested maps joined by dots; lists and bytes left out."""
    for item in as_list(pairs):
        pair = as_map(item)
        key, value = as_str(pair.get("key")), as_map(pair.get("value"))
        for tag, inner in value.items():
            if tag in ("stringValue", "string_value", "boolValue", "bool_value"):
                yield key, inner
            elif tag in ("intValue", "int_value", "doubleValue", "double_value"):
                yield key, _number(inner)
            elif tag in ("kvlistValue", "kvlist_value"):
                for name, deeper in _attributes(as_map(inner).get("values")):
                    yield f"{key}.{name}", deeper


def _tags(tags: object) -> Iterator[tuple[str, Any]]:
    for item in as_list(tags):
        tag = as_map(item)
        yield as_str(tag.get("key")), tag.get("value")


def _first(fields: Mapping[str, Any], *names: str) -> Any:
    return next((fields[name] for name in names if name in fields), None)


def _number(value: object) -> float | None:
    """A finite number from 0 on, also as text; servers state durations and counts."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = value if isinstance(value, int) else float(value)
        return number if math.isfinite(number) and number >= 0 else None
    except (ValueError, OverflowError):
        return None


_MOST = 1 << 63
"""Times are 64-bit; what is larger is none."""


def _whole(value: object) -> int | None:
    """A whole number from 0 on, also as text: a float would lose nanoseconds."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 19:
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value < _MOST else None


def _id(value: object, size: int, *, short: bool = False) -> str | None:
    """An id as lower-case hex; null when it is none, or all zero (no parent). size: its bytes;
    short: leading zeros may be missing, as Jaeger leaves them out."""
    text = as_str(value)
    if short:
        text = text.rjust(size * 2, "0")
    if len(text) != size * 2:
        text = _from_base64(text, size)
    text = text.lower()
    if not re.fullmatch(r"[0-9a-f]+", text) or not text.strip("0"):
        return None
    return text


def _from_base64(text: str, size: int) -> str:
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return data.hex() if len(data) == size else ""


_KINDS = ("", "internal", "server", "client", "producer", "consumer")


def _kind(value: object) -> str:
    """OTLP's number or name (`SPAN_KIND_SERVER`), Jaeger's tag (`server`)."""
    if isinstance(value, int) and 0 <= value < len(_KINDS):
        return _KINDS[value]
    word = as_str(value).lower().removeprefix("span_kind_")
    return word if word in _KINDS else ""
