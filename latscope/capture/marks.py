"""httpcore's trace events, and the marks of an attempt they are."""

TRACE_MARKS: dict[str, str] = {
    f"{layer}.{event}.{step}": f"{phase}.{step}"
    for layer, event, phase in (
        ("connection", "connect_tcp", "connect"),
        ("connection", "connect_unix_socket", "connect"),
        ("socks", "connect_tcp", "connect"),
        ("connection", "start_tls", "tls"),
        ("proxy", "start_tls", "tls"),
        ("socks", "start_tls", "tls"),
    )
    for step in ("started", "complete", "failed")
} | {
    f"{protocol}.{event}": mark
    for protocol in ("http11", "http2")
    for event, mark in (
        ("send_request_headers.started", "request.started"),
        ("send_request_headers.complete", "request.headers"),
        ("send_request_body.complete", "request.sent"),
        ("receive_response_headers.complete", "headers"),
    )
}
HTTP_MARKS = frozenset({"request.started", "request.headers", "request.sent", "headers"})
