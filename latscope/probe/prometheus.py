"""What a Prometheus kept of the servers' own figures over a span of time, as series.

One range query (`GET /api/v1/query_range`, https://prometheus.io/docs/prometheus/latest/querying/api/)
for the names in `metrics.NAMES`, folded over labels as a server's own page is; each scraped
instance stays a source of its own. Between two scrapes Prometheus repeats the last value, for up to
five minutes, so a step shorter than its scrape interval adds no news.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx2

from latscope.documents.series import Series
from latscope.errors import EndpointError, UsageError
from latscope.probe.metrics import MOST_BYTES, NAMES, keep
from latscope.protocols.fields import as_list, as_map, as_str, parse
from latscope.units import S

PATIENCE_S = 10.0
PAD_NS = 5 * S
MOST_POINTS = 600
PATH = "/api/v1/query_range"
QUERY = f'{{__name__=~"{"|".join(NAMES)}"}}'


def read(url: str, *, first: int, last: int) -> list[Series]:
    """What the Prometheus at `url` kept from PAD_NS before `first` to PAD_NS after `last`.

    first, last: ns since 1970. In order of time, then of instance. UsageError when `url` is none;
    EndpointError when it cannot be reached, answers an error, or kept none of the names then.
    """
    base = address(url)
    found = parsed(_asked(base, asked_for(first, last)), base)
    if not found:
        raise EndpointError(
            f"--metrics: {base} kept no figure of vLLM, SGLang, llama.cpp or TGI while the calls"
            " ran: check the address, and that it scrapes their server"
        )
    return found


def asked_for(first: int, last: int) -> dict[str, str]:
    """The parameters of the range query: whole seconds that hold the padded range, and the least
    whole step with at most MOST_POINTS points, both ends counted."""
    start = (first - PAD_NS) // S
    end = -(-(last + PAD_NS) // S)
    step = max(1, -(-(end - start) // (MOST_POINTS - 1)))
    return {"query": QUERY, "start": str(start), "end": str(end), "step": str(step)}


def parsed(answer: Mapping[str, Any], base: str) -> list[Series]:
    """The series in a range query's answer; what is no finite number or not known is passed over.

    The source is `base`, and behind `#` the instance that Prometheus scraped, where it names one.
    """
    readings: dict[tuple[float, str], dict[str, float]] = {}
    for row in as_list(as_map(answer.get("data")).get("result")):
        labels = {name: as_str(value) for name, value in as_map(as_map(row).get("metric")).items()}
        name = labels.get("__name__", "")
        if name not in NAMES:
            continue
        instance = labels.get("instance", "")
        source = f"{base}#{instance}" if instance else base
        for at, value in _points(as_map(row).get("values")):
            keep(readings.setdefault((at, source), {}), name, labels, value)
    return [
        Series(at=_rfc3339(at), source=source, values=values)
        for (at, source), values in sorted(readings.items(), key=lambda each: each[0])
    ]


def _points(values: object) -> Iterator[tuple[float, float]]:
    """Prometheus writes a point as [seconds since 1970, "value"]."""
    for point in as_list(values):
        try:
            at, value = map(float, as_list(point))
            _rfc3339(at)
        except (TypeError, ValueError, OverflowError, OSError):
            continue
        if isfinite(value):
            yield at, value


def _rfc3339(seconds: float) -> str:
    at = datetime.fromtimestamp(seconds, UTC)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def address(text: str) -> str:
    """The Prometheus's own URL, without the path of its API or a query. UsageError when it is
    none."""
    text = text if "//" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, usable = SplitResult("", "", "", "", ""), False
    if not usable:
        raise UsageError("--metrics: no http or https URL: give one like http://127.0.0.1:9090")
    if parts.username or parts.password:
        raise UsageError("--metrics: the URL holds a user name or password, which is not sent")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/').removesuffix(PATH)}"


def _asked(base: str, parameters: Mapping[str, str]) -> Mapping[str, Any]:
    """The answer of a range query that went well."""
    try:
        # A proxy of the environment is for the world outside, as in a probe.
        with (
            httpx2.Client(timeout=PATIENCE_S, trust_env=False) as client,
            client.stream("GET", base + PATH, params=parameters) as response,
        ):
            status, body = response.status_code, _body(response)
    except httpx2.HTTPError as error:
        raise EndpointError(
            f"--metrics: {base} cannot be read: {str(error) or type(error).__name__}"
        ) from error
    answer = as_map(parse(body))
    if status != 200 or answer.get("status") != "success":
        said = " ".join(as_str(answer.get("error")).split())[:200]
        raise EndpointError(
            f"--metrics: {base}{PATH} answered {status}{f' ({said})' if said else ''},"
            " no range of figures: check that the address is a Prometheus"
        )
    return answer


def _body(response: httpx2.Response) -> bytes:
    body = bytearray()
    for part in response.iter_bytes():
        body += part
        if len(body) > MOST_BYTES:
            raise EndpointError(f"--metrics: the answer is longer than {MOST_BYTES >> 20} MiB")
    return bytes(body)
