"""Writes docs/grafana/latscope.json: `python docs/grafana/dashboard.py`.

A Grafana dashboard over the metrics of latscope, named as an OTLP pipeline hands them to
Prometheus: dots become underscores, a unit of seconds and the `_total` of a counter are appended.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("latscope.json")

WHICH = 'gen_ai_request_model=~"$model",server_address=~"$server"'
DURATION = "gen_ai_client_inference_duration_seconds"
CHUNK = "gen_ai_client_inference_time_per_output_chunk_seconds"
USAGE = "gen_ai_client_inference_usage"
TTFT = "latscope_ttft_seconds"
SEGMENT = "latscope_segment_duration_seconds"
TTFT_SEGMENT = "latscope_ttft_segment_duration_seconds"
FAILED = 'error_type!=""'
WIDTH, HEIGHT = 12, 8
COLOURS = {
    "queue": "orange",
    "prefill": "blue",
    "decode": "green",
    "network": "purple",
    "client": "yellow",
    "unattributed": "#808080",
}


def rate(name: str, *, more: str = "", by: str = "") -> str:
    """The sum of a counter's rate over the chosen calls."""
    labels = f"{WHICH},{more}" if more else WHICH
    head = f"sum by ({by}) " if by else "sum "
    return f"{head}(rate({name}{{{labels}}}[$__rate_interval]))"


def quantile(q: float, name: str, *, more: str = "", by: str = "") -> str:
    keys = f"le, {by}" if by else "le"
    return f"histogram_quantile({q}, {rate(f'{name}_bucket', more=more, by=keys)})"


def share(part: str, whole: str, *, by: str, more: str = "") -> str:
    """A sum per label over the whole's, whatever that one's labels."""
    return f"{rate(part, more=more, by=by)} / on () group_left () {rate(whole)}"


@dataclass(frozen=True)
class Panel:
    """queries: (expression, legend) each. stacked: whether the parts add up to a whole."""

    title: str
    about: str
    unit: str
    queries: tuple[tuple[str, str], ...]
    stacked: bool = False


def quantiles(name: str) -> tuple[tuple[str, str], ...]:
    return tuple((quantile(q, name), f"p{q * 100:g}") for q in (0.5, 0.95, 0.99))


PANELS = (
    Panel(
        "Where the time goes",
        "Seconds of an average call by segment. A name with bars (queue|prefill) is time that"
        " nothing seen from here can split.",
        "s",
        (
            (
                share(f"{SEGMENT}_sum", f"{DURATION}_count", by="latscope_segment"),
                "{{latscope_segment}}",
            ),
        ),
        stacked=True,
    ),
    Panel(
        "Where the time to first token goes",
        "The same, up to the first token of any channel.",
        "s",
        (
            (
                share(f"{TTFT_SEGMENT}_sum", f"{TTFT}_count", by="latscope_segment"),
                "{{latscope_segment}}",
            ),
        ),
        stacked=True,
    ),
    Panel(
        "Time to first token", "Of any channel: reasoning, tool call or text.", "s", quantiles(TTFT)
    ),
    Panel("Call duration", "Whole calls, retries included.", "s", quantiles(DURATION)),
    Panel(
        "Calls by model",
        "A second.",
        "reqps",
        ((rate(f"{DURATION}_count", by="gen_ai_request_model"), "{{gen_ai_request_model}}"),),
    ),
    Panel(
        "Calls that did not complete",
        "Share by error; `cancelled` was given up by the caller.",
        "percentunit",
        (
            (
                share(f"{DURATION}_count", f"{DURATION}_count", by="error_type", more=FAILED),
                "{{error_type}}",
            ),
        ),
    ),
    Panel(
        "Queue, of the calls where it is known",
        "Waiting at the server before a call is scheduled. Calls whose server states nothing are"
        " not among them.",
        "s",
        tuple(
            (quantile(q, SEGMENT, more='latscope_segment="queue"'), f"p{q * 100:g}")
            for q in (0.5, 0.95)
        ),
    ),
    Panel(
        "Prefill by model, p95",
        "Of the calls where it is known.",
        "s",
        (
            (
                quantile(
                    0.95, SEGMENT, more='latscope_segment="prefill"', by="gen_ai_request_model"
                ),
                "{{gen_ai_request_model}}",
            ),
        ),
    ),
    Panel(
        "How the time is known",
        "Share of all time by provenance; `bound` is time of which only limits are known.",
        "percentunit",
        (
            (
                share(f"{SEGMENT}_sum", f"{SEGMENT}_sum", by="latscope_provenance"),
                "{{latscope_provenance}}",
            ),
        ),
        stacked=True,
    ),
    Panel(
        "Network and client, p95",
        "What lies outside the server, by segment.",
        "s",
        (
            (
                quantile(
                    0.95,
                    SEGMENT,
                    more='latscope_segment=~"network|client"',
                    by="latscope_segment",
                ),
                "{{latscope_segment}}",
            ),
        ),
    ),
    Panel("Time between output chunks", "After the first one.", "s", quantiles(CHUNK)),
    Panel(
        "Stalls by cause",
        "Gaps inside streams, a second.",
        "ops",
        (
            (
                rate("latscope_stall_duration_seconds_count", by="latscope_cause"),
                "{{latscope_cause}}",
            ),
        ),
    ),
    Panel(
        "Tokens",
        "A second, as the servers count them.",
        "short",
        (
            (rate(f"{USAGE}_input_tokens_total"), "input"),
            (rate(f"{USAGE}_cache_read_input_tokens_total"), "input from a cache"),
            (rate(f"{USAGE}_output_tokens_total"), "output"),
            (rate(f"{USAGE}_reasoning_output_tokens_total"), "reasoning"),
        ),
    ),
    Panel(
        "Input tokens from a prefix cache",
        "Share of all input tokens, by model.",
        "percentunit",
        (
            (
                f"{rate(f'{USAGE}_cache_read_input_tokens_total', by='gen_ai_request_model')}"
                f" / {rate(f'{USAGE}_input_tokens_total', by='gen_ai_request_model')}",
                "{{gen_ai_request_model}}",
            ),
        ),
    ),
    Panel(
        "Size of calls, p95",
        "Tokens.",
        "short",
        (
            (quantile(0.95, "gen_ai_client_inference_operation_input_tokens"), "input"),
            (quantile(0.95, "gen_ai_client_inference_operation_output_tokens"), "output"),
        ),
    ),
    Panel(
        "Retries and load",
        "Attempts after the first, a second; and the time above the endpoint's unloaded floor,"
        " where that is known.",
        "short",
        (
            (rate("latscope_retries_total"), "retries"),
            (quantile(0.95, "latscope_load_excess_seconds"), "load excess p95 (s)"),
        ),
    ),
)


def dashboard() -> dict[str, Any]:
    """The dashboard as Grafana imports it."""
    return {
        "title": "latscope: where LLM latency comes from",
        "uid": "latscope",
        "tags": ["latscope", "llm"],
        "schemaVersion": 39,
        "timezone": "browser",
        "refresh": "1m",
        "time": {"from": "now-3h", "to": "now"},
        "templating": {"list": list(_variables())},
        "panels": [_panel(number, panel) for number, panel in enumerate(PANELS)],
    }


def _variables() -> Iterator[dict[str, Any]]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}
    for name, label, text in (
        ("model", "gen_ai_request_model", "Model"),
        ("server", "server_address", "Server"),
    ):
        yield {
            "name": name,
            "label": text,
            "type": "query",
            "datasource": {"type": "prometheus", "uid": "${datasource}"},
            "query": f"label_values({DURATION}_count, {label})",
            "refresh": 2,
            "includeAll": True,
            "multi": True,
            "allValue": ".*",
            "current": {"text": "All", "value": "$__all"},
        }


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    custom = {"fillOpacity": 60 if panel.stacked else 0, "lineWidth": 1}
    if panel.stacked:
        custom["stacking"] = {"mode": "normal"}  # type: ignore[assignment]
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.about,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {
            "x": WIDTH * (number % 2),
            "y": HEIGHT * (number // 2),
            "w": WIDTH,
            "h": HEIGHT,
        },
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "custom": custom},
            "overrides": [
                {
                    "matcher": {"id": "byName", "options": name},
                    "properties": [
                        {"id": "color", "value": {"mode": "fixed", "fixedColor": colour}}
                    ],
                }
                for name, colour in COLOURS.items()
            ],
        },
        "options": {"legend": {"displayMode": "table", "placement": "right", "calcs": ["mean"]}},
        "targets": [
            {
                "refId": chr(ord("A") + at),
                "datasource": {"type": "prometheus", "uid": "${datasource}"},
                "expr": expression,
                "legendFormat": legend,
                "exemplar": "_bucket" in expression,
            }
            for at, (expression, legend) in enumerate(panel.queries)
        ],
    }


if __name__ == "__main__":
    FILE.write_text(json.dumps(dashboard(), indent=1) + "\n", encoding="utf-8")
    print(f"{FILE}: {len(PANELS)} panels")
