"""`latscope check`: verdicts, exit codes, what is kept, and what is said of what cannot be used."""

import json
import stat
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from latscope.cli import baseline
from latscope.cli.main import run
from latscope.recording import to_line
from latscope.rules.cases import calls_of
from latscope.units import MS, S
from tests.calls import stream, tokens

Capture = pytest.CaptureFixture[str]

PAGE = """\
---
schema: latscope.runbook/1
id: late
title: The first token is late
severity: SEVERITY
symptom:
  - {metric: ttft, stat: p50, above: {baseline: 1.3x, by: 100ms}}
evidence:
  - id: queue
    says: calls wait longer
    segment: queue
    if: [{metric: ttft.queue, stat: p50, above: {baseline: 1.2x, by: 50ms}}]
    moves: ttft.queue p50
    collect: the server's own times
actions:
  - {do: "Send fewer than {in_flight.p50} at once", cause: queue}
done_when:
  - text: back at baseline
    if: [{metric: ttft, stat: p50, near: {baseline: 20%}}]
cases:
  - {says: late, verdict: open, calls: [{n: 1}]}
  - {says: not late, verdict: not seen, calls: [{n: 1}]}
---
For people.
"""
HEALTHY = {
    "n": 30, "every": 30.0 * S, "ttft": 400.0 * MS, "ttft.queue": 20.0 * MS,
    "ttft.prefill": 300.0 * MS, "itl_p50": 20.0 * MS, "output_tokens": 20, "in_flight": 3,
    "spread": 0.1, "model": "tiny", "endpoint": "https://api.example.com/v1/chat/completions",
}  # fmt: skip
SICK = {**HEALTHY, "ttft": 1400.0 * MS, "ttft.queue": 1000.0 * MS, "in_flight": 14}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with one runbook, none of latscope's own, and files of calls."""
    monkeypatch.setattr("latscope.documents.runbooks._home", lambda: tmp_path / "none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pages").mkdir()
    page("warning")
    (tmp_path / "latscope.toml").write_text('[runbooks]\ndirs = ["pages"]\n')
    write("healthy.jsonl", HEALTHY)
    write("sick.jsonl", SICK)
    return tmp_path


def page(severity: str) -> None:
    Path("pages/late.md").write_text(PAGE.replace("SEVERITY", severity))


def write(name: str, *tables: Mapping[str, Any], seed: int = 1) -> None:
    lines(name, calls_of(tables, seed))


def lines(name: str, calls: Iterable[Mapping[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(call) + "\n" for call in calls))


def check(*arguments: str, code: int) -> None:
    assert run(["check", *arguments]) == code


def found(capsys: Capture, *arguments: str, code: int) -> dict[str, Any]:
    capsys.readouterr()
    check("--json", *arguments, code=code)
    (line,) = capsys.readouterr().out.splitlines()
    document = json.loads(line)
    assert document["schema"] == "latscope.check/1"
    (finding,) = document["findings"]
    assert isinstance(finding, dict)
    return finding


def complaint(capsys: Capture, *arguments: str, code: int) -> str:
    capsys.readouterr()
    check(*arguments, code=code)
    told = capsys.readouterr()
    assert told.out == ""
    (line,) = told.err.splitlines()
    return line


BOTH = ("sick.jsonl", "--baseline", "healthy.jsonl")


def test_an_open_finding_fails(home: Path, capsys: Capture) -> None:
    one = found(capsys, *BOTH, code=1)
    assert (one["runbook"], one["verdict"], one["segment"]) == ("late", "open", "queue")
    assert one["reference"] == "baseline file"
    assert one["actions"] == ["Send fewer than 14 at once"]
    assert one["done_when"][0]["text"] == "back at baseline"
    assert one["done_when"][0]["met"] is False
    keys = {"metric", "stat", "value", "low", "high", "baseline"}
    assert all(keys <= set(reading) for reading in one["evidence"])


def test_a_person_reads_the_same(home: Path, capsys: Capture) -> None:
    check(*BOTH, code=1)
    text = capsys.readouterr().out
    assert "✗ warning  The first token is late" in text
    assert "queue · owned by the vendor's serving platform" in text
    assert "1 open" in text


@pytest.mark.parametrize(
    ("severity", "fail_on", "code"),
    [("info", "warning", 0), ("info", "info", 1), ("critical", "critical", 1)],
)
def test_the_severity_decides(
    home: Path, capsys: Capture, severity: str, fail_on: str, code: int
) -> None:
    page(severity)
    assert found(capsys, *BOTH, "--fail-on", fail_on, code=code)["verdict"] == "open"


def test_a_healthy_file_is_fine(home: Path, capsys: Capture) -> None:
    one = found(capsys, "healthy.jsonl", "--baseline", "healthy.jsonl", code=0)
    assert one["verdict"] == "not seen"


def test_missing_evidence_counts_when_it_was_asked_for(home: Path, capsys: Capture) -> None:
    one = found(capsys, "sick.jsonl", code=0)
    assert one["verdict"] == "insufficient evidence"
    assert "--save-baseline" in one["reason"]
    found(capsys, "sick.jsonl", "--rule", "late", code=4)
    found(capsys, "sick.jsonl", "--rule", "late", "--allow-insufficient", code=0)


def test_what_was_open_before_is_resolved(home: Path, capsys: Capture) -> None:
    both = ("--baseline", "healthy.jsonl", "--before", "sick.jsonl")
    assert found(capsys, "healthy.jsonl", *both, code=0)["verdict"] == "resolved"
    assert found(capsys, "sick.jsonl", *both, code=1)["verdict"] == "open"


def test_of_another_model_there_is_no_reference(home: Path, capsys: Capture) -> None:
    write("other.jsonl", {**HEALTHY, "model": "large"})
    for option in ("--baseline", "--before"):
        line = complaint(capsys, "sick.jsonl", option, "other.jsonl", code=3)
        assert line.startswith(f"latscope: {option}: other.jsonl holds large at https://")
        assert "not tiny at https://" in line


def test_a_group_the_baseline_lacks_is_told(home: Path, capsys: Capture) -> None:
    models = [{**SICK, "model": f"m{number}"} for number in range(5)]
    write("many.jsonl", SICK, *models)
    check("many.jsonl", "--baseline", "healthy.jsonl", code=1)
    told = capsys.readouterr()
    assert told.err.splitlines()[0].startswith("latscope: --baseline: healthy.jsonl holds no call")
    assert told.err.splitlines()[-1] == "latscope: --baseline: nor of 2 other groups"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty.jsonl: holds no call; a file of calls holds one"),
        ("{}\n", "empty.jsonl:1: has no schema"),
        ("text\n", "empty.jsonl:1: not JSON; a file of calls holds"),
    ],
)
def test_a_file_without_a_call_is_unusable(
    home: Path, capsys: Capture, text: str, said: str
) -> None:
    Path("empty.jsonl").write_text(text)
    assert complaint(capsys, "empty.jsonl", code=3).startswith(f"latscope: {said}")
    told = complaint(capsys, "sick.jsonl", "--baseline", "empty.jsonl", code=3)
    assert told.startswith(f"latscope: {said}")


def test_one_call_tells_nothing_and_fails_nothing(home: Path, capsys: Capture) -> None:
    write("one.jsonl", {**SICK, "n": 1})
    one = found(capsys, "one.jsonl", "--baseline", "healthy.jsonl", code=0)
    assert one["verdict"] == "insufficient evidence"


def test_a_broken_page_is_one_line(home: Path, capsys: Capture) -> None:
    Path("pages/late.md").write_text(PAGE)
    said = complaint(capsys, *BOTH, code=3)
    assert "pages/late.md:5: severity: must be" in said
    Path("latscope.toml").write_text("")
    said = complaint(capsys, *BOTH, "--runbooks", "pages", code=3)
    assert said.startswith("latscope: pages/late.md:5: ")


def test_settings_are_looked_for_above_or_named(home: Path, capsys: Capture) -> None:
    Path("deep").mkdir()
    Path("deep/mild.toml").write_text(
        '[runbooks]\ndirs = ["../pages"]\n[runbooks.late]\nseverity = "info"\n'
    )
    assert found(capsys, *BOTH, "--config", "deep/mild.toml", code=0)["severity"] == "info"
    assert "no.toml: cannot be read" in complaint(capsys, *BOTH, "--config", "no.toml", code=3)


def test_without_a_file_or_with_a_rule_there_is_not_it_is_wrong_usage(
    home: Path, capsys: Capture
) -> None:
    assert "needs a file of calls" in complaint(capsys, code=2)
    assert "did you mean 'late'?" in complaint(capsys, *BOTH, "--rule", "lat", code=2)
    assert "no runbook 'x'" in complaint(capsys, *BOTH, "--rule", "x", code=2)
    assert "read once" in complaint(capsys, "-", "--baseline", "-", code=2)


def test_calls_can_be_chosen(home: Path, capsys: Capture) -> None:
    """Of the reference only `--where` holds: it is of another time."""
    write("both.jsonl", {**HEALTHY, "tags.kind": "a"}, {**SICK, "tags.kind": "b"})
    chosen = ("both.jsonl", "--baseline", "both.jsonl", "--where")
    assert found(capsys, *chosen, "tags.kind = b", code=0)["verdict"] == "not seen"
    calls = [json.loads(line) for line in Path("sick.jsonl").read_text().splitlines()]
    later = str(max(call["started_at"] for call in calls))
    one = found(capsys, *BOTH, "--since", later, code=0)
    assert one["calls"] == 1
    assert found(capsys, *BOTH, "--id", calls[3]["call_id"], code=0)["calls"] >= 1
    said = complaint(capsys, "sick.jsonl", "--where", "model = none", code=3)
    assert said == "latscope: sick.jsonl: no call matches what was asked for"


def test_recordings_are_attributed(home: Path, capsys: Capture) -> None:
    recording = stream(tokens(5, start=100, step=10))
    text = f"{to_line(recording)}\n"
    Path("calls.jsonl").write_text(text + Path("sick.jsonl").read_text())
    check("calls.jsonl", "--json", code=0)
    findings = json.loads(capsys.readouterr().out)["findings"]
    assert sorted(one["calls"] for one in findings) == [1, 30]
    check("calls.jsonl", "--json", "--until", "2000-01-01", code=3)


def test_what_the_server_said_meanwhile_is_read(home: Path, capsys: Capture) -> None:
    text = PAGE.replace("SEVERITY", "info")
    symptom = "ttft, stat: p50, above: {baseline: 1.3x, by: 100ms}"
    text = text.replace(symptom, "server.waiting, stat: p50, above: 3")
    Path("pages/late.md").write_text(text.replace("metric: ttft.queue", "metric: queue"))
    calls = [json.loads(line) for line in Path("sick.jsonl").read_text().splitlines()]
    series = [
        {
            "schema": "latscope.series/1",
            "at": call["started_at"],
            "source": "https://api.example.com/metrics",
            "values": {"vllm:num_requests_waiting": 9.0},
        }
        for call in calls
    ]
    lines("mixed.jsonl", [line for pair in zip(calls, series, strict=True) for line in pair])
    assert found(capsys, "mixed.jsonl", code=0)["seen"] is True
    assert found(capsys, "sick.jsonl", code=0)["seen"] is None


def test_a_line_that_cannot_be_used_is_told_and_is_not_green(home: Path, capsys: Capture) -> None:
    good = Path("healthy.jsonl").read_text()
    bad = json.dumps({**json.loads(good.splitlines()[0]), "wall_ns": -1})
    Path("some.jsonl").write_text(good + f"{bad}\n" * 12 + good.splitlines()[0])
    check("some.jsonl", "--baseline", "healthy.jsonl", code=3)
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 11
    assert err[-1] == "latscope: and 2 more lines left out"
    Path("torn.jsonl").write_text(good + good.splitlines()[0][:300])
    check("torn.jsonl", "--baseline", "healthy.jsonl", code=0)
    assert "the last line is cut off" in capsys.readouterr().err


# -- a baseline kept -------------------------------------------------------------------------------


def test_a_baseline_is_kept_and_serves(home: Path, capsys: Capture) -> None:
    check("healthy.jsonl", "--save-baseline", "kept.jsonl", code=0)
    assert "30 of 30 calls kept in kept.jsonl" in capsys.readouterr().err
    assert stat.S_IMODE(Path("kept.jsonl").stat().st_mode) == 0o600
    assert [path.name for path in home.iterdir() if path.name.startswith(".")] == []
    kept = [json.loads(line) for line in Path("kept.jsonl").read_text().splitlines()]
    assert {call["schema"] for call in kept} == {"latscope.attribution/1"}
    assert not any("money" in call for call in kept)
    assert found(capsys, "sick.jsonl", "--baseline", "kept.jsonl", code=1)["verdict"] == "open"
    check("healthy.jsonl", "--save-baseline", "kept.jsonl", code=0)  # a baseline may be renewed


def test_of_many_calls_a_fair_sample_is_kept(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole sessions, each call saying how many it stands for; every group for itself."""
    monkeypatch.setattr(baseline, "MOST", 40)
    calls = calls_of([{**HEALTHY, "n": 300}], 1)
    sessions = [{**call, "session_id": f"s{at // 5}"} for at, call in enumerate(calls)]
    other = calls_of([{**HEALTHY, "model": "large", "n": 10}], 1)
    lines("many.jsonl", [*sessions, *other])
    check("many.jsonl", "--save-baseline", "kept.jsonl", code=0)
    kept = [json.loads(line) for line in Path("kept.jsonl").read_text().splitlines()]
    mine = [call for call in kept if call["model"] == "tiny"]
    assert 10 <= len(mine) <= 40
    names = [call["session_id"] for call in mine]
    assert all(names.count(name) == 5 for name in names)
    assert sum(1 / call["sample"]["rate"] for call in mine) == pytest.approx(300)
    rest = [call for call in kept if call["model"] == "large"]
    assert [call["sample"]["rate"] for call in rest] == [1.0] * 10


def test_of_one_long_session_single_calls_are_kept(
    home: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(baseline, "MOST", 40)
    calls = calls_of([{**HEALTHY, "n": 300}], 1)
    lines("many.jsonl", [{**call, "session_id": "s"} for call in calls])
    check("many.jsonl", "--save-baseline", "kept.jsonl", code=0)
    assert 10 <= len(Path("kept.jsonl").read_text().splitlines()) <= 40


def test_nothing_else_is_overwritten(home: Path, capsys: Capture) -> None:
    Path("notes.txt").write_text("mine")
    for target, said in (
        ("healthy.jsonl", "is a file that is read"),
        ("notes.txt", "holds no baseline"),
        ("pages", "give a file in a folder that is there"),
        ("absent/kept.jsonl", "give a file in a folder that is there"),
    ):
        assert said in complaint(capsys, "healthy.jsonl", "--save-baseline", target, code=2)
    before = ("--before", "sick.jsonl", "--save-baseline", "sick.jsonl")
    assert "is a file that is read" in complaint(capsys, "healthy.jsonl", *before, code=2)
    assert Path("notes.txt").read_text() == "mine"


# -- pipelines -------------------------------------------------------------------------------------


def test_a_pipeline_is_told_in_its_own_words(home: Path, capsys: Capture) -> None:
    check(*BOTH, "--github", "--junit", "out.xml", code=1)
    out = capsys.readouterr().out.splitlines()
    assert [line for line in out if line.startswith("::warning title=The first token is late::")]
    root = ElementTree.fromstring(Path("out.xml").read_bytes())
    assert root.attrib["failures"] == "1"
    check(*BOTH, "--github", "--json", code=1)
    told = capsys.readouterr()
    assert len(told.out.splitlines()) == 1
    assert told.err.startswith("::warning ")
    check(*BOTH, "--junit", "absent/out.xml", code=3)
    assert "--junit: absent/out.xml cannot be written" in capsys.readouterr().err


def test_the_runbooks_are_listed(home: Path, capsys: Capture) -> None:
    check("--list", "--json", code=0)
    assert json.loads(capsys.readouterr().out) == {
        "schema": "latscope.runbooks/1",
        "runbooks": [
            {
                "id": "late",
                "title": "The first token is late",
                "severity": "warning",
                "fires": 1,
                "silent": 1,
            }
        ],
    }
    check("--list", code=0)
    assert capsys.readouterr().out.splitlines() == [
        "severity  fires  silent  id    title",
        "warning       1       1  late  The first token is late",
        "fires, silent: of its cases, how many make it open and how many leave it alone",
    ]
    Path("latscope.toml").write_text("")
    check("--list", code=0)
    assert capsys.readouterr().out == "no runbooks\n"


def test_a_raised_cap_warns(home: Path, capsys: Capture) -> None:
    write("capped.jsonl", {**HEALTHY, "max_output_tokens": 256})
    write("raised.jsonl", {**HEALTHY, "max_output_tokens": 4096})
    both = ("raised.jsonl", "--checklist", "--baseline", "capped.jsonl")
    check(*both, "--github", code=1)
    out = capsys.readouterr().out
    assert "✗ No output cap was raised or removed" in out
    assert "raised from 256" in out
    warning = next(line for line in out.splitlines() if line.startswith("::warning "))
    assert "tiny at https" in warning
    check(*both, "--json", code=1)
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "latscope.checklist/1"
    assert set(document["items"][0]) == {"id", "text", "met", "why", "warns"}
    check(*both, "--fail-on", "critical", code=0)
    check("capped.jsonl", "--checklist", "--baseline", "capped.jsonl", code=0)
    assert " met" in capsys.readouterr().out
    check("capped.jsonl", "--checklist", "--fail-on", "info", code=1)
