"""Recorded calls sent to a collector over OTLP, with their original times (extra `otel`).

`settings` says where and how, `encode` and `aggregate` what, `transport` makes one request,
`sender` repeats it and counts, `exporter` puts them together.
"""
