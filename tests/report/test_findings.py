"""Findings as text: what comes first, what stands where, nothing wider than the screen."""

from dataclasses import replace

import pytest

from latscope.report.findings import finding_lines, moved_ns, ranked
from latscope.report.readings import figure, shown
from latscope.rules.finding import CauseFound, DoneFound, Finding, Reading
from latscope.units import MS, US, S


def reading(metric: str = "ttft", holds: bool | None = True, **more: object) -> Reading:
    given: dict[str, object] = {
        "stat": "p95", "unit": "ns", "value": 1420.0 * MS, "low": 1310.0 * MS,
        "high": 1550.0 * MS, "baseline": 402.0 * MS, "n": 240, "wanted": "above 1.3x the baseline",
    }  # fmt: skip
    return Reading(metric=metric, holds=holds, **{**given, **more})  # type: ignore[arg-type]


QUEUE = CauseFound(
    id="queue",
    says="calls wait longer for their turn",
    segment="queue | prefill",
    named=True,
    moved_ns=980.0 * MS,
    readings=(reading("ttft.queue+prefill"),),
)
CACHE = CauseFound(
    id="cache",
    says="the prefix cache misses",
    segment="prefill",
    named=None,
    moved_ns=None,
    readings=(reading("cached_share", None, unit="share", value=None, why="no call tells it"),),
    collect="ask for usage on streams",
)
PROMPT = CauseFound(
    id="prompt",
    says="prompts grew",
    segment="prefill",
    named=False,
    moved_ns=None,
    readings=(reading("input_tokens", False, unit="tokens", value=812.0, baseline=800.0),),
)
ALSO = replace(PROMPT, id="also", says="prompts grew too")
SKIPPED = replace(PROMPT, id="skipped", says="never looked at", readings=())
OPEN = Finding(
    runbook="slow-first-token",
    title="First token takes forever, then it flows",
    verdict="open",
    severity="critical",
    segment="queue | prefill",
    evidence=(reading(), *QUEUE.readings, *CACHE.readings, *PROMPT.readings),
    actions=("Lower the calls in flight below 14", "Ask for a priority tier"),
    done_when=(
        DoneFound(text="TTFT p50 is back", met=False),
        DoneFound(text="data names it", met=True),
        DoneFound(text="nothing is refused", met=None),
    ),
    causes=(QUEUE, CACHE, PROMPT, ALSO, SKIPPED),
    calls=240,
    reference="baseline file",
    seen=True,
    model="tiny",
    endpoint="https://api.example.com/v1/chat/completions",
)
LESS = replace(OPEN, runbook="less", severity="warning", causes=(), segment=None, evidence=())
RESOLVED = replace(OPEN, runbook="storm", title="Retries", verdict="resolved", actions=())
UNSEEN = replace(OPEN, runbook="unseen", verdict="not seen", seen=False)


def unsure(name: str, seen: bool | None, reason: str, *collect: str) -> Finding:
    verdict = "insufficient evidence"
    given = replace(OPEN, runbook=name, verdict=verdict, seen=seen, reason=reason, collect=collect)  # type: ignore[arg-type]
    return replace(given, causes=(), actions=())


ALL = [
    UNSEEN, unsure("a", None, "needs about 9 more calls"), LESS, RESOLVED, OPEN,
    unsure("b", None, "needs about 7 more calls"), unsure("c", True, "too few", "keep recording"),
]  # fmt: skip


def told(*found: Finding, width: int = 100, mode: bool = True) -> list[str]:
    key = (OPEN.model, OPEN.endpoint)
    modes = {key: "vendor"} if mode else {}
    made = finding_lines(found, width=width, colours=False, modes=modes)  # type: ignore[arg-type]
    return [line.plain.rstrip() for line in made]


def test_open_ones_come_first_the_most_severe_in_front() -> None:
    names = [found.runbook for found in ranked(ALL)]
    assert names == ["slow-first-token", "less", "storm", "c", "a", "b", "unseen"]
    more = replace(LESS, runbook="more", causes=(replace(QUEUE, moved_ns=1.0 * S),))
    assert [found.runbook for found in ranked([LESS, more])] == ["more", "less"]
    assert moved_ns(LESS) == 0


def test_an_open_finding_tells_whose_it_is_by_what_and_what_to_do() -> None:
    lines = told(OPEN)
    assert lines[0].startswith("✗ critical  First token takes forever, then it flows")
    assert lines[0].endswith("slow-first-token")
    facts = ["tiny at https://api.example.com/v1/chat/completions", "240 calls"]
    assert " ".join(lines[1:3]).split(" · ")[:2] == [f"  {facts[0]}", facts[1]]
    assert "against the baseline file" in " ".join(" ".join(lines[1:3]).split())
    text = "\n".join(lines)
    assert "  queue | prefill" in text
    assert "owned by the vendor's serving platform or the vendor's model serving process" in text
    assert "not told apart from here" in " ".join(text.split())
    row = next(line for line in lines if line.startswith("  ● ttft p95"))
    wanted = "● ttft p95 1.42 s 1.31–1.55 s 402 ms above 1.3x"
    assert " ".join(row.split()) == wanted
    assert "  1 calls wait longer for their turn  +980 ms  queue | prefill" in lines
    perhaps = "  perhaps ? the prefix cache misses (no call tells it). ask for usage on streams"
    assert perhaps in lines
    assert (
        "  not     ○ prompts grew; prompts grew too: input_tokens p95 812 (reference 800)" in lines
    )
    assert "never looked at" not in text
    assert "  do      1 Lower the calls in flight below 14" in lines
    assert "          2 Ask for a priority tier" in lines
    assert lines[-5:-2] == [
        "  done    ✗ TTFT p50 is back",
        "          ✓ data names it",
        "          ? nothing is refused",
    ]
    assert lines[-1] == "1 open"


def test_without_a_segment_or_readings_nothing_is_made_up() -> None:
    lines = told(LESS, mode=False)
    assert not [line for line in lines if "owned by" in line or "now" in line.split()]


def test_a_resolved_finding_shows_what_is_met() -> None:
    lines = told(RESOLVED)
    assert lines[0].startswith("✓ resolved  Retries")
    assert "  done    ✗ TTFT p50 is back" in lines


def test_what_cannot_be_told_takes_a_line() -> None:
    """Rules that lack the same share one; what counts comes first and is named so."""
    lines = told(*ALL)
    at = lines.index("? insufficient evidence  c: too few; keep recording")
    assert lines[at + 1] == "? cannot tell  a, b: needs about 9 more calls"
    assert lines[-1] == "2 open · 1 resolved · 3 insufficient evidence · 1 not seen"


def test_nothing_looked_at_is_told() -> None:
    assert told() == ["— no rule was looked at"]


@pytest.mark.parametrize("width", [60, 75, 90, 100, 160])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    long = replace(
        OPEN,
        title="A title " * 20,
        causes=(replace(QUEUE, says="so many words " * 6), CACHE, PROMPT),
        evidence=(reading("a.long.name.of.a.metric", where="idle_before > 5s and reused = false"),),
    )
    for line in told(long, *ALL, width=width):
        assert len(line) <= width


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, ("ttft p95", "1.42 s", "1.31–1.55 s", "402 ms")),
        ({"value": None}, ("ttft p95", "—", "", "402 ms")),
        ({"baseline": None, "low": None}, ("ttft p95", "1.42 s", "", "")),
        ({"low": 1420.0 * MS, "high": 1420.0 * MS}, ("ttft p95", "1.42 s", "", "402 ms")),
        ({"where": "reused"}, ("ttft p95 where reused", "1.42 s", "1.31–1.55 s", "402 ms")),
        (
            {"stat": "slope", "value": -2.0 * MS, "low": -3.0 * MS, "high": 1.0 * MS},
            ("ttft slope", "-2.0 ms each", "-3.0 to 1.0 ms", "402 ms each"),
        ),
        (
            {"stat": "value", "low": 900.0 * MS, "high": 1.1 * S},
            ("ttft", "1.42 s", "900 ms–1.10 s", "402 ms"),
        ),
    ],
)
def test_a_reading_keeps_its_unit(given: dict[str, object], said: tuple[str, ...]) -> None:
    cell = shown(reading(**given))  # type: ignore[arg-type]
    assert (cell.name, cell.value, cell.interval, cell.other) == said


@pytest.mark.parametrize(
    ("unit", "stat", "value", "said"),
    [
        ("ns", "p50", 0.0, "0"),
        ("ns", "p50", 250.0 * US, "250 µs"),
        ("truth", "share", 0.42, "42 %"),
        ("truth", "share", 0.021, "2.1 %"),
        ("truth", "n", 12.0, "12"),
        ("truth", "rate", 3.5, "3.5/h"),
        ("per_hour", "value", 12345.0, "12 345/h"),
        ("bytes", "mean", 1536.0, "1 536 B"),
        ("tokens", "p50", 0.25, "0.25"),
        ("money", "sum", 12.5, "$12.50"),
        ("money", "mean", 0.0123, "$0.0123"),
        ("money", "mean", 0.000012, "$0.000012"),
    ],
)
def test_a_figure_is_told_in_its_unit(unit: str, stat: str, value: float, said: str) -> None:
    assert figure(value, reading(unit=unit, stat=stat)) == said
