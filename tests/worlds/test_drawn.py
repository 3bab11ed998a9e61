"""Worlds nobody thought of."""

from hypothesis import HealthCheck, given, settings

from tests.worlds.check import attributed, complaints
from tests.worlds.draw import worlds
from tests.worlds.world import World


@settings(
    max_examples=200,
    derandomize=True,  # the same every time; more of them is for whoever changes the attribution
    deadline=None,
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(worlds())
def test_the_attribution_holds_in_any_world(world: World) -> None:
    """Laws, verdict, first times, every segment of the wall and of TTFT, and the winner."""
    assert complaints(world, attributed(world)) == []
