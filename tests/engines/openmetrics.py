"""OTLP's metrics in the text of OpenMetrics, times included, named as Prometheus names them.

The rules are those of the OpenTelemetry specification's "OTLP Metric points to Prometheus": what is
no letter, digit or colon becomes `_`, the unit is appended unless it is in braces (`1` only to a
gauge), `_total` to a counter; the resource's service becomes `job`, its instance `instance`.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

UNITS = {"s": "seconds", "By": "bytes", "ms": "milliseconds"}


def name_of(metric: Any) -> str:
    """The metric's name without the suffix of its samples."""
    name = re.sub(r"[^a-zA-Z0-9:]+", "_", metric.name).strip("_")
    unit = UNITS.get(metric.unit, "")
    return f"{name}_{unit}" if unit and not name.endswith(f"_{unit}") else name


def text(requests: Iterable[Any]) -> str:
    """All of the requests' metrics as one page."""
    families: dict[str, tuple[str, list[str]]] = {}
    for request in requests:
        for batch in request.resource_metrics:
            about = {pair.key: pair.value.string_value for pair in batch.resource.attributes}
            base = {
                "job": about.get("service.name", ""),
                "instance": about.get("service.instance.id", ""),
            }
            for scope in batch.scope_metrics:
                for metric in scope.metrics:
                    kind = "histogram" if metric.HasField("histogram") else "counter"
                    name = name_of(metric)
                    _, lines = families.setdefault(name, (kind, []))
                    lines += _samples(name, metric, base)
    page = []
    for name, (kind, lines) in families.items():
        page += [f"# TYPE {name} {kind}", *lines]
    return "\n".join([*page, "# EOF", ""])


def _samples(name: str, metric: Any, base: dict[str, str]) -> Iterator[str]:
    for point in metric.sum.data_points:
        yield _line(f"{name}_total", base | _labels(point), point.as_int, point)
    for point in metric.histogram.data_points:
        labels = base | _labels(point)
        below = 0
        bounds = [*(repr(bound) for bound in point.explicit_bounds), "+Inf"]
        for bound, count in zip(bounds, point.bucket_counts, strict=True):
            below += count
            yield _line(f"{name}_bucket", labels | {"le": bound}, below, point)
        yield _line(f"{name}_count", labels, point.count, point)
        yield _line(f"{name}_sum", labels, point.sum, point)


def _labels(point: Any) -> dict[str, str]:
    found = {}
    for pair in point.attributes:
        value = getattr(pair.value, pair.value.WhichOneof("value"))
        found[re.sub(r"[^a-zA-Z0-9]+", "_", pair.key)] = str(value)
    return found


def _line(name: str, labels: dict[str, str], value: float, point: Any) -> str:
    inner = ",".join(f'{key}="{_escaped(text)}"' for key, text in labels.items())
    return f"{name}{{{inner}}} {value!r} {point.time_unix_nano / 1e9:.3f}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
