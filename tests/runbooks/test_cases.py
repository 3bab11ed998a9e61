"""Every page that ships says of its own cases what they state; each case is a test, and an example
of the manual."""

import re
from functools import cache
from pathlib import Path

import pytest

from latscope.documents import runbooks
from latscope.documents.runbooks import counts, wanting
from latscope.rules.cases import run_case
from latscope.rules.finding import Finding
from latscope.rules.runbook import Case, Runbook

PAGES = runbooks.shipped()
CASES = [
    pytest.param(page, case, id=f"{page.id}: {case.says}") for page in PAGES for case in page.cases
]
RESOLVED = ("slow-first-token", "bill-up-traffic-flat", "stalls-mid-generation")
FOLDER = Path(__file__).resolve().parents[2] / "runbooks"


@cache
def judged(id: str, says: str) -> Finding:
    """What the page says of a case, asked once for all tests."""
    page = next(page for page in PAGES if page.id == id)
    return run_case(page, next(case for case in page.cases if case.says == says))


@pytest.mark.parametrize(("page", "case"), CASES)
def test_a_case_comes_out_as_it_says(page: Runbook, case: Case) -> None:
    found = judged(page.id, case.says)
    named = {cause.id for cause in found.causes if cause.named}
    assert found.verdict == case.verdict, found.reason
    assert case.segment in (None, found.segment)
    assert {*case.causes} <= named


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_a_page_fires_and_stays_silent(page: Runbook) -> None:
    fires, silent = counts(page)
    assert wanting(page) is None
    assert len({case.says for case in page.cases}) == len(page.cases)
    assert fires >= 1
    assert silent >= 2


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_every_cause_of_a_page_is_named_in_a_case(page: Runbook) -> None:
    named = {cause for case in page.cases for cause in case.causes}
    assert named == {cause.id for cause in page.evidence}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_an_action_stands_by_for_every_cause(page: Runbook) -> None:
    served = {action.cause for action in page.actions}
    assert None in served or served.issuperset(cause.id for cause in page.evidence)


@pytest.mark.parametrize("id", RESOLVED)
def test_the_main_pages_show_what_done_looks_like(id: str) -> None:
    page = next(page for page in PAGES if page.id == id)
    done = [case for case in page.cases if case.verdict == "resolved"]
    assert done
    assert all(case.before for case in done)
    assert all(one.met for case in done for one in judged(id, case.says).done_when)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_actions_fill_their_places(page: Runbook) -> None:
    for case in page.cases:
        if case.verdict == "open":
            found = judged(page.id, case.says)
            assert found.actions
            assert not [text for text in found.actions if re.search(r"\{[\w.]+\}", text)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.id)
def test_a_page_is_one_screen_and_named_as_its_file(page: Runbook) -> None:
    lines = page.body.strip().splitlines()
    assert Path(page.path).stem == page.id
    assert lines[0] == f"# {page.title}"
    assert len(lines) <= 50


def test_no_page_is_left_out() -> None:
    """What the wheel ships is what the folder holds."""
    names = {path.stem for path in FOLDER.glob("*.md")} - {"README"}
    assert names == {page.id for page in PAGES}
