"""Who else makes spans of the same call, so that no call and no token is counted twice.

Most instrumentations make their span current around the request: it is recognised by what it says
of itself, whoever made it. The rest are known by name. Nothing is imported; only what the
application has loaded is asked.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SUPPRESSED = ("suppress_instrumentation", "suppress_language_model_instrumentation")
"""Keys of the OpenTelemetry context by which somebody outside asks for no spans of this call."""

INFERENCES = frozenset({"chat", "text_completion", "generate_content", "embeddings"})

SIGNS: tuple[tuple[str, frozenset[str]], ...] = (
    ("gen_ai.operation.name", INFERENCES),
    ("openinference.span.kind", frozenset({"LLM", "EMBEDDING"})),
    ("llm.request.type", frozenset({"chat", "completion", "embedding"})),
    ("langfuse.observation.type", frozenset({"generation", "embedding"})),
)
"""An attribute of a span at its start, and the values that make it one inference (not an agent's
or a chain's, which may hold several)."""

ANTHROPIC = "com.anthropic.sdk.python"
"""Scope of the Anthropic SDK's own spans: one a call, also of calls that are no inference."""

COUNTING = (
    "opentelemetry.instrumentation.genai",
    "opentelemetry.instrumentation.openai",
    "opentelemetry.instrumentation.anthropic",
    "opentelemetry.util.genai",
)
"""Scopes whose instrumentation also records the GenAI metrics of what it traces."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """An inference span of another tool around the call. scope: its tracer. counts: whether that
    tool records the conventions' metrics of it, too."""

    span: Any
    scope: str
    counts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """An instrumentation whose span is not current while the request is made. sdk: whose calls it
    traces. module, instrumentor: where its switch is; without one it is on once loaded."""

    sdk: str
    module: str
    instrumentor: str = ""
    counts: bool = False


BESIDE = (
    Beside(
        sdk="openai",
        module="opentelemetry.instrumentation.openai",
        instrumentor="OpenAIInstrumentor",
        counts=True,
    ),
    Beside(
        sdk="anthropic",
        module="opentelemetry.instrumentation.anthropic",
        instrumentor="AnthropicInstrumentor",
        counts=True,
    ),
    Beside(sdk="openai", module="langfuse.openai"),
)

HTTP_SCOPE = "opentelemetry.instrumentation.httpx"
HTTP_INSTRUMENTORS = ("HTTPXClientInstrumentor", "HTTPX2ClientInstrumentor")


def other(span: Any) -> Other | None:
    """The span as another tool's inference span; null when it is none, or is not recorded."""
    if not span.is_recording():
        return None
    scope = scope_of(span)
    attributes = getattr(span, "attributes", None) or {}
    if not _is_inference(span, scope, attributes):
        return None
    return Other(span=span, scope=scope, counts=scope.startswith(COUNTING))


def _is_inference(span: Any, scope: str, attributes: Mapping[str, Any]) -> bool:
    if any(attributes.get(key) in values for key, values in SIGNS):
        return True
    return scope == ANTHROPIC and _is_client(span)  # its tools and agents have another kind


def _is_client(span: Any) -> bool:
    return getattr(getattr(span, "kind", None), "name", "") == "CLIENT"


def scope_of(span: Any) -> str:
    return getattr(getattr(span, "instrumentation_scope", None), "name", None) or ""


def beside(sdk: str | None) -> Beside | None:
    """The instrumentation that traces calls of this SDK out of our sight, if one is on."""
    root = (sdk or "").partition("/")[0]
    for row in BESIDE:
        if row.sdk == root and row.module in sys.modules and _is_on(row.module, row.instrumentor):
            return row
    return None


def http_traced(span: Any) -> bool:
    """Whether the HTTP library's instrumentation makes a span of each request. span: the current
    one, where that instrumentation wraps ours."""
    if scope_of(span).startswith(HTTP_SCOPE):
        return True
    return any(_is_on(HTTP_SCOPE, name) for name in HTTP_INSTRUMENTORS)


def _is_on(module: str, instrumentor: str) -> bool:
    loaded = sys.modules.get(module)
    if loaded is None:
        return False
    if not instrumentor:
        return True
    # Made once for the process, and only if the application has made it: asking makes none.
    made = getattr(getattr(loaded, instrumentor, None), "_instance", None)
    return bool(getattr(made, "_is_instrumented_by_opentelemetry", False))
