"""The table of metrics: every word a runbook's condition may use, one row a metric."""

from latscope.rules.metrics.metric import Call, Columns, Metric, Unit, Value

__all__ = ["METRICS", "Call", "Columns", "Metric", "Unit", "Value"]

METRICS: dict[str, Metric] = {}
"""Name -> row. The rows stand in the files of this package, one a subject."""
