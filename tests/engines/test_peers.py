"""Other tools that make spans of the same calls, the real ones: theirs is the inference span, ours
hang under it, and neither spans nor metrics count a token twice."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.engines import install
from tests.engines.conftest import need

ROOT = Path(__file__).parent.parent.parent

WITHIN = [
    ("none", "anthropic", "com.anthropic.sdk.python"),
    ("genai-openai", "openai", "opentelemetry.instrumentation.genai.openai"),
    ("genai-anthropic", "anthropic", "opentelemetry.instrumentation.genai.anthropic"),
    ("traceloop-openai", "openai", "opentelemetry.instrumentation.openai.v1"),
    ("traceloop-anthropic", "anthropic", "com.anthropic.sdk.python"),
    ("openinference-openai", "openai", "openinference.instrumentation.openai"),
    ("openinference-anthropic", "anthropic", "com.anthropic.sdk.python"),
    ("logfire", "openai", "logfire.openai"),
]
BESIDE = [("langfuse", "openai"), ("traceloop-openai", "openai-responses")]


def seen(tool: str, sdk: str, *late: str) -> dict[str, Any]:
    need("peers")
    python = install.folder("peers") / "bin" / "python"
    command = [str(python), "-m", "tests.engines.peer_calls", tool, sdk, *late]
    result = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr[-2000:]
    found: dict[str, Any] = json.loads(result.stdout.splitlines()[-1])
    return found


def ours(found: dict[str, Any]) -> list[dict[str, Any]]:
    return [span for span in found["spans"] if span["scope"] == "latscope"]


def assert_counted_once(found: dict[str, Any]) -> None:
    """Of each GenAI metric one tool's points, not two."""
    names = [name for metrics in found["metrics"].values() for name in metrics]
    genai = [name for name in names if name.startswith("gen_ai.client.")]
    assert len(genai) == len(set(genai))
    tokens = [name for name in genai if "token" in name or "usage" in name]
    tools = [scope for scope, metrics in found["metrics"].items() if set(metrics) & set(tokens)]
    assert len(tools) == 1


@pytest.mark.parametrize("late", [(), ("late",)], ids=["before", "after"])
@pytest.mark.parametrize(("tool", "sdk", "scope"), WITHIN)
def test_ours_hang_under_the_other_tools_span(
    tool: str, sdk: str, scope: str, late: tuple[str, ...]
) -> None:
    found = seen(tool, sdk, *late)
    theirs = [span for span in found["spans"] if span["scope"] == scope and span["call_id"]]
    assert len(theirs) == 1
    assert {span["parent"] for span in ours(found)} == {theirs[0]["id"]}
    assert not [span for span in ours(found) if span["usage"]]
    assert_counted_once(found)


@pytest.mark.parametrize(("tool", "sdk"), BESIDE)
def test_of_a_span_out_of_sight_ours_says_nothing_that_counts(tool: str, sdk: str) -> None:
    found = seen(tool, sdk)
    assert len([span for span in found["spans"] if span["usage"]]) == 1
    assert not [span for span in ours(found) if span["usage"]]
    own = next(span for span in ours(found) if span["name"] == "latscope")
    assert {span["parent"] for span in ours(found) if span is not own} == {own["id"]}
    assert found["sent"].split("-")[2] == own["id"]
    names = {name for metrics in found["metrics"].values() for name in metrics}
    assert "latscope.segment.duration" in names


@pytest.mark.parametrize(
    ("tool", "late"), [("httpx2", ()), ("httpx2", ("late",)), ("httpx2-client", ())]
)
def test_spans_of_httpx_are_the_calls_attempts(tool: str, late: tuple[str, ...]) -> None:
    found = seen(tool, "openai", *late)
    (own,) = [span for span in ours(found) if span["usage"]]
    attempts = [span for span in found["spans"] if span["name"] == "POST"]
    assert [span["scope"] for span in attempts] == ["opentelemetry.instrumentation.httpx"]
    assert attempts[0]["parent"] == own["id"]
