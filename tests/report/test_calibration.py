"""A profile as text: the formula, what is not known and why, at any width."""

import re
from dataclasses import replace

import pytest

from latscope.attribution.probed import profile_from_arms
from latscope.attribution.profile import Floor, Profile, Terms
from latscope.report.calibration import formula, profile_lines
from latscope.units import MS
from tests.attribution.arms import World, run
from tests.attribution.test_probed import ABOUT


@pytest.fixture(scope="module")
def made() -> Profile:
    return profile_from_arms(run(World()), ABOUT)


def text(found: Profile, width: int = 100) -> str:
    return "\n".join(line.plain for line in profile_lines(found, width=width, colours=False))


def test_a_floor_is_a_formula_in_milliseconds(made: Profile) -> None:
    shown = text(made)
    assert re.search(
        r"first token   20\.\d ms \+ 0\.\d+ ms/token \+ 0\.0\d+ ms/cached token", shown
    )
    assert "unloaded, from the response" in shown
    assert re.search(r"decode        1[12](\.\d+)? ms/token \[", shown)
    assert re.search(r"saves 0\.0\d+ ms/cached token \[", shown)
    assert "head          early" in shown
    assert "count         ✓ 12 pairs" in shown


def test_a_bend_has_its_own_term() -> None:
    terms = Terms(base_ns=8 * MS, linear_ns=0.2 * MS, quadratic_ns=20.0)
    floor = Floor(terms=terms, anchor="sent", n=12, noise_ns=MS, tokens=(100, 1500))
    assert formula(floor) == "8 ms + 0.2 ms/token + 20 ms x (tokens/1000)²"
    slight = replace(floor, terms=replace(terms, quadratic_ns=0.001))
    assert formula(slight) == "8 ms + 0.2 ms/token"


def test_what_is_refused_is_said_with_what_is_known_all_the_same(made: Profile) -> None:
    shown = text(profile_from_arms(run(World(drift=40.0)), ABOUT))
    assert "no floor (trend: " in " ".join(shown.split())
    assert "a prompt token takes" in " ".join(shown.split())
    assert "✗" in shown
    nothing = text(profile_from_arms([], ABOUT))
    assert "no step found" in nothing
    assert "no effect seen" in nothing
    assert "a prompt token takes" not in nothing


def test_an_effect_that_may_be_none_is_not_sure(made: Profile) -> None:
    shown = text(replace(made, intervals={"cache_effect_ns": (-5.0, 9.0)}))
    assert "no sure effect [" in shown
    bare = text(replace(made, intervals={}))
    assert "[" not in bare


def test_context_has_a_term_where_it_slows(made: Profile) -> None:
    assert made.step is not None
    shown = text(replace(made, step=replace(made.step, per_context_ns=2000.0)))
    assert "2 ms for each 1000 tokens of context" in " ".join(shown.split())


def test_what_is_not_known_has_no_line(made: Profile) -> None:
    shown = text(replace(made, connect_ns=None, rtt_ns=None, tokens_per_chunk=None, head_ns=None))
    for label in ("connection", "round trip", "chunks"):
        assert label not in shown


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_every_line_fits(made: Profile, width: int) -> None:
    assert max(map(len, text(made, width).splitlines()[1:])) <= width


def test_colours_mark_guards_alone(made: Profile) -> None:
    plain = [line.plain for line in profile_lines(made, width=80, colours=False)]
    coloured = list(profile_lines(made, width=80, colours=True))
    assert [line.plain for line in coloured] == plain
    assert any("green" in str(span.style) for line in coloured for span in line.spans)
