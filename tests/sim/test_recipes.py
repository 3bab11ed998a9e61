"""Traffic recipes: what they say, that they are balanced, and that half B follows the estimator."""

from functools import cache
from itertools import product
from pathlib import Path

import pytest

from latscope.documents.recipes import (
    LOADS,
    SINGULAR,
    Recipe,
    from_mapping,
    frozen,
    parse,
    read,
    to_mapping,
)
from latscope.errors import InputError
from latscope.sim.recipes import (
    LEAST,
    PROXIES,
    balanced,
    half_b,
    outcomes,
    seed_of,
    shares,
)

ROOT = Path(__file__).resolve().parents[2]
HALF_A = tuple(sorted((ROOT / "fixtures" / "recipes").glob("a-*.toml")))
SCORED = 300
"""Least calls of a cell that is scored."""

FILES = {"latscope/attribution/pace.py": b"DELIVERY = 25", "latscope/timeline/build.py": b"x"}


@cache
def half_a() -> tuple[Recipe, ...]:
    return tuple(read(path) for path in HALF_A)


@cache
def this_b() -> Recipe:
    (found,) = half_b(FILES, count=1)
    return found


@pytest.mark.parametrize("path", HALF_A, ids=lambda path: path.stem)
def test_each_segment_wins_often_enough_in_half_a(path: Path) -> None:
    """Run through the scheduler and a path without noise: of the scored calls of each recipe,
    queue, prefill, decode and network are each the largest in at least 15 %."""
    recipe = read(path)
    assert recipe.name == path.stem
    assert min(shares(recipe.cells, outcomes(recipe)).values()) >= LEAST


def test_and_in_half_b() -> None:
    assert min(shares(this_b().cells, outcomes(this_b())).values()) >= LEAST


def test_every_mix_is_run_at_every_load_and_no_part_is_idle() -> None:
    """With as many calls in a cell as a score needs."""
    for recipe in (*half_a(), this_b()):
        run = {(cell.load, cell.mix) for cell in recipe.cells}
        assert run == set(product(LOADS, (mix.name for mix in recipe.mixes)))
        for kind, one in SINGULAR.items():
            used = {getattr(cell, one) for cell in recipe.cells}
            assert used == {part.name for part in getattr(recipe, kind)}
        assert all(cell.calls >= SCORED for cell in recipe.cells)


def test_half_b_has_other_sizes_budgets_and_proxies() -> None:
    """But for the path without a hop, which both halves need."""
    for recipe, other in product(half_a(), [this_b()]):
        assert recipe.engine.max_num_batched_tokens != other.engine.max_num_batched_tokens
        assert recipe.engine.max_num_seqs != other.engine.max_num_seqs
        assert {hop.name for hop in recipe.hops}.isdisjoint(PROXIES)
        assert {m.prompt for m in recipe.mixes}.isdisjoint(m.prompt for m in other.mixes)
        assert {k.rtt_ms for k in recipe.links}.isdisjoint(k.rtt_ms for k in other.links)
    assert {hop.name for hop in this_b().hops} <= {"direct", *PROXIES}
    assert (this_b().half, {recipe.half for recipe in half_a()}) == ("b", {"a"})


def test_the_same_estimator_has_the_same_half_b() -> None:
    assert half_b(dict(reversed(FILES.items())), count=1) == (this_b(),)


@pytest.mark.parametrize(
    "changed",
    [
        FILES | {"latscope/attribution/pace.py": b"DELIVERY = 26"},
        FILES | {"latscope/attribution/new.py": b""},
        {"latscope/attribution/pace.py": b"DELIVERY = 25"},
        {"latscope/attribution/pace.py": b"DELIVERY = 2", "latscope/timeline/build.py": b"5x"},
        {"latscope/attribution/pace": b".pyDELIVERY = 25", "latscope/timeline/build.py": b"x"},
    ],
    ids=["a threshold", "a new file", "a file less", "a byte moved on", "a byte moved into a name"],
)
def test_any_change_of_it_is_another_seed(changed: dict[str, bytes]) -> None:
    assert seed_of(changed) != seed_of(FILES)


def test_another_seed_draws_other_recipes() -> None:
    """Not the same parts under another seed: engine, mixes and links differ too."""
    (other,) = half_b({"a threshold": b"26"}, count=1)
    assert other.seed != this_b().seed
    assert (other.mixes, other.links) != (this_b().mixes, this_b().links)
    assert other.engine != this_b().engine


def test_the_frozen_files_are_the_estimator() -> None:
    """Attribution, timeline and the table of reported figures; nothing else."""
    found = frozen(ROOT)
    assert (
        found["latscope/attribution/pace.py"]
        == (ROOT / "latscope/attribution/pace.py").read_bytes()
    )
    assert "latscope/protocols/reported/__init__.py" in found
    folders = {name.rsplit("/", 1)[0] for name in found}
    assert folders == {"latscope/attribution", "latscope/timeline", "latscope/protocols/reported"}


def test_a_folder_without_them_is_no_checkout(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no checkout of latscope"):
        frozen(tmp_path)


def test_a_recipe_survives_the_way_to_another_process() -> None:
    for recipe in (*half_a(), this_b()):
        assert from_mapping(to_mapping(recipe), recipe.name) == recipe


def test_a_cell_finds_its_parts() -> None:
    recipe = half_a()[0]
    cell = recipe.cells[0]
    found = (recipe.mix, recipe.link, recipe.hop, recipe.fault, recipe.face)
    named = [part(cell).name for part in found]
    assert named == [cell.mix, cell.link, cell.hop, cell.fault, cell.face]


SMALL = """
name = "small"
half = "a"
cells = [{load = 0.5, mix = "m", link = "l", hop = "h", fault = "f", face = "v"}]
engine = {max_num_seqs = 4, max_num_batched_tokens = 256}
mixes = [{name = "m", prompt = 50, output = 90}]
links = [{name = "l", rtt_ms = 1}]
hops = [{name = "h", does = "passes"}]
faults = [{name = "f", do = "none"}]
faces = [{name = "v"}]
"""


def test_traffic_of_one_kind_cannot_be_balanced() -> None:
    """Nothing but decode: weights cannot help, and the rare winner is named."""
    recipe = parse(SMALL, "small.toml")
    with pytest.raises(InputError, match="recipe small: queue wins in 0% of scored calls"):
        balanced(recipe, outcomes(recipe, calls=20))


@pytest.mark.parametrize(
    ("replaced", "by", "said"),
    [
        ("name = ", "name == ", "r.toml: not TOML: "),
        ('name = "small"', 'schema = "latscope.recipe/9"', "r.toml: schema is 'latscope.recipe/9'"),
        ('mix = "m"', 'mix = "x"', "r.toml: recipe: cells.0: no mix 'x'; there are: m"),
        ("load = 0.5", "load = 0", "r.toml: cells.0.load: Input should be greater than 0"),
        ("rtt_ms = 1", "rtt = 1", "r.toml: links.0.rtt_ms: Field required (and 2 more)"),
        (
            'faces = [{name = "v"}',
            'faces = [{name = "v"}, {name = "v"}',
            "r.toml: recipe: two faces of one name",
        ),
    ],
)
def test_what_cannot_be_used_is_said_in_one_line(replaced: str, by: str, said: str) -> None:
    """The file, the field, what is wrong."""
    with pytest.raises(InputError) as caught:
        parse(SMALL.replace(replaced, by), "r.toml")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"absent\.toml: cannot be read"):
        read(tmp_path / "absent.toml")
