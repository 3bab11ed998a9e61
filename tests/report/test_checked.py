"""Findings for machines: the JSON document, GitHub annotations, JUnit XML, exit codes."""

import json
from dataclasses import replace
from xml.etree import ElementTree

from latscope.report import checked
from latscope.rules.finding import Finding
from tests.report.test_findings import ALL, LESS, OPEN, UNSEEN, reading, unsure


def test_the_document_holds_every_field_and_no_number_json_lacks() -> None:
    endless = replace(OPEN, evidence=(reading(high=float("inf"), low=float("nan")),))
    found = checked.document([UNSEEN, endless])
    assert found["schema"] == "latscope.check/1"
    first = found["findings"][0]
    assert set(first) == set(Finding.__dataclass_fields__)
    assert list(first)[:4] == ["runbook", "title", "verdict", "severity"]
    text = json.dumps(found, allow_nan=False)
    assert json.loads(text) == json.loads(json.dumps(found))
    assert first["evidence"][0]["high"] is None
    assert first["done_when"][0] == {"text": "TTFT p50 is back", "met": False, "readings": []}
    assert [one["verdict"] for one in found["findings"]] == ["open", "not seen"]


def test_what_fails_is_open_and_severe_enough() -> None:
    assert checked.fails(OPEN, "critical")
    assert not checked.fails(LESS, "critical")
    assert checked.fails(LESS, "warning")
    assert not checked.fails(UNSEEN, "info")


def test_missing_evidence_counts_when_seen_or_asked_for() -> None:
    seen, unseen = unsure("a", True, ""), unsure("b", None, "")
    assert checked.lacks(seen, "warning")
    assert not checked.lacks(unseen, "warning")
    assert checked.lacks(replace(unseen, asked=True), "critical")
    mild = replace(seen, severity="info")
    assert not checked.lacks(mild, "warning")
    assert checked.lacks(mild, "info")
    assert not checked.lacks(OPEN, "info")


def test_annotations_cannot_be_broken_out_of() -> None:
    """A title or message with a line end or a command in it stays one line, as data."""
    nasty = replace(
        OPEN, title="100 %: a, b\n::error::x", reason="line\r\n::warning::y", actions=("do % it",)
    )
    lines = list(checked.annotations([nasty, LESS, *ALL], "warning"))
    assert all("\n" not in line and "\r" not in line for line in lines)
    assert lines[0].startswith(
        "::error title=100 %25%3A a%2C b%0A%3A%3Aerror%3A%3Ax::tiny at https"
    )
    assert "%0D%0A::warning::y" in lines[0]
    assert "do %25 it" in lines[0]
    kinds = [line.split()[0] for line in lines]
    assert kinds == ["::error", "::error", "::warning", "::warning", "::warning"]
    assert lines[-1].startswith("::warning title=insufficient evidence%3A First token")


def test_junit_has_a_case_for_each_rule_and_group() -> None:
    rude = replace(OPEN, reason="a \x00 b <&> \ud800", title='"quoted" <b>')
    text = checked.junit([*ALL, rude], "critical")
    root = ElementTree.fromstring(text.encode())
    assert root.attrib == {
        "name": "latscope check",
        "tests": "8",
        "failures": "2",
        "errors": "1",
        "skipped": "2",
    }
    (suite,) = root
    by_name = {case.attrib["classname"]: case for case in suite}
    assert {child.tag for child in by_name["less"]} == {"system-out"}
    assert by_name["c"].find("error") is not None
    assert by_name["a"].find("skipped") is not None
    failure = by_name["slow-first-token"].find("failure")
    assert failure is not None
    assert failure.attrib["type"] == "critical"
    assert by_name["unseen"].find("system-out") is not None


def test_junit_counts_missing_evidence_as_an_error_unless_it_is_allowed() -> None:
    asked = replace(unsure("c", True, "too few"), asked=True)
    strict = ElementTree.fromstring(checked.junit([asked], "warning").encode())
    assert (strict.attrib["errors"], strict.attrib["skipped"]) == ("1", "0")
    lenient = ElementTree.fromstring(checked.junit([asked], "warning", lenient=True).encode())
    assert (lenient.attrib["errors"], lenient.attrib["skipped"]) == ("0", "1")
