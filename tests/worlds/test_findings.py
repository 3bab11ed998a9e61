"""The known shortcomings: each still there, in its smallest world."""

import pytest

from tests.worlds.check import broken
from tests.worlds.findings import FINDINGS, Finding
from tests.worlds.world import build


@pytest.mark.parametrize(
    "finding",
    [
        pytest.param(f, id=f.name, marks=pytest.mark.xfail(strict=True, reason=f.reason))
        for f in FINDINGS
    ],
)
def test_a_shortcoming(finding: Finding) -> None:
    """When it no longer fails it is mended: delete its row, so that the grid covers its worlds."""
    assert broken(finding.smallest) == []


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda finding: finding.name)
def test_a_shortcoming_knows_its_own_world(finding: Finding) -> None:
    assert finding.covers(build(finding.smallest))
