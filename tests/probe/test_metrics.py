"""A server's Prometheus page: what is kept of it, and when a difference is our calls' alone."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from latscope.errors import EndpointError, UsageError
from latscope.probe import metrics
from latscope.probe.metrics import Mean, Scraper, address, load, means, parse
from latscope.units import MS

VLLM = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="tiny"} 1.0
vllm:num_requests_running{engine="1",model_name="tiny"} 2.0
vllm:kv_cache_usage_perc{engine="0",model_name="a } \\"b\\" 9"} 0.25
vllm:kv_cache_usage_perc{engine="1",model_name="tiny"} 0.75
vllm:request_queue_time_seconds_bucket{engine="0",le="0.3",model_name="tiny"} 5.0
vllm:request_queue_time_seconds_count{engine="0",model_name="tiny"} 5.0
vllm:request_queue_time_seconds_sum{engine="0",model_name="tiny"} 1.5e-05 1700000000000
vllm:request_queue_time_seconds_created{engine="0",model_name="tiny"} 1.7e+09
vllm:num_requests_waiting{engine="0"} NaN-ish
vllm:num_preemptions_total
python_gc_objects_collected_total{generation="0"} 10000.0
"""


def histogram(name: str, total: float, count: int) -> dict[str, float]:
    return {
        f"vllm:request_{name}_time_seconds_{end}": v
        for end, v in (("sum", total), ("count", count))
    }


def page(
    queue: float, prefill: float, decode: float, count: int, **load: float
) -> dict[str, float]:
    """A vLLM's page after `count` calls."""
    gauges = {f"vllm:num_requests_{name}": value for name, value in load.items()}
    figures = (("queue", queue), ("prefill", prefill), ("decode", decode))
    return gauges | {k: v for n, total in figures for k, v in histogram(n, total, count).items()}


def test_a_page_is_folded_over_its_labels() -> None:
    """Engines add up, the fullest cache counts; a value may carry a time stamp, a label anything;
    what is no number, no sample or not known is passed over."""
    assert parse(VLLM) == {
        "vllm:num_requests_running": 3.0,
        "vllm:kv_cache_usage_perc": 0.75,
        "vllm:request_queue_time_seconds_count": 5.0,
        "vllm:request_queue_time_seconds_sum": 1.5e-05,
    }


def test_a_label_that_tells_figures_apart_stays() -> None:
    """SGLang's stages are not one figure; its processes are."""
    text = "".join(
        f'sglang:per_stage_req_latency_seconds_sum{{stage="{stage}",tp_rank="{rank}"}} 0.5\n'
        for stage in ("tokenize", "decode_loop")
        for rank in (0, 1)
    )
    assert parse(text) == {
        'sglang:per_stage_req_latency_seconds_sum{stage="tokenize"}': 1.0,
        'sglang:per_stage_req_latency_seconds_sum{stage="decode_loop"}': 1.0,
    }


def test_pages_of_other_servers_are_known() -> None:
    """llama.cpp and TGI, without labels."""
    text = "llamacpp:requests_deferred 2\ntgi_queue_size 1\ntgi_request_queue_duration_sum 0.25\n"
    assert parse(text) == {
        "llamacpp:requests_deferred": 2.0,
        "tgi_queue_size": 1.0,
        "tgi_request_queue_duration_sum": 0.25,
    }
    assert load(parse(text)) == 3


def test_means_of_our_calls_alone() -> None:
    """Four calls between two readings: sums over counts, each for the phase it times."""
    before, after = page(1.0, 2.0, 3.0, 10), page(1.004, 2.2, 7.0, 14)
    found = means(before, after, [page(1.002, 2.1, 5.0, 12, running=1, waiting=0)], calls=4)
    assert found == [
        Mean(source="vllm:request_queue_time_seconds", covers=("queue",), ns=1 * MS, n=4),
        Mean(source="vllm:request_prefill_time_seconds", covers=("prefill",), ns=50 * MS, n=4),
        Mean(source="vllm:request_decode_time_seconds", covers=("decode",), ns=1000 * MS, n=4),
    ]


def test_a_first_value_has_nothing_before_it() -> None:
    """A histogram may appear on the page with its first call."""
    found = means({"tgi_queue_size": 0.0}, page(0.5, 1.0, 2.0, 1), [], calls=1)
    assert isinstance(found, list)
    assert [mean.ns for mean in found] == [500 * MS, 1000 * MS, 2000 * MS]


@pytest.mark.parametrize(
    ("before", "after", "during", "calls", "why"),
    [
        (page(0, 0, 0, 3, running=2), page(1, 1, 1, 4), [], 1, "2 other calls were in the server"),
        (page(0, 0, 0, 3), page(1, 1, 1, 9), [], 5, "counted 6 calls, 5 were ours"),
        (page(0, 0, 0, 3), page(1, 1, 1, 7), [], 5, "counted 4 calls, 5 were ours"),
        (page(0, 0, 0, 3), page(1, 1, 1, 4), [page(0, 0, 0, 3, running=1, waiting=1)], 1,
         "up to 2 calls were in the server"),
        (page(9, 9, 9, 3), page(1, 1, 1, 1), [], 1, "started anew"),
        (page(0, 0, 0, 3), page(0, 0, 0, 3), [], 0, "no call completed"),
        ({}, {"llamacpp:prompt_seconds_total": 1.0}, [], 1, "llama.cpp adds up seconds"),
        ({}, {"vllm:num_requests_running": 0.0}, [], 1, "holds no histogram"),
    ],
)  # fmt: skip
def test_a_difference_that_may_not_be_used_is_refused(
    before: Mapping[str, float],
    after: Mapping[str, float],
    during: list[Mapping[str, float]],
    calls: int,
    why: str,
) -> None:
    """Others' calls before, between or beside ours, a restart, a page that does not tell."""
    found = means(before, after, during, calls=calls)
    assert isinstance(found, str)
    assert why in found


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:8000", "http://127.0.0.1:8000/metrics"),
        ("http://h:8000/", "http://h:8000/metrics"),
        ("https://h/x/metrics?name=a", "https://h/x/metrics?name=a"),
    ],
)
def test_addresses(text: str, url: str) -> None:
    """The usual path where none is given."""
    assert address(text) == url


@pytest.mark.parametrize("text", ["", "ftp://h/metrics", "http://", "http://u:p@h/m", "http://[::"])
def test_what_is_no_address_of_a_page(text: str) -> None:
    """Nor is one with a password in it; that is not repeated."""
    with pytest.raises(UsageError, match=r"^--metrics: ") as said:
        address(text)
    assert "u:p" not in str(said.value)


@contextmanager
def pages(*texts: str) -> Iterator[str]:
    """A server of these pages, one a request, the last again and again; `404 ...` is an error."""
    waiting = list(texts)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            self.send_response(404 if text.startswith("404") else 200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_readings_are_kept_with_their_time_and_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second from a thread of its own; one that fails is counted and passed over."""
    monkeypatch.setattr(metrics, "PERIOD_S", 0.01)
    with pages("tgi_queue_size 1", "404", "tgi_queue_size 2") as url:
        scraper = Scraper(f"{url}/metrics?secret=1")
        scraper.read()
        scraper.start()
        for _ in range(1000):
            if len(scraper.series) > 1:
                break
            threading.Event().wait(0.01)
        scraper.close()
    assert [reading.values["tgi_queue_size"] for reading in scraper.series[:2]] == [1.0, 2.0]
    assert scraper.series[0].source == f"{url}/metrics"
    assert scraper.series[0].at.endswith("Z")
    assert scraper.missed == 1


def test_a_server_is_given_time_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call has ended here before it is counted there; after SETTLE_S it is what it is."""
    short, full = (f"tgi_request_queue_duration_count {count}\n" for count in (3, 4))
    with pages(short, short + "tgi_queue_size 1", full + "tgi_queue_size 1", full) as url:
        scraper = Scraper(url)
        found = scraper.settled({"tgi_request_queue_duration_count": 2.0}, 2)
        assert found == {"tgi_request_queue_duration_count": 4.0}
        assert len(scraper.series) == 4
        monkeypatch.setattr(metrics, "SETTLE_S", 0.0)
        assert scraper.settled({}, 9) == {"tgi_request_queue_duration_count": 4.0}
        scraper.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [("404", "answered 404"), ("up 1", "holds no figure"), ("x" * 100, "longer than 0 MiB")],
)
def test_a_page_that_cannot_be_used_is_told(
    text: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What, where and what to do, in one line."""
    monkeypatch.setattr(metrics, "MOST_BYTES", 50)
    with pages(text) as url:
        scraper = Scraper(url)
        with pytest.raises(EndpointError, match=why):
            scraper.read()
        scraper.close()


def test_a_page_nobody_serves_is_told() -> None:
    """The connection is refused."""
    scraper = Scraper("http://127.0.0.1:9")
    with pytest.raises(EndpointError, match=r"^--metrics: http://127.0.0.1:9/metrics cannot be"):
        scraper.read()
    scraper.close()
