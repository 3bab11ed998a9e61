"""Metrics of one page each: unsplit silence, the bill, refusals, the window, a prompt's cost."""

from typing import Any

import pytest

from latscope.rules.metrics import known
from latscope.rules.table import gather
from latscope.units import MS, S
from tests.rules.made import call, calls, table

HOUR = 3600 * S


def told(name: str, line: dict[str, Any]) -> Any:
    row = known(name)
    assert row.of is not None
    return row.of(line)


SPLIT = {"ttft": S, "ttft.queue": 300 * MS, "ttft.network": 100 * MS}


@pytest.mark.parametrize(
    ("name", "stated", "value"),
    [
        ("ttft.queue_or_unsplit", SPLIT, 300 * MS),
        ("ttft.prefill_or_unsplit", SPLIT, 600 * MS),
        ("ttft.decode_or_unsplit", SPLIT, 0),
        ("ttft.queue_or_unsplit", {"ttft": S, "blind": True}, S),
        ("ttft.prefill_or_unsplit", {"ttft": S, "blind": True}, S),
        ("ttft.queue_or_unsplit", {"streamed": False, "e2e": S}, None),
        ("ttft.queue_or_unsplit", {"failed": True}, None),
        ("ttft.unsplit", SPLIT, 0),
        ("ttft.unsplit", {"ttft": S, "blind": True}, S),
        ("ttft.unsplit", {"failed": True}, None),
        ("ttft.unsplit", {"streamed": False, "e2e": S}, None),
        ("ttft_felt", {"ttft": S}, S),
        ("ttft_felt", {"ttft": 40 * MS}, 100 * MS),
        ("ttft_felt", {"streamed": False, "e2e": S}, None),
        ("prefill_tokens", {"input_tokens": 900, "cached_tokens": 400}, 500),
        ("prefill_tokens", {"input_tokens": 900}, 900),
        ("prefill_tokens", {}, None),
        ("prefill_ns_per_token", {"ttft": S, "blind": True, "input_tokens": 500}, 2 * MS),
        ("prefill_ns_per_token", {"ttft": S, "input_tokens": 9, "cached_tokens": 9}, None),
        ("prefill_ns_per_token", {"ttft": S}, None),
        ("request.fixed_bytes", {"request.system_bytes": 9, "request.tools_bytes": 4}, 13),
        ("request.fixed_bytes", {}, None),
        ("billed_tokens", {"input_tokens": 1000, "output_tokens": 100}, 1370),
        (
            "billed_tokens",
            {
                "input_tokens": 1000,
                "cached_tokens": 400,
                "cache_write_tokens": 100,
                "output_tokens": 100,
            },
            500 + 40 + 125 + 370,
        ),
        ("billed_tokens", {"input_tokens": 1000}, None),
        ("reader_behind", {"ttft": S, "output_tokens": 9}, 0),
        ("reader_behind", {"ttft": S, "output_tokens": 9, "itl": None}, 1),
        ("reader_behind", {"ttft": S, "output_tokens": 7, "itl": None}, None),
        ("reader_behind", {"ttft": S, "itl": None}, None),
        ("reader_behind", {"ttft": S, "output_tokens": 9, "at_once": True}, None),
        ("reader_behind", {"failed": True}, None),
        ("felt_stall", {"ttft": S, "stall.hold": 200 * MS}, 1),
        ("felt_stall", {"ttft": S, "stall.hold": 190 * MS}, 0),
        ("felt_stall", {"streamed": False, "e2e": S}, None),
        ("handshake", {"ttft": S, "network.connect": 20, "network.tls": 30}, 50),
        ("handshake", {"ttft": S}, 0),
        ("handshake", {"failed": True}, None),
        ("limited", {"refused": True}, 1),
        ("limited", {"failed": True, "http_status": 503}, 0),
        ("overloaded", {"failed": True, "http_status": 503}, 1),
        ("overloaded", {"failed": True, "http_status": 529}, 1),
        ("overloaded", {"refused": True}, 0),
        ("tried_in_vain", {"attempts": 2}, 1),
        ("tried_in_vain", {"refused": True, "attempts": 2}, 0),
        ("tried_in_vain", {}, 0),
        ("troubled", {"attempts": 2}, 1),
        ("troubled", {"failed": True, "http_status": 503}, 1),
        ("troubled", {}, 0),
    ],
)
def test_a_figure_of_one_call(name: str, stated: dict[str, Any], value: Any) -> None:
    assert told(name, call(**stated)) == (None if value is None else pytest.approx(value))


def test_a_line_of_an_earlier_version_states_no_share_of_the_first_token() -> None:
    line = call(ttft=S)
    for share in line["segments"]:
        share["ttft_ns"] = None
    assert told("ttft.queue_or_unsplit", line) is None
    assert told("ttft.unsplit", line) is None


@pytest.mark.parametrize(
    ("stated", "use", "hit"),
    [
        ({"model": "gpt-4", "input_tokens": 4000, "output_tokens": 96}, 0.5, 0),
        ({"model": "gpt-4", "input_tokens": 9000, "output_tokens": 96}, None, 0),
        ({"model": "gpt-4", "output_tokens": 96}, None, 0),
        ({"model": "my-llama", "input_tokens": 4000, "output_tokens": 96}, None, 0),
        ({"model": "gpt-4", "mode": "self-hosted", "input_tokens": 9, "output_tokens": 9}, None, 0),
        ({"finish_reason": "model_context_window_exceeded"}, 1, 1),
        ({"finish_reason": "length", "output_tokens": 90, "max_output_tokens": 100}, 1, 1),
        ({"finish_reason": "length", "output_tokens": 100, "max_output_tokens": 100}, None, 0),
        ({"finish_reason": "length", "output_tokens": 90}, None, 0),
        ({"finish_reason": "length"}, None, 0),
        ({"cut": True}, None, None),
    ],
)
def test_how_much_of_the_window_is_used(stated: dict[str, Any], use: Any, hit: Any) -> None:
    assert told("window_use", call(**stated)) == use
    assert told("window_hit", call(**stated)) == hit


def test_the_main_model_has_a_number_of_its_own() -> None:
    def number(*models: str | None) -> float | None:
        return table("model", models, "model_number").whole("model_number")

    assert number("a", "b", "a") == number("a")
    assert number("a") != number("b")
    assert number(None) is None


def test_calls_that_nothing_ties_are_visits_of_their_own() -> None:
    def rate(*sessions: str | None) -> float | None:
        lines = [
            call(f"{at}", at * HOUR, **({"session": name} if name else {}))
            for at, name in enumerate(sessions)
        ]
        return gather(lines, {"visits_per_hour"}).file.whole("visits_per_hour")

    assert rate("a", "a", "b") == 1.0
    assert rate(None, None, None) == 1.5
    assert rate("a", "a", None, None, None) == 1.0
    assert rate("a") is None


def test_lumps_are_told_of_every_stream() -> None:
    lines = [
        call("even", 0, ttft=S, output_tokens=100),
        call("whole", S, streamed=False, e2e=S),
        call("lump", 2 * S, ttft=S, output_tokens=100, at_once=True),
        call("short", 3 * S, ttft=S, output_tokens=1),
    ]
    assert gather(lines, {"lumpy"}).file.columns["lumpy"] == [0.0, None, 1.0, 0.0]


def test_busy_and_quiet_thirds_of_the_hours() -> None:
    by_hour = [2, 5, 9]
    lines = [
        call(f"{hour}-{at}", hour * HOUR + at * S)
        for hour, many in enumerate(by_hour)
        for at in range(many)
    ]
    column = gather(lines, {"at_peak"}).file.columns["at_peak"]
    assert column == [0.0] * 2 + [None] * 5 + [1.0] * 9


def test_two_hours_have_no_peak() -> None:
    lines = [call(f"{at}", at * HOUR) for at in range(2)]
    assert gather(lines, {"at_peak"}).file.columns["at_peak"] == [None, None]


@pytest.mark.parametrize("front", ["system", "instructions", "messages[0] system"])
def test_a_prompt_that_changes_at_its_front_broke_early(front: str) -> None:
    def line(name: str, at: int, hashes: str, session: str = "s") -> dict[str, Any]:
        return call(
            name,
            at * S,
            session=session,
            request__hashes=hashes,
            request__parts=[[front, 2], ["messages[1] user", 1]],
            request__system_bytes=512,
            request__last_bytes=200,
        )

    one, other, end = "a" * 16 + "b" * 16, "c" * 16 + "d" * 16, "e" * 16
    lines = [
        line("first", 0, one + end),
        line("kept", 10, one + "f" * 16),
        line("early", 20, other + end),
    ]
    found = gather(lines, {"broke_early"}).file.columns["broke_early"]
    assert found == [None, 0.0, 1.0]


def test_what_a_thousand_tokens_add_to_the_first_token() -> None:
    sizes = [500 * (1 + at % 4) for at in range(40)]
    lines = [
        call(f"{at}", at * S, ttft=100 * MS + size * 200_000, input_tokens=size)
        for at, size in enumerate(sizes)
    ]
    found = gather(lines, {"ttft_per_1000"}).file.whole("ttft_per_1000")
    assert found == pytest.approx(200 * MS)


@pytest.mark.parametrize(
    "sizes", [[500] * 40, [500, 5000], [500 * (1 + at % 4) for at in range(40)]]
)
def test_prompts_that_do_not_show_it_tell_no_cost_in_time(sizes: list[int]) -> None:
    lines = [call(f"{at}", at * S, ttft=S, input_tokens=size) for at, size in enumerate(sizes)]
    assert gather(lines, {"ttft_per_1000"}).file.whole("ttft_per_1000") is None


def test_what_a_thousand_tokens_cost() -> None:
    money: dict[str, Any] = {
        "money.uncached_input": 0.002,
        "money.cached_input": 0.001,
        "money.cache_write": 0.0,
    }
    lines = [*calls("input_tokens", [1000, 2000], **money), call("unpriced", 9 * S, input_tokens=9)]
    found = gather(lines, {"cost_per_1000"}).file
    assert found.whole("cost_per_1000") == pytest.approx(0.002)
    bare = gather(calls("input_tokens", [1000]), {"cost_per_1000"}).file
    assert bare.whole("cost_per_1000") is None
