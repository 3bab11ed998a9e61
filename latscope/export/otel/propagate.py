"""Trace context on the way out: what makes a server's own span a child of the call's.

Two headers, `traceparent` and `X-Request-Id`. One that is there already stays, and a request that
is signed is left as it is: a header added afterwards would not be covered, or would break it.
"""

import re
from collections.abc import Mapping, MutableMapping

from latscope.recording import Trace

TRACEPARENT = "traceparent"
REQUEST_ID = "x-request-id"

_SIGNED = ("x-amz-", "signature")
"""Beginnings of headers that only a signed request has (SigV4, RFC 9421)."""
_SIGNATURES = ("aws4-", "signature ")
"""Beginnings of an Authorization that is a signature."""

_SENT = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}")


def send(
    headers: MutableMapping[str, str], *, trace: Trace, sampled: bool, call_id: str
) -> Trace | None:
    """Adds both headers to a request's, and gives the trace context it then carries (null for a
    signed request without one). headers: names are compared in lower case, as httpx does."""
    if not signed(headers):
        headers.setdefault(TRACEPARENT, traceparent(trace, sampled=sampled))
        headers.setdefault(REQUEST_ID, call_id)
    return carried(headers)


def traceparent(trace: Trace, *, sampled: bool) -> str:
    return f"00-{trace.trace_id}-{trace.span_id}-{'01' if sampled else '00'}"


def carried(headers: Mapping[str, str]) -> Trace | None:
    """The ids in the `traceparent` of a request; null without a usable one."""
    found = _SENT.fullmatch(headers.get(TRACEPARENT, ""))
    return Trace(trace_id=found[1], span_id=found[2]) if found else None


def signed(headers: Mapping[str, str]) -> bool:
    if headers.get("authorization", "").lower().startswith(_SIGNATURES):
        return True
    return any(name.lower().startswith(_SIGNED) for name in headers)
