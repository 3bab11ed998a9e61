"""Calls as OpenTelemetry traces and metrics, in the current GenAI conventions.

`spans` and `metrics` say what is exported, as plain rows; nothing of an OpenTelemetry SDK is
imported there. `sink` hands the rows to the application's own providers (extra `otel`).
"""
