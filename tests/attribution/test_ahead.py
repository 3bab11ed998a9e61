"""Whether an engine plans ahead, by the excesses of the calls that joined it while busy."""

from random import Random

import pytest

from benchmarks.half_a import WORLDS, World, known_calls
from latscope.attribution.ahead import join_of
from latscope.attribution.learn import learn_from
from latscope.attribution.profile import Profile
from latscope.sim.fleet.arrivals import drawn
from latscope.sim.fleet.engine import simulate
from latscope.sim.fleet.summary import capacity
from latscope.units import MS

STEP = 20.0 * MS
IDLE, JOINED = 60, 40


def excesses(since: float, until: float, joined: int = JOINED, lowest: float = 0.0) -> list[float]:
    """Above the floor, ns: calls that found the engine idle, and such as joined it, evenly between
    `since` and `until` steps later. The idle ones scatter up to `lowest` steps."""
    dice = Random(1)
    idle = [dice.uniform(0.0, lowest) * STEP for _ in range(IDLE)]
    return idle + [dice.uniform(since, until) * STEP for _ in range(joined)]


def join(found: list[float], noise: int = MS // 10, uncached: list[int] | None = None) -> int:
    return join_of([STEP] * 9, uncached or [500] * len(found), found, noise)


def test_a_step_is_planned_ahead_where_joiners_take_one_to_two() -> None:
    assert join(excesses(1, 2)) == pytest.approx(STEP, rel=0.01)


def test_none_is_where_they_take_up_to_one() -> None:
    assert join(excesses(0, 1)) == 0
    assert join(excesses(0, 3, joined=90)) == 0


def test_a_floor_that_holds_a_part_of_it_leaves_the_rest() -> None:
    assert join(excesses(0.6, 1.6)) == pytest.approx(0.62 * STEP, rel=0.05)


def test_idle_calls_that_scatter_are_no_joiners() -> None:
    assert join(excesses(1, 2, lowest=0.25), noise=MS) == pytest.approx(STEP, rel=0.01)


def test_noise_of_a_step_hides_it() -> None:
    assert join(excesses(1, 2), noise=15 * MS) == 0


def test_few_joiners_show_nothing() -> None:
    assert join(excesses(1, 2, joined=6)) == 0


def test_the_shorter_half_shows_it_where_the_slope_holds_it_for_long_prompts() -> None:
    short, long = excesses(1, 2), excesses(0, 1)
    uncached = [500] * len(short) + [4000] * len(long)
    assert join(short + long, uncached=[500] * (len(short) + len(long))) == 0
    assert join(short + long, uncached=uncached) == pytest.approx(STEP, rel=0.01)


def test_without_a_known_step_nothing_is_said() -> None:
    found = excesses(1, 2)
    assert join_of([], [500] * len(found), found, MS // 10) == 0


def quiet(world: World) -> Profile:
    """Learnt from 300 calls at a sixth of the world's capacity."""
    rate = 0.15 * capacity(world.fleet, drawn(world.workload(3, 1.0, 400)))
    run = simulate(world.fleet, drawn(world.workload(3, rate, 300)), trace=range(300))
    return learn_from(known.row for known in known_calls(world, run))


@pytest.mark.parametrize("name", ["papers", "books"])
def test_it_is_learnt_from_an_endpoints_calls(name: str) -> None:
    """The one world plans ahead and the other does not."""
    world = next(world for world in WORLDS if world.name == name)
    floor = quiet(world).floor
    assert floor is not None
    expected = world.cost.step if world.depth == 2 else 0
    assert floor.join_ns == pytest.approx(expected, rel=0.05)
