"""The low edge of delayed calls, as a line of coefficients none of which is negative."""

import sys
from random import Random

import pytest

from latscope.attribution.fit import floor_terms, loss, quantile_line, step_terms, varies
from latscope.errors import MissingExtra
from latscope.units import MS, US


def delayed(n: int, seed: int, *, chunk: int = 0) -> tuple[list[int], list[float]]:
    dice = Random(seed)
    prompts, times = [], []
    for _ in range(n):
        u = round(dice.uniform(50, 3000))
        steps = -(-u // chunk) - 1 if chunk else 0
        late = 0.0 if dice.random() < 0.2 else dice.expovariate(1 / 40) * MS
        prompts.append(u)
        times.append(8 * MS + 30 * US * u + 2.0 * u * u + steps * 6 * MS + late)
    return prompts, times


def test_the_floor_is_found_under_delays_that_move_a_mean_far_off() -> None:
    prompts, times = delayed(300, 1)
    terms = floor_terms(prompts, [0] * 300, times, [1.0] * 300, 0.05)
    for u in (100, 1000, 3000):
        true = 8 * MS + 30 * US * u + 2.0 * u * u
        assert terms.at(u) == pytest.approx(true, rel=0.02)
    assert terms.chunk_tokens == 0


def test_tau_of_the_weight_lies_below_the_line() -> None:
    dice = Random(3)
    values = [dice.random() for _ in range(400)]
    heavy = [1.0 if value < 0.5 else 9.0 for value in values]
    light, weighed = (
        quantile_line([[1.0] * 400], values, weights, 0.1)[0] for weights in ([1.0] * 400, heavy)
    )
    assert light == pytest.approx(0.1, abs=0.03)
    assert weighed == pytest.approx(0.5, abs=0.05)  # a tenth of all calls are half of those seen


def test_no_coefficient_is_negative() -> None:
    """Times that fall with the prompt: the slope is 0, not below."""
    prompts = list(range(100, 400))
    terms = floor_terms(prompts, [0] * 300, [1e9 - 1e6 * u for u in prompts], [1.0] * 300, 0.05)
    assert terms.linear_ns == 0
    assert terms.quadratic_ns == 0
    assert terms.base_ns > 0


def test_cached_tokens_get_a_term_when_they_vary() -> None:
    dice = Random(5)
    prompts = [dice.randrange(100, 2000) for _ in range(200)]
    cached = [dice.choice((0, 1000, 2000)) for _ in prompts]
    times = [5 * MS + 20 * US * u + 2 * US * c for u, c in zip(prompts, cached, strict=True)]
    terms = floor_terms(prompts, cached, times, [1.0] * 200, 0.05)
    assert terms.cached_ns == pytest.approx(2 * US, rel=0.05)
    same = floor_terms(prompts, [512] * 200, times, [1.0] * 200, 0.05)
    assert same.cached_ns == 0


def test_counts_vary_when_enough_of_them_lie_off_the_commonest() -> None:
    assert not varies([512] * 100)
    assert not varies([512] * 95 + [0] * 5)
    assert varies([512] * 80 + [0] * 20)


def test_the_budget_of_a_step_shows_in_the_stairs() -> None:
    prompts, times = delayed(300, 2, chunk=512)
    terms = floor_terms(prompts, [0] * 300, times, [1.0] * 300, 0.05)
    assert terms.chunk_tokens == 512
    assert terms.chunk_ns == pytest.approx(6 * MS, rel=0.15)
    assert terms.steps(512) == 1
    assert terms.steps(513) == 2
    assert terms.at(2000) == pytest.approx(8 * MS + 60 * MS + 8e6 + 18 * MS, rel=0.03)


def test_a_given_budget_is_not_looked_for() -> None:
    prompts, times = delayed(100, 2, chunk=512)
    assert floor_terms(prompts, [0] * 100, times, [1.0] * 100, 0.05, 0).chunk_tokens == 0
    assert floor_terms(prompts, [0] * 100, times, [1.0] * 100, 0.05, 512).chunk_tokens == 512


def test_a_step_grows_with_context() -> None:
    dice = Random(7)
    contexts = [dice.randrange(100, 4000) for _ in range(150)]
    steps = [6 * MS + 50.0 * c + dice.expovariate(1.0) * MS for c in contexts]
    base, slope = step_terms(contexts, steps, [1.0] * 150, 0.05)
    assert base == pytest.approx(6 * MS, rel=0.03)
    assert slope == pytest.approx(50, rel=0.4)


def test_what_lies_below_costs_more() -> None:
    assert loss([10.0, -10.0], [1.0, 2.0], 0.05) == pytest.approx(0.5 + 19.0)


def test_without_numpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(MissingExtra, match=r"latscope\[analysis\]"):
        quantile_line([[1.0]], [1.0], [1.0], 0.5)


def test_no_base_below_what_a_step_takes() -> None:
    """Where short prompts were seldom alone, the line would rather be steep."""
    prompts = list(range(200, 3200, 10))
    times = [12e6 + 50e3 * u if u > 1000 else 40e3 * u for u in prompts]
    loose = floor_terms(prompts, [0] * 300, times, [1.0] * 300, 0.05)
    assert loose.base_ns < 1e6
    held = floor_terms(prompts, [0] * 300, times, [1.0] * 300, 0.05, least=10e6)
    assert held.base_ns >= 10e6
    assert held.linear_ns <= loose.linear_ns
