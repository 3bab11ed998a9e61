"""Pages: what is read of them, and that every fault is one line with file, line and what to do."""

from pathlib import Path

import jsonschema
import pytest

from latscope.documents import runbooks
from latscope.errors import InputError
from latscope.rules.runbook import Bound, Condition

PAGE = """\
---
schema: latscope.runbook/1
id: slow-first-token
title: The first token is late
severity: critical
needs: [ttft]
where: streamed = true
opens_if:
  - {metric: wall_ns, stat: p50, near: {baseline: 15%}, otherwise: traffic grew}
symptom:
  - {metric: ttft, stat: p95, above: {baseline: 1.3x, by: 100ms}, sure: 95%}
  - {metric: uncapped, stat: share, above: 5%}
evidence:
  - id: queue
    says: calls wait longer
    segment: queue
    if:
      - {metric: queue, stat: p50, above: 500ms, where: reused = false, least: 7}
    moves: ttft.queue p50
    collect: the server's own times
  - id: unsplit
    says: it waits or reads
    segment: queue | prefill
    unless: [queue]
    if:
      - {metric: ttft, stat: slope, along: started_ns, above: {floor: 1.5x}}
      - {metric: ttft, stat: p50, above: {where: reused = false, times: 1.5, by: 50ms}}
      - {metric: ttft, stat: p50, below: {metric: e2e, times: 0.9}}
      - {metric: streamed, stat: share, is: true}
      - {metric: ttft, stat: p50, apart: {value: 1s, by: 20ms}}
actions:
  - {do: "Keep calls in flight below {in_flight.p50}", cause: queue}
  - {do: Turn proxy_buffering off, where: hops ~ nginx}
done_when:
  - text: back at baseline
    if: [{metric: ttft, stat: p50, near: {baseline: 10%}}]
cases:
  - says: the queue grew
    verdict: open
    segment: queue
    causes: [queue]
    calls:
      - {n: 80, every: 30s, ttft: 1.4s, itl_p50: [20ms, 21ms], model: "4ms", spread: 20%}
---

# For people

Text.
"""


def wrong(old: str, new: str) -> str:
    """What is said of the page with one thing changed."""
    assert PAGE.count(old) == 1, old
    with pytest.raises(InputError) as caught:
        runbooks.read_text(PAGE.replace(old, new), where="x.md")
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_page_is_read_word_for_word() -> None:
    page = runbooks.read_text(PAGE, where="x.md")
    assert (page.id, page.severity, page.scope) == ("slow-first-token", "critical", "group")
    assert page.modes == ("vendor", "self-hosted", "on-device")
    assert page.body == "# For people\n\nText.\n"
    assert page.symptom[0] == Condition(
        metric="ttft",
        stat="p95",
        how="above",
        bound=Bound(against="baseline", times=1.3, by=1e8),
        sure=0.95,
    )
    assert page.symptom[1].bound == Bound(against="value", value=0.05)
    assert page.opens_if[0].bound.times == pytest.approx(1.15)
    assert page.opens_if[0].otherwise == "traffic grew"
    queue, unsplit = page.evidence
    assert queue.moves == ("ttft.queue", "p50")
    assert (queue.conditions[0].where, queue.conditions[0].least) == ("reused = false", 7)
    assert unsplit.unless == ("queue",)
    assert [one.bound for one in unsplit.conditions] == [
        Bound(against="floor", times=1.5),
        Bound(against="where", where="reused = false", times=1.5, by=5e7),
        Bound(against="metric", metric="e2e", times=0.9),
        Bound(against="value", value=1),
        Bound(against="value", value=1e9, by=2e7),
    ]
    assert page.actions[1].where == "hops ~ nginx"
    (table,) = page.cases[0].calls
    assert table["ttft"] == 1.4e9
    assert table["itl_p50"] == [2e7, 2.1e7]
    assert (table["n"], table["spread"]) == (80, 0.2)


def test_words_that_yaml_1_1_takes_for_truths_are_texts() -> None:
    page = runbooks.read_text(PAGE.replace("title: The first token is late", "title: off"))
    assert page.title == "off"


FAULTS = [
    ("severity: critical", "severity: bad", "x.md:5: severity: must be 'info', 'warning' or"),
    ("needs: [ttft]", "needs: [tftt]", "x.md:6: needs 1: no metric 'tftt'; did you mean ttft"),
    ("where: streamed = true", "where: stremed = true", "x.md:7: where: no metric 'stremed'; did"),
    ("where: streamed = true", "where: streamed =", "x.md:7: where: expected a value at character"),
    ("symptom:", "symtom:", "x.md:10: symtom: no such key; did you mean 'symptom'?"),
    ("by: 100ms", "bye: 100ms", "x.md:11: symptom 1, above, bye: no such key; did you mean 'by'?"),
    ("by: 100ms", "by: 100", "x.md:11: symptom 1, above, by: 100 has no unit of time; write 500ms"),
    ("by: 100ms", "by: -1ms", "x.md:11: symptom 1, above, by: must not be negative"),
    ("stat: p95", "stat: p90", "x.md:11: symptom 1, stat: must be 'p50', 'p95'"),
    ("sure: 95%", "sure: 100%", "x.md:11: symptom 1, sure: must be from 0 to below 100%"),
    ("{baseline: 1.3x, by: 100ms}", "{by: 100ms}", "x.md:11: symptom 1, above: names nothing to"),
    ("above: 5%", "above: 5ms", "x.md:12: symptom 2, above: 5ms is a time, and this figure is"),
    ("above: 5%", "above: five", "x.md:12: symptom 2, above: no number with a unit; write 500ms"),
    ("above: 5%", "abov: 5%", "x.md:12: symptom 2, abov: no such key; did you mean 'above'?"),
    ("above: 5%", "above: 5%, below: 9%", "x.md:12: symptom 2: a condition that has above and"),
    (", above: 5%", "", "x.md:12: symptom 2: a condition that compares with nothing; give one of"),
    ("stat: share, above", "stat: value, above", "x.md:12: symptom 2, stat: uncapped is a figure"),
    ("{baseline: 15%}", "{baseline: 0.5x}", "x.md:9: opens_if 1, near, baseline: near needs how"),
    ("{value: 1s, by: 20ms}", "{value: 1s}", "x.md:30: evidence 2, if 5, apart: apart needs how"),
    ("least: 7", "least: 0", "x.md:18: evidence 1, if 1, least: must be greater than or equal"),
    ("moves: ttft.queue p50", "moves: p50", "x.md:19: evidence 1, moves: needs a metric and a"),
    ("unless: [queue]", "unless: [que]", "x.md:24: evidence 2, unless 1: no cause 'que' on this"),
    ("unless: [queue]", "unless: [unsplit]", "x.md:24: evidence 2, unless 1: 'unsplit' is looked"),
    (", along: started_ns", "", "x.md:26: evidence 2, if 1: a slope needs along"),
    ("stat: slope", "stat: p50", "x.md:26: evidence 2, if 1, along: only a slope has an along"),
    ("id: unsplit", "id: queue", "x.md:21: evidence 2, id: a second cause 'queue'; rename one"),
    ("{floor: 1.5x}", "{floor: 15ms}", "x.md:26: evidence 2, if 1, above, floor: 15ms is no"),
    ("{floor: 1.5x}", "{floor: 1x, times: 2}", "x.md:26: evidence 2, if 1, above, times: the"),
    ("cause: queue}", "cause: quue}", "x.md:32: actions 1, cause: no cause 'quue' on this page"),
    ("{in_flight.p50}", "{in_flight}", "x.md:32: actions 1, do: {in_flight} names no statistic"),
    ("{in_flight.p50}", "{inflight.p50}", "x.md:32: actions 1, do: no metric 'inflight'; did"),
    ("verdict: open", "verdict: opened", "x.md:39: cases 1, verdict: must be 'open', 'resolved'"),
    ("causes: [queue]", "causes: [q]", "x.md:41: cases 1, causes 1: no cause 'q' on this page"),
    ("id: slow-first-token", "id: Slow", "x.md:3: id: 'Slow' is no id; write words like"),
    ("title: The first token is late\n", "", "x.md:2: title: is missing; add it"),
    ("runbook/1", "runbook/2", "x.md:2: schema: must be 'latscope.runbook/1'"),
    ("title: The", "id: again\ntitle: The", "x.md:4: id a second time; keep one of them"),
    ("needs: [ttft]", "needs: [ttft", "x.md:7: not YAML: "),
    ("needs: [ttft]", "needs: \x01", "x.md:2: not YAML: a character that YAML does not allow"),
    ("needs: [ttft]", "? [a]\n: b", "x.md:6: a key that is no word; write NAME: VALUE"),
    ("needs: [ttft]", "needs: &a [*a]", "x.md:6: more than 12 levels deep; "),
    ("needs: [ttft]", "needs: !!python/name:os.system", "x.md:6: needs: must be"),
]


@pytest.mark.parametrize(("old", "new", "said"), FAULTS, ids=lambda text: text[:40])
def test_a_fault_is_told_with_its_line(old: str, new: str, said: str) -> None:
    assert wrong(old, new).startswith(said)


def test_a_text_metric_is_for_where_alone() -> None:
    told = wrong("metric: uncapped, stat: share", "metric: model, stat: share")
    assert told.startswith("x.md:12: symptom 2, metric: model is a text")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "x.md:1: no front matter; a runbook is a Markdown page that begins with ---"),
        ("# Title\n", "x.md:1: no front matter; "),
        ("---\nid: a\n", "x.md:2: the front matter has no end; close it with ---"),
        ("---\n- a\n---\n", "x.md:2: the front matter is no mapping; "),
        ("---\n---\n", "x.md:2: the front matter is no mapping; "),
    ],
)
def test_what_is_no_page_is_told(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        runbooks.read_text(text, where="x.md")
    assert str(caught.value).startswith(said)


def test_files_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    latin = tmp_path / "latin.md"
    latin.write_bytes(b"---\nid: a\ntitle: \xe9\n---\n")
    large = tmp_path / "large.md"
    large.write_text(PAGE + "x" * 1_000_000)
    for path, said in (
        (tmp_path / "none.md", "cannot be read: No such file"),
        (latin, f"{latin}:3: not UTF-8"),
        (large, "bytes is no page"),
    ):
        with pytest.raises(InputError, match=said):
            runbooks.read(path)


def test_a_folder_gives_its_pages_by_name(tmp_path: Path) -> None:
    """README.md and what is no Markdown are none."""
    for name in ("b.md", "a.md", "README.md", "notes.txt"):
        text = PAGE.replace("id: slow-first-token", f"id: {name[0]}") if len(name) == 4 else "no"
        (tmp_path / name).write_text(text)
    assert [source.id for source in runbooks.folder(tmp_path)] == ["a", "b"]
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no runbook"):
        runbooks.folder(tmp_path / "empty")
    with pytest.raises(InputError, match="no folder of runbooks"):
        runbooks.folder(tmp_path / "absent")


def test_two_pages_with_one_id_are_told(tmp_path: Path) -> None:
    for name in ("a.md", "b.md"):
        (tmp_path / name).write_text(PAGE)
    with pytest.raises(InputError, match=r"b\.md:3: a second page with the id 'slow-first-token'"):
        runbooks.every_one_once(runbooks.folder(tmp_path))


def test_a_page_of_latscopes_own_needs_its_cases() -> None:
    page = runbooks.read_text(PAGE)
    assert runbooks.counts(page) == (1, 0)
    assert str(runbooks.wanting(page)).startswith("0 of 2 cases in which it stays silent")
    silent = "  - {says: quiet, verdict: not seen, calls: [{n: 1}]}\n"
    both = PAGE.replace("cases:\n", "cases:\n" + 2 * silent)
    assert runbooks.wanting(runbooks.read_text(both)) is None
    never = both.replace("verdict: open", "verdict: resolved")
    assert str(runbooks.wanting(runbooks.read_text(never))).startswith("no case in which it is")


# -- the schema ------------------------------------------------------------------------------------


def _faults(text: str) -> list[str]:
    validator = jsonschema.Draft202012Validator(runbooks.schema())
    return [error.message for error in validator.iter_errors(runbooks.parsed(text, "x.md").plain)]


def test_the_schema_is_one_and_accepts_the_page() -> None:
    jsonschema.Draft202012Validator.check_schema(runbooks.schema())
    assert _faults(PAGE) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("severity: critical", "severity: bad"),
        ("by: 100ms", "bye: 100ms"),
        ("above: 5%", "above: five"),
        ("above: 5%", "above: 5%, below: 9%"),
        ("{baseline: 15%}", "{by: 15ms}"),
        ("title: The first token is late\n", ""),
        ("unless: [queue]", "unless: [Queue!]"),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(old: str, new: str) -> None:
    wrong(old, new)
    assert _faults(PAGE.replace(old, new))
