"""`latscope.check`: the same verdicts as the command's, over calls at hand."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import latscope
from latscope.attribution import attribute
from latscope.documents.runbooks import read
from latscope.errors import InputError, UsageError
from latscope.rules.cases import calls_of
from latscope.rules.metrics.metric import Call
from tests.calls import stream, tokens
from tests.cli.test_check import HEALTHY, PAGE, SICK


@pytest.fixture
def pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one runbook, and none of latscope's own."""
    monkeypatch.setattr("latscope.documents.runbooks._home", lambda: tmp_path / "none")
    (tmp_path / "late.md").write_text(PAGE.replace("SEVERITY", "warning"))
    return tmp_path


def healthy() -> list[Call]:
    return calls_of([HEALTHY], 1)


def sick() -> Iterator[Call]:
    """Read once, as a file is."""
    yield from calls_of([SICK], 1)


def test_mappings_are_judged_as_the_command_does(pages: Path) -> None:
    (found,) = latscope.check(sick(), baseline=healthy(), runbooks=[pages])
    assert (found.verdict, found.segment) == ("open", "queue")
    (found,) = latscope.check(healthy(), baseline=healthy(), before=sick(), runbooks=[str(pages)])
    assert found.verdict == "resolved"


def test_recordings_and_attributions_are_calls_too(pages: Path) -> None:
    recording = stream(tokens(5, start=100, step=10))
    page = read(pages / "late.md")
    one, other = (
        latscope.check([call], runbooks=[page], rules=["late"])
        for call in (recording, attribute(recording))
    )
    assert one == other
    assert one[0].asked


def test_latscopes_own_pages_are_the_default() -> None:
    calls = calls_of([{**HEALTHY, "n": 90}], 1)
    found = latscope.check(calls, baseline=calls, rules=["slow-first-token"])
    assert [one.verdict for one in found] == ["not seen"]


def test_what_cannot_be_used_is_told(pages: Path) -> None:
    broken: dict[str, Any] = {**healthy()[0], "wall_ns": "x"}
    with pytest.raises(InputError, match=r"^call 1: wall_ns: "):
        latscope.check([broken], runbooks=[pages])
    with pytest.raises(UsageError, match="no runbook 'lat'; did you mean 'late'"):
        latscope.check([], runbooks=[pages], rules=["lat"])
    with pytest.raises(UsageError, match="no runbook 'x'; there are: late"):
        latscope.check([], runbooks=[pages], rules=["x"])


def test_money_that_a_mapping_states_is_kept(pages: Path) -> None:
    text = PAGE.replace("SEVERITY", "info").replace("id: late", "id: dear")
    text = text.replace("metric: ttft, stat: p50, above: {baseline: 1.3x, by: 100ms}",
                        "metric: cost, stat: p50, above: 5")  # fmt: skip
    (pages / "dear.md").write_text(text)
    calls = [{**call, "money": {"total": 9.0}} for call in healthy()]
    (found,) = latscope.check(calls, runbooks=[pages], rules=["dear"])
    assert found.seen is True
