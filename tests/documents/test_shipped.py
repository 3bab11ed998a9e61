"""The runbooks latscope ships: each is whole, and says of its own cases what it states."""

import re
from pathlib import Path

import jsonschema
import pytest

from latscope.documents import lines, runbooks
from latscope.rules.cases import run_case
from latscope.rules.runbook import Case, Runbook

HOME = Path(__file__).parents[2] / "runbooks"
NAMES = sorted(path.stem for path in HOME.glob("*.md") if path.stem.upper() != "README")
THREE = ("slow-first-token", "bill-up-traffic-flat", "stalls-mid-generation")
"""Those of the source document."""


def cases() -> list[tuple[str, int]]:
    found = []
    for name in NAMES:
        count = len(runbooks.opened(HOME / f"{name}.md").plain.get("cases", ()))
        found += [(name, index) for index in range(count)]
    return found


def test_they_are_there() -> None:
    assert set(THREE) <= set(NAMES)
    assert [page.id for page in runbooks.shipped()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_each_is_valid_and_has_its_cases(name: str) -> None:
    """By the published schema too. The file is named after the page."""
    source = runbooks.opened(HOME / f"{name}.md")
    jsonschema.validate(source.plain, runbooks.schema(), jsonschema.Draft202012Validator)
    page = runbooks.made(source)
    assert page.id == name
    assert runbooks.wanting(page) is None
    assert page.body.strip()


@pytest.mark.parametrize(("name", "index"), cases())
def test_each_says_of_its_cases_what_it_states(name: str, index: int) -> None:
    page = runbooks.read(HOME / f"{name}.md")
    check(page, page.cases[index])


def test_the_manuals_example_is_a_page_whose_cases_hold() -> None:
    manual = (HOME.parent / "docs" / "runbooks.md").read_text()
    (text,) = re.findall(r"^```markdown\n(.*?)^```", manual, flags=re.DOTALL | re.MULTILINE)
    page = runbooks.read_text(text, where="docs/runbooks.md")
    assert runbooks.wanting(page) is None
    for case in page.cases:
        check(page, case)


def check(page: Runbook, case: Case) -> None:
    found = run_case(page, case, lines.beside(page, case))
    assert found.verdict == case.verdict, f"{case.says}: {found.reason}"
    if case.segment is not None:
        assert found.segment == case.segment, case.says
    named = {cause.id for cause in found.causes if cause.named}
    assert set(case.causes) <= named, case.says
