"""The table of servers' own timings: what one row reads, and what the table as a whole promises."""

import math
from typing import Any, get_args

import pytest

from latscope.protocols import reported
from latscope.protocols.events import Covers, Reported
from latscope.protocols.mask.head import mask_headers
from latscope.protocols.reported.row import EVIDENCE, Row, figure_of
from latscope.units import MS, US, S


def told(mapping: dict[str, Any]) -> list[tuple[str, str, float]]:
    """(covers, field, ms) of every figure in an object."""
    return [(f.covers, f.field, f.ns / MS) for f in reported.read(mapping)]


def test_vllms_metrics() -> None:
    """queue, prefill (which vLLM calls time to first token) and decode, in ns."""
    metrics = {
        "queue_time_ms": 0.025968,
        "time_to_first_token_ms": 11.810538,
        "generation_time_ms": 248.888335,
        "mean_itl_ms": 8.02,
        "tokens_per_second": 122.7,
    }
    assert reported.read({"metrics": metrics}) == (
        Reported(source="vllm.metrics", field="queue_time_ms", covers="queue.engine", ns=25_968),
        Reported(
            source="vllm.metrics", field="time_to_first_token_ms", covers="prefill", ns=11_810_538
        ),
        Reported(
            source="vllm.metrics", field="generation_time_ms", covers="decode", ns=248_888_335
        ),
    )


def test_llamas_timings() -> None:
    """prompt_ms is prefill, predicted_ms decode; both measured in whole microseconds."""
    timings = {"prompt_ms": 2.552, "predicted_ms": 75.829, "predicted_n": 32}
    figures = reported.read({"timings": timings})
    assert [(f.source, f.covers, f.ns, f.resolution_ns) for f in figures] == [
        ("llama.timings", "prefill", 2_552_000, 1_000),
        ("llama.timings", "decode", 75_829_000, 1_000),
    ]


@pytest.mark.parametrize(("tokens", "covers"), [(1, ["prefill"]), (2, ["prefill", "decode"])])
def test_one_token_has_no_decode_time(tokens: int, covers: list[str]) -> None:
    """llama.cpp states a floor for the decoding of a single token: that is no figure."""
    timings = {"prompt_ms": 2.5, "predicted_ms": 0.001, "predicted_n": tokens}
    assert [figure.covers for figure in reported.read({"timings": timings})] == covers


def test_prompt_progress_counts_once_the_prompt_is_done() -> None:
    """The time of a part of the prompt is not its prefill."""
    part = {"total": 64, "cache": 0, "processed": 32, "time_ms": 20}
    assert told({"prompt_progress": part}) == []
    whole = {**part, "processed": 64, "time_ms": 41}
    assert told({"prompt_progress": whole}) == [("prefill", "time_ms", 41.0)]


def test_a_whole_number_is_as_coarse_as_its_unit() -> None:
    """An integer of milliseconds is known to the millisecond."""
    (figure,) = reported.read({"metrics": {"queue_time_ms": 12}})
    assert (figure.ns, figure.resolution_ns) == (12 * MS, MS)


@pytest.mark.parametrize(
    "value",
    [0, 0.0, -1, -0.5, None, True, "12", [1], {}, math.nan, math.inf, 1e305, 10**400, 1e-9],
)
def test_what_is_no_time_gives_no_figure(value: Any) -> None:
    """Zero, negative, not finite, too large, too small or no number at all: no figure."""
    assert reported.read({"metrics": {"queue_time_ms": value}}) == ()


@pytest.mark.parametrize("place", [None, [], "x", 3, {"queue_time_ms": {}}])
def test_what_is_no_object_gives_no_figure(place: Any) -> None:
    """A wrong type where the metrics should be gives nothing and does not raise."""
    keys = ("metrics", "timings", "usage", "nvext", "debug", "data", "stats", "meta_info")
    assert reported.read(dict.fromkeys(keys, place)) == ()
    assert reported.read({"choices": place}) == reported.read({"choices": [place]}) == ()


@pytest.mark.parametrize(
    ("text", "ns", "resolution"),
    [
        ("0.25", 250 * MS, 10 * MS),
        (" 0.012345 ", 12_345 * US, US),
        ("3", 3 * S, S),
        ("3.", 3 * S, S),
        ("0.1234567890123", 123_456_789, 1),
        (0.25, 250 * MS, 1),
    ],
)
def test_a_number_as_text_is_as_coarse_as_its_last_digit(
    text: Any, ns: int, resolution: int
) -> None:
    """Fireworks writes strings in perf_metrics, and every header is one."""
    (figure,) = reported.read({"perf_metrics": {"prefill-duration": text}})
    assert (figure.ns, figure.resolution_ns) == (ns, resolution)


@pytest.mark.parametrize("text", ["", "x", "xxxx", "-1", "0", "1,5", "1e3", "NaN", "5, 7", "12 ms"])
def test_text_that_is_no_number_gives_no_figure(text: str) -> None:
    """A masked value is one of these, and so is a header that came twice."""
    assert reported.read({"perf_metrics": {"prefill-duration": text}}) == ()
    assert reported.of_headers([("openai-processing-ms", text)]) == ()


ROW = Row(
    source="s",
    place="header",
    field="a",
    minus="b",
    unit=1,
    kind="stamp",
    covers="stated",
    interval="i",
    absent="a",
    evidence="users",
)


@pytest.mark.parametrize(
    ("start", "end", "ns", "resolution"),
    [
        ("2026-05-25T16:23:50.354Z", "2026-05-25T16:23:50.400Z", 46 * MS, MS),
        ("2026-02-28T23:59:59Z", "2026-03-01T00:00:00.5+00:00", 3 * S // 2, S),
        ("2028-02-28 23:59:59z", "2028-03-01t00:00:00Z", 24 * 3600 * S + S, S),
        ("1999-12-31T23:59:59.999999999Z", "2000-01-01T00:00:00.000000000Z", 1, 1),
        ("1970-01-01T00:00:00Z", "2000-01-01T00:00:00Z", 946_684_800 * S, S),
    ],
)
def test_times_of_day_are_used_as_differences(
    start: str, end: str, ns: int, resolution: int
) -> None:
    """Two stamps of one clock, over months' ends and leap days."""
    figure = figure_of(ROW, {"a": end, "b": start})
    assert figure is not None
    assert (figure.ns, figure.resolution_ns) == (ns, resolution)
    assert figure.field == "a - b"


@pytest.mark.parametrize("text", ["", "yesterday", "2026-05-25T16:23:50+02:00", "2026-05-25"])
def test_what_is_no_time_of_day_gives_no_figure(text: str) -> None:
    """Another offset than UTC may be another host's."""
    good = "2026-05-25T16:23:50Z"
    assert figure_of(ROW, {"a": text, "b": good}) is None
    assert figure_of(ROW, {"a": good, "b": text}) is None
    assert figure_of(ROW, {"a": good}) is None


def test_of_nested_figures_the_innermost_is_the_smallest() -> None:
    """Figures order by duration; which hop stands where does not matter."""
    heads = [
        Reported(source=source, field="f", covers="headers", ns=ns)
        for source, ns in (("outer", 9), ("inner", 3), ("middle", 5))
    ]
    other = Reported(source="o", field="f", covers="decode", ns=1)
    found = reported.innermost([*heads, other])
    assert found is heads[1]
    assert sorted(heads) == [heads[1], heads[2], heads[0]]
    assert reported.innermost([other]) is None
    assert reported.innermost([other], "decode") is other


def test_every_row_says_what_it_covers_when_it_is_absent_and_how_that_is_known() -> None:
    """The table is documentation too: every row has its interval (start -> end or what it is), its
    absence and its evidence."""
    for row in reported.TABLE:
        assert row.interval, row
        assert row.absent, row
        assert row.unit >= 1, row
        assert row.evidence.startswith(EVIDENCE), row
        assert row.covers in get_args(Covers)
        if row.covers not in ("stated", "network.gateway"):
            assert "->" in row.interval or row.evidence.startswith(("types", "documented")), row


def test_no_two_rows_read_one_figure() -> None:
    """A field is read once; a joint interval is claimed by one figure of a source, or the finer
    of two that state the same (TGI's total)."""
    places = [(row.source, row.place, row.where, row.label) for row in reported.TABLE]
    assert len(places) == len(set(places))
    headers = [row.field for row in reported.TABLE if row.place == "header" and not row.minus]
    assert len(headers) == len(set(headers))


@pytest.mark.parametrize(
    "target",
    """vllm.metrics vllm.otel sglang.meta_info sglang.otel llama.timings llama.prompt_progress
    ollama lmstudio.stats localai.usage tgi.headers trtllm.record trtllm.otel dynamo.timing
    nim.stats groq.usage cerebras.time_info fireworks.perf_metrics fireworks.headers
    sambanova.usage xai.headers bedrock.metrics bedrock.converse bedrock.headers
    openrouter.metadata openrouter.generation google.server-timing openai.headers
    anthropic.server-timing together.headers kong.headers envoy.headers
    litellm.headers""".split(),  # noqa: SIM905
)
def test_every_server_that_states_times_has_a_row(target: str) -> None:
    assert target in {row.source for row in reported.TABLE}


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            "server-timing",
            "helicone-cache",
            "x-portkey-cache-status",
            "cf-aig-cache-status",
            "cf-cache-status",
            "x-cache",
            "x-cache-status",
            "content-type",
            *(
                name
                for row in reported.TABLE
                if row.place == "header" and not row.where
                for name in (row.field, *row.plus, *filter(None, [row.minus]))
            ),
        }
    ),
)
def test_the_mask_keeps_every_header_of_the_table(name: str) -> None:
    """A masked recording states the same figures; LiteLLM's copies too."""
    for known in (name, f"llm_provider-{name}"):
        assert mask_headers(((known, "12.5"),), ()) == ((known, "12.5"),)


def test_a_masked_header_still_says_that_the_answer_was_replayed() -> None:
    """LiteLLM's cache key is a hash of the prompt: the mask keeps its name alone."""
    headers = (("x-litellm-cache-key", "586bf3f3"),)
    assert mask_headers(headers, ()) == (("x-litellm-cache-key", "xxxxxxxx"),)
    assert reported.replayed(mask_headers(headers, ()))
