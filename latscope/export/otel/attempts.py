"""The HTTP attempts of a call: a CLIENT span each, as the HTTP conventions want it.

Without a query or user info in the URL, without headers, and without anything of GenAI that a
backend would count.
"""

from latscope.export.otel import names
from latscope.export.otel.rows import Attributes
from latscope.export.otel.told import Told, add, provider, server, word
from latscope.recording import Attempt, Recording
from latscope.timeline import Exchange
from latscope.units import Ns


def attempts(told: Told) -> list[tuple[str, Ns, Ns, Attributes]]:
    """(name, start, end, attributes) of each, in order, cut to the call's own time."""
    call, wall = told.call, told.timeline.wall_ns
    found = []
    for number, (attempt, exchange) in enumerate(
        zip(call.attempts, told.timeline.exchanges, strict=False)
    ):
        method = method_of(call)
        start, end = min(exchange.start_ns, wall), min(exchange.end_ns, wall)
        attributes = _attributes(told, attempt, exchange, number)
        found.append(("HTTP" if method == "_OTHER" else method, start, max(start, end), attributes))
    return found


def method_of(call: Recording) -> str:
    """A call with a JSON body is a POST at every API; of another the recording does not say."""
    return "POST" if call.request is not None or call.request_bytes else "_OTHER"


def _attributes(told: Told, attempt: Attempt, exchange: Exchange, number: int) -> Attributes:
    call = told.call
    found: Attributes = {names.HTTP_METHOD: method_of(call), **server(call)}
    if told.operation is not None:
        found[names.PROVIDER] = provider(told)
    if call.target.host:
        found[names.URL] = _url(call)
    add(found, names.HTTP_STATUS, exchange.status)
    add(found, names.HTTP_SENT, call.request_bytes)
    add(found, names.HTTP_RESEND, number or None)
    failed = exchange.status is None or exchange.status >= 400
    if failed and (exchange.status or exchange.error_type):
        found[names.ERROR] = str(exchange.status or word(exchange.error_type) or "_OTHER")
    connection = attempt.connection
    if connection is not None:
        add(found, names.PROTOCOL_VERSION, _version(connection.http))
        add(found, "latscope.connection.reused", connection.reused)
        host, _, port = (connection.peer or "").rpartition(":")
        if host and port.isdigit():
            found[names.PEER] = host.strip("[]")
            found[names.PEER_PORT] = int(port)
    found["latscope.outcome"] = exchange.outcome
    return found


def _url(call: Recording) -> str:
    target = call.target
    host = f"[{target.host}]" if ":" in target.host else target.host
    usual = {"http": 80, "https": 443}.get(target.scheme)
    port = "" if target.port in (0, usual) else f":{target.port}"
    return f"{target.scheme}://{host}{port}{target.path}"


def _version(http: str | None) -> str | None:
    return None if http is None else http.rpartition("/")[2] or None
