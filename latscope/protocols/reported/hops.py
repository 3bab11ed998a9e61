"""Rows of what gateways, proxies and front ends say in response headers.

Most time the response head: from having the request to the head leaving (or the upstream's head
coming in). What that holds depends on when the server behind lets its head go. Several of them on
one answer are nested intervals: the smallest is the innermost, and they are never added.

Cloudflare's AI Gateway, Portkey and Helicone state no time of a call (`helicone-cache-latency` is
that of the answer it once cached); what they say is whether an answer is a cached one.
"""

import re
from functools import partial

from latscope.protocols.reported.row import Row, unlike
from latscope.units import MS

PASSED_ON = "llm_provider-"
"""LiteLLM hands on the upstream's headers under this prefix."""

_header = partial(Row, place="header", unit=MS, kind="text")
_litellm = partial(
    _header,
    source="litellm.headers",
    evidence="source: LiteLLM 1.110.2, response_metadata.py",
)
_detail = partial(
    _litellm,
    absent="without LITELLM_DETAILED_TIMING=true",
)

HEADS: tuple[Row, ...] = (
    _header(
        source="openai.headers",
        field="openai-processing-ms",
        covers="headers",
        interval="OpenAI has the request -> response head leaves; on streams that is before the"
        " body, so no decode is in it",
        absent="on some errors; not promised by Azure",
        evidence="documented; that it is there on streams: users",
    ),
    _header(
        source="envoy.headers",
        field="x-envoy-upstream-service-time",
        zero=True,
        covers="headers",
        interval="Envoy has the whole request -> the upstream's response head is in; the innermost"
        " of several Envoys is overwritten by the outer",
        absent="when suppressed; when Envoy answers itself",
        evidence="source: Envoy, router.cc; whole milliseconds",
    ),
    _header(
        source="kong.headers",
        field="x-kong-upstream-latency",
        covers="headers",
        interval="Kong has picked an upstream -> the upstream's response starts",
        absent="when Kong answers itself",
        evidence="source: Kong, July 2026; whole milliseconds",
    ),
    _header(
        source="kong.headers",
        field="x-kong-response-latency",
        covers="headers",
        interval="Kong has the request -> its own response: no upstream was called",
        absent="when an upstream was called",
        evidence="source: Kong, July 2026; whole milliseconds",
    ),
    _header(
        source="kong.headers",
        field="x-kong-proxy-latency",
        zero=True,
        covers="network.gateway",
        interval="Kong starts on the request -> it has picked an upstream",
        absent="when Kong answers itself",
        evidence="source: Kong, July 2026; whole milliseconds",
    ),
)

LITELLM: tuple[Row, ...] = (
    _litellm(
        field="x-litellm-response-duration-ms",
        covers="headers",
        interval="proxy has the request -> the answer's object is ready: the whole answer, or on a"
        " stream the upstream's head",
        absent="when a keep-alive opened the stream first",
    ),
    _litellm(
        field="x-litellm-overhead-duration-ms",
        covers="network.gateway",
        interval="response duration less the calls of the provider; equal to it where the proxy"
        " lost track of them, and then no figure",
        absent="when unknown; on streams, /v1/messages and /v1/responses of older versions",
        when=unlike("x-litellm-response-duration-ms", "x-litellm-overhead-duration-ms"),
    ),
    _litellm(
        field="x-litellm-callback-duration-ms",
        covers="stated",
        interval="the proxy's callbacks; whether the answer waited for them is not said",
        absent="without callbacks",
    ),
    _detail(
        field="x-litellm-timing-llm-api-ms",
        covers="headers",
        interval="proxy calls the provider -> the answer, or on a stream its head",
    ),
    _detail(
        field="x-litellm-timing-pre-processing-ms",
        covers="stated",
        interval="before the provider is called: a part of the overhead",
    ),
    _detail(
        field="x-litellm-timing-post-processing-ms",
        covers="stated",
        interval="after the provider has answered: a part of the overhead",
    ),
    _detail(
        field="x-litellm-timing-message-copy-ms",
        covers="stated",
        interval="copying messages for logging: a part of the overhead",
    ),
)

_timing = partial(_header, where=("server-timing",), absent="an entry without dur")

SERVER_TIMING: tuple[Row, ...] = (
    _timing(
        source="google.server-timing",
        field="gfet4t7",
        covers="headers",
        interval="Google's front end has the request -> first byte of the backend's response",
        evidence="documented: Cloud Spanner latency points; on Gemini: users",
    ),
    _timing(
        source="anthropic.server-timing",
        field="x-originresponse",
        covers="headers",
        interval="Anthropic's edge calls its origin -> the origin's response head is in",
        absent="with an empty dur, where the edge answers itself",
        evidence="users: public captures, 2026; undocumented",
    ),
)
"""Names of the Server-Timing header with a known meaning; any other is a server's own (W3C Server
Timing leaves the semantics to it) and is only shown."""

ROWS = (*HEADS, *LITELLM, *SERVER_TIMING)

LONGEST_TIMING = 2048
"""Characters of a Server-Timing header that are read, and kept by the mask."""

_ENTRY = re.compile(r'(?:[^,"]++|"(?:[^"\\]|\\.)*+"?+)++')
_PARAM = re.compile(r'(?:[^;"]++|"(?:[^"\\]|\\.)*+"?+)++')
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")


def server_timing(value: str) -> dict[str, str]:
    """The entries of a Server-Timing header that have a duration, by name in lower case: a list of
    `name;dur=ms;desc="any text, commas too"`. The first of a name counts."""
    found: dict[str, str] = {}
    for entry in _ENTRY.findall(value[:LONGEST_TIMING]):
        parts = [part.strip() for part in _PARAM.findall(entry)]
        told = next(filter(None, map(_duration, parts[1:])), "")
        if told and _NAME.fullmatch(parts[0]):
            found.setdefault(parts[0].lower(), told)
    return found


def _duration(param: str) -> str:
    key, _, told = param.partition("=")
    return told.strip().strip('"') if key.strip().lower() == "dur" else ""


def unknown_timing(name: str) -> Row:
    """The row of a Server-Timing entry no row names."""
    return _timing(
        source="server-timing",
        field=name,
        covers="stated",
        interval="what the server chose to call so",
        evidence="documented: W3C Server Timing",
    )


CACHES = frozenset(
    {
        "helicone-cache",
        "x-portkey-cache-status",
        "cf-aig-cache-status",
        "cf-cache-status",
        "x-cache",
        "x-cache-status",
    }
)
"""Headers that say `HIT` (`SEMANTIC HIT`, `Hit from cloudfront`) of an answer that was kept."""

CACHE_KEY = "x-litellm-cache-key"
"""LiteLLM sends it with cached answers only."""

HIT = re.compile(r"(?i)\bhit\b")
