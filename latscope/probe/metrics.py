"""The server's own figures of all its calls: its Prometheus page, before, during and after a run.

Read by a small parser of the text format, which keeps the rows of `KEPT` only, under the server's
own names and in its own units (seconds). Labels are folded: an endpoint's engines add up, a share
(of the KV cache in use) is the fullest engine's.

The page speaks of all calls together. What lies between two readings of a histogram belongs to our
calls only when nothing else ran: `means` says so, or says why not.
"""

import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, urlsplit

import httpx2

from latscope.documents.series import Series
from latscope.errors import EndpointError, UsageError
from latscope.units import Ns, ns_from_s

PERIOD_S = 1.0
PATIENCE_S = 5.0
SETTLE_S = 3.0
"""How long a server may take to count a call that has ended."""
MOST_BYTES = 16 << 20
MOST_HELD = 3600

Kind: TypeAlias = Literal["sum", "most", "histogram"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """name: as the page has it, a histogram's without its ending. kind: how values of several
    labels become one, or a histogram, of which sum and count are kept. label: one that tells
    figures apart and so stays in the name. covers: the phases the histogram times, one value a
    call. load: whether it counts calls in the server now."""

    name: str
    kind: Kind = "sum"
    label: str = ""
    covers: tuple[str, ...] = ()
    load: bool = False


def _h(name: str, *covers: str, label: str = "") -> Row:
    return Row(name=name, kind="histogram", covers=covers, label=label)


KEPT: tuple[Row, ...] = (
    # vLLM: latencies from arrival include the queue; prefill and decode are the scheduler's.
    Row(name="vllm:num_requests_running", load=True),
    Row(name="vllm:num_requests_waiting", load=True),
    Row(name="vllm:kv_cache_usage_perc", kind="most"),
    Row(name="vllm:gpu_cache_usage_perc", kind="most"),
    Row(name="vllm:num_preemptions_total"),
    Row(name="vllm:prefix_cache_queries_total"),
    Row(name="vllm:prefix_cache_hits_total"),
    Row(name="vllm:prompt_tokens_total"),
    Row(name="vllm:generation_tokens_total"),
    _h("vllm:request_queue_time_seconds", "queue"),
    _h("vllm:request_prefill_time_seconds", "prefill"),
    _h("vllm:request_decode_time_seconds", "decode"),
    _h("vllm:request_inference_time_seconds"),
    _h("vllm:time_to_first_token_seconds"),
    _h("vllm:inter_token_latency_seconds"),
    _h("vllm:request_time_per_output_token_seconds"),
    _h("vllm:e2e_request_latency_seconds"),
    # SGLang: its queue is the first wait only.
    Row(name="sglang:num_running_reqs", load=True),
    Row(name="sglang:num_queue_reqs", load=True),
    Row(name="sglang:token_usage", kind="most"),
    Row(name="sglang:cache_hit_rate", kind="most"),
    Row(name="sglang:num_retracted_reqs"),
    _h("sglang:queue_time_seconds", "queue"),
    _h("sglang:per_stage_req_latency_seconds", label="stage"),
    _h("sglang:time_to_first_token_seconds"),
    _h("sglang:inter_token_latency_seconds"),
    _h("sglang:e2e_request_latency_seconds"),
    # llama.cpp: counters of seconds, and no count of calls.
    Row(name="llamacpp:requests_processing", load=True),
    Row(name="llamacpp:requests_deferred", load=True),
    Row(name="llamacpp:kv_cache_usage_ratio", kind="most"),
    Row(name="llamacpp:prompt_tokens_total"),
    Row(name="llamacpp:prompt_seconds_total"),
    Row(name="llamacpp:tokens_predicted_total"),
    Row(name="llamacpp:tokens_predicted_seconds_total"),
    # TGI: inference is prefill and decode in one.
    Row(name="tgi_queue_size", load=True),
    Row(name="tgi_batch_current_size", load=True),
    _h("tgi_request_queue_duration", "queue"),
    _h("tgi_request_inference_duration", "prefill", "decode"),
    _h("tgi_request_validation_duration"),
    _h("tgi_request_mean_time_per_token_duration"),
    _h("tgi_request_duration"),
)

_FAMILIES = ("vllm:", "sglang:", "llamacpp:", "tgi_")
_ROWS: dict[str, Row] = {
    f"{row.name}{ending}": row
    for row in KEPT
    for ending in (("_sum", "_count") if row.kind == "histogram" else ("",))
}
NAMES: tuple[str, ...] = tuple(_ROWS)
"""Of every sample that is kept, as a page names it."""
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """What the server says of our calls on average: Δsum / Δcount of one histogram. covers: the
    phases it times. n: calls."""

    source: str
    covers: tuple[str, ...]
    ns: Ns
    n: int


def parse(text: str) -> dict[str, float]:
    """The kept figures of a page in the Prometheus text format, by name; often none."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        if not line.startswith(_FAMILIES):
            continue
        name, labels, value = _split(line)
        if name in _ROWS and value is not None:
            keep(found, name, dict(_LABEL.findall(labels)), value)
    return found


def keep(found: dict[str, float], name: str, labels: Mapping[str, str], value: float) -> None:
    """Folds one sample into the figures. name: one of NAMES."""
    row = _ROWS[name]
    if row.label:
        name += f'{{{row.label}="{labels.get(row.label, "")}"}}'
    fold = max if row.kind == "most" else _added
    found[name] = fold(found[name], value) if name in found else value


def _added(one: float, other: float) -> float:
    return one + other


def _split(line: str) -> tuple[str, str, float | None]:
    """Name, labels and value of a sample line; a time stamp may follow the value."""
    name, brace, rest = line.partition("{")
    if brace:
        labels, _, rest = rest.rpartition("}")
    else:
        labels = ""
        name, _, rest = line.partition(" ")
    try:
        return name.strip(), labels, float(rest.split()[0])
    except (IndexError, ValueError):
        return name, labels, None


def means(
    before: Mapping[str, float],
    after: Mapping[str, float],
    during: Iterable[Mapping[str, float]],
    *,
    calls: int,
    at_once: int = 1,
) -> list[Mean] | str:
    """What the server says of `calls` calls, at most `at_once` at a time, between two readings; or
    why the difference may not be used, in words.

    during: readings in between. Each histogram must have counted exactly our calls; no other may
    have been in the server when the first was read, nor more than ours at any time.
    """
    rows = [row for row in KEPT if row.covers and f"{row.name}_count" in after]
    if not rows:
        return _no_rows(after)
    busy = load(before)
    if busy:
        return f"{busy:g} other calls were in the server when ours began"
    most = max((load(reading) for reading in during), default=0)
    if most > at_once:
        ours = "one" if at_once == 1 else f"at most {at_once}"
        return f"up to {most:g} calls were in the server while ours came {ours} at a time"
    found: list[Mean] = []
    for row in rows:
        counted = _difference(before, after, f"{row.name}_count")
        spent = _difference(before, after, f"{row.name}_sum")
        if counted < 0 or spent < 0:
            return "the server started anew in between"
        if counted != calls:
            return f"{row.name} counted {counted:g} calls, {calls} were ours"
        if calls:
            ns = ns_from_s(spent / calls)
            found.append(Mean(source=row.name, covers=row.covers, ns=ns, n=calls))
    return found or "no call completed"


def _no_rows(after: Mapping[str, float]) -> str:
    if any(name.startswith("llamacpp:") for name in after):
        return "llama.cpp adds up seconds and counts no calls, so nothing says whose they are"
    return "the page holds no histogram of queue, prefill or decode that is known here"


def _difference(before: Mapping[str, float], after: Mapping[str, float], name: str) -> float:
    """A histogram appears on some pages with its first value only."""
    return after.get(name, 0.0) - before.get(name, 0.0)


def load(reading: Mapping[str, float]) -> float:
    """Calls in the server, running or waiting."""
    return sum(reading.get(row.name, 0.0) for row in KEPT if row.load)


def address(text: str) -> str:
    """The page's URL; `/metrics` where no path is given. UsageError when it is none."""
    text = text if "//" in text else f"http://{text}"
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        parts, usable = SplitResult("", "", "", "", ""), False
    if not usable:
        raise UsageError(
            "--metrics: no http or https URL: give one like http://127.0.0.1:8000/metrics"
        )
    if parts.username or parts.password:
        raise UsageError("--metrics: the URL holds a user name or password, which is not sent")
    path = "/metrics" if parts.path in ("", "/") else parts.path
    return f"{parts.scheme}://{parts.netloc}{path}" + (f"?{parts.query}" if parts.query else "")


class Scraper:
    """Reads one page whenever asked, and every second from a thread of its own between `start` and
    `close`, so that neither a stream nor its loop waits for it."""

    def __init__(self, url: str) -> None:
        self.url = address(url)
        self.source = self.url.partition("?")[0]
        self.series: list[Series] = []
        """Every reading so far, the first MOST_HELD of them."""
        self.missed = 0
        """Readings that failed after the first."""
        # A proxy of the environment is for the world outside, as in a probe.
        self._client = httpx2.Client(timeout=PATIENCE_S, trust_env=False)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def read(self) -> Mapping[str, float]:
        """The page now. EndpointError when it cannot be had or holds none of the kept names."""
        at = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        with self._lock:
            values = parse(self._page())
        if not values:
            raise EndpointError(
                f"--metrics: {self.source} holds no figure of vLLM, SGLang, llama.cpp or TGI:"
                " check the address, and that the server has metrics switched on"
            )
        if len(self.series) < MOST_HELD:
            self.series.append(Series(at=at, source=self.source, values=values))
        return values

    def _page(self) -> str:
        try:
            with self._client.stream("GET", self.url) as response:
                if response.status_code != 200:
                    raise EndpointError(
                        f"--metrics: {self.source} answered {response.status_code}:"
                        " check the address, and that the server has metrics switched on"
                    )
                return b"".join(_limited(response.iter_bytes())).decode("utf-8", "replace")
        except httpx2.HTTPError as error:
            raise EndpointError(
                f"--metrics: {self.source} cannot be read: {str(error) or type(error).__name__}"
            ) from error

    def start(self) -> None:
        self._thread = threading.Thread(target=self._every_second, daemon=True)
        self._thread.start()

    def _every_second(self) -> None:
        while not self._stop.wait(PERIOD_S):
            try:
                self.read()
            except EndpointError:
                self.missed += 1

    def settled(self, before: Mapping[str, float], calls: int) -> Mapping[str, float]:
        """The page once it has counted `calls` more than `before`, or after SETTLE_S."""
        until = monotonic() + SETTLE_S
        names = [f"{row.name}_count" for row in KEPT if row.covers]
        while True:
            after = self.read()
            short = any(_difference(before, after, name) < calls for name in names if name in after)
            if not (short or load(after)) or monotonic() > until:
                return after
            self._stop.wait(0.1)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._client.close()


def _limited(chunks: Iterator[bytes]) -> Iterator[bytes]:
    taken = 0
    for chunk in chunks:
        taken += len(chunk)
        if taken > MOST_BYTES:
            raise EndpointError(f"--metrics: the page is longer than {MOST_BYTES >> 20} MiB")
        yield chunk
