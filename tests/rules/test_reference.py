"""What calls are held against."""

from typing import Any

from latscope.rules.metrics import Call
from latscope.rules.reference import Reference, quieter
from latscope.rules.table import Table, gather
from latscope.units import MS, S
from tests.rules.made import call, table

HOUR = 3600 * S


def traffic(*by_hour: int, start: int = 0, **of_hour: Any) -> list[Call]:
    """So many calls in each hour, evenly; of_hour: a metric's value in each hour."""
    values = [{name: given[at] for name, given in of_hour.items()} for at in range(len(by_hour))]
    return [
        call(f"{hour}-{at}", start + hour * HOUR + at * HOUR // n, **values[hour])
        for hour, n in enumerate(by_hour)
        for at in range(n)
    ]


def gathered(lines: list[Call], *names: str) -> Table:
    return gather(lines, {"ttft", "floor", "input_tokens", "calls_per_hour", *names}).file


def test_the_baseline_file_comes_first() -> None:
    now, then = table("ttft", [S], "floor", floor=MS), table("ttft", [S])
    found = Reference(then).sides(now, "ttft", None)
    assert found == (now, then, "ttft", "baseline file")


def test_then_the_floor_of_the_profile_for_the_time_to_first_token() -> None:
    now = table("ttft", [S] * 5 + [2 * S], "floor", "e2e", floor=MS)
    found = Reference().sides(now, "ttft", None)
    assert found is not None
    assert found[2:] == ("floor", "profile's floor")
    assert Reference().sides(now, "e2e", None) is None
    few = table("ttft", [S] * 4, "floor", floor=MS)
    assert Reference().sides(few, "ttft", None) is None
    empty = Reference(table("ttft", [])).sides(now, "ttft", None)
    assert empty is not None
    assert empty[3] == "profile's floor"


def test_then_the_quieter_hours_of_the_same_file() -> None:
    lines = traffic(20, 100, 20, 100, 60, 60, ttft=[MS, S, MS, S, 5, 5])
    found = Reference().sides(gathered(lines), "ttft", None)
    assert found is not None
    busy, quiet, name, kind = found
    assert (name, kind) == ("ttft", "quieter hours of this file")
    assert {*quiet.columns["ttft"]} == {MS}
    assert {*busy.columns["ttft"]} == {S}
    assert (quiet.size, busy.size) == (40, 200)


def test_hours_alike_but_for_chance_are_no_reference() -> None:
    assert quieter(gathered(traffic(20, 24, 22, 19, 21, 25))) is None
    assert quieter(gathered(traffic(1, 3, 2))) is None


def test_it_takes_three_hours() -> None:
    assert quieter(gathered(traffic(20, 200))) is None
    assert quieter(gathered(traffic(20, 200, 90))) is not None
    assert quieter(gathered([])) is None


def test_an_hour_in_which_the_file_only_begins_or_ends_is_no_quiet_one() -> None:
    """Its few calls are few because it is short."""
    lines = traffic(100, 100, 100)
    lines.append(call("last", 3 * HOUR + 60 * S))
    assert quieter(gathered(lines)) is None
    assert quieter(gathered(traffic(100, 100, 100, start=2 * HOUR // 3))) is None


def test_of_hours_with_as_many_calls_those_with_fewer_in_flight_are_quieter() -> None:
    lines = traffic(20, 20, 90, 90, 90, 90, 60, in_flight=[1, 1, 9, 9, 2, 2, 5])
    found = quieter(gathered(lines))
    assert found is not None
    assert {*found[1].columns["in_flight"]} == {9}


def test_figures_of_the_traffic_itself_have_no_quieter_hours() -> None:
    lines = traffic(20, 100, 20, 100, 60, 60)
    assert Reference().sides(gathered(lines), "calls_per_hour", None) is None
    assert Reference().sides(gathered(lines), "input_tokens", None) is not None
