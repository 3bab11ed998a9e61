"""`latscope claims`: one row a claim and source, exit codes, what is said before it is sent."""

import io
import json
import re
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latscope.claims import cost
from latscope.claims.model import CLAIMS, VERDICTS, Row, document
from latscope.cli.main import run
from latscope.recording import to_line
from latscope.report.claims import claims_lines
from latscope.sim.fleet import recordings as recorded
from latscope.sim.fleet.arrivals import Call
from latscope.sim.fleet.engine import Cost, Fleet, simulate
from latscope.units import MS, S
from tests.cli.test_commands import child
from tests.probe.scripted import error, good, serving

Capture = pytest.CaptureFixture[str]
COST = ["--source", "cost"]
FILE = ["--source", "file"]
LEAST = ["--requests", "33"]


def told(capsys: Capture, *arguments: str, code: int = 0) -> dict[str, Any]:
    assert run(["claims", "--json", *arguments]) == code
    (line,) = capsys.readouterr().out.splitlines()
    found: dict[str, Any] = json.loads(line)
    return found


def rows(found: dict[str, Any]) -> dict[tuple[str, str], dict[str, Any]]:
    return {(row["id"], row["source"]): row for row in found["claims"]}


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty calls one at a time, on a server that reads a token in a tenth of what it computes it
    in; they never meet, so nothing is known of batches."""
    asked = [(prompt, output) for prompt in (64, 256, 512, 1024) for output in (8, 24)] * 5
    arrivals = [Call(at * 100 * S, *lengths, lengths[1]) for at, lengths in enumerate(asked)]
    cost = Cost(prefill=0.1 * MS, kv=0.01 * MS)
    ran = simulate(Fleet(cost=cost), arrivals, trace=range(len(arrivals)))
    file = tmp_path_factory.mktemp("claims") / "calls.jsonl"
    made = recorded.recordings(ran, recorded.Path(rtt_ns=MS, metrics=True))
    file.write_text("".join(f"{to_line(recording)}\n" for recording in made))
    return file


def test_without_arguments_both_models_are_told(capsys: Capture) -> None:
    """One row a claim and source, exactly the keys of the format."""
    found = told(capsys)
    assert found["schema"] == "latscope.claims/1"
    assert list(rows(found)) == [
        (claim, source) for claim in CLAIMS for source in ("cost", "fleet")
    ]
    for row in found["claims"]:
        assert list(row) == ["id", "source", "slope", "low", "high", "verdict", "note"]
        assert row["verdict"] in VERDICTS
    assert rows(found)["step-grows-with-context", "fleet"]["slope"] == 5e-05
    assert found["units"]["step-grows-with-context"] == {
        "cost": "units a step per context token",
        "fleet": "ms a step per context token",
    }


def test_recorded_calls_are_told(calls: Path, capsys: Capture) -> None:
    """The server's own constants, found from its recordings: ten to one."""
    found = rows(told(capsys, str(calls), *FILE))
    assert len(found) == len(CLAIMS)
    step = found["step-grows-with-context", "file"]
    assert step["slope"] == pytest.approx(0.01, rel=1e-3)
    ratio = found["recompute-to-read-ratio", "file"]
    assert ratio["slope"] == pytest.approx(10, rel=0.1)
    assert "teaching constant is 12" in ratio["note"]
    assert found["batching-raises-throughput", "file"]["verdict"] == "insufficient evidence"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--claim", "cache-leaves-ttft", *COST], 0),
        (["--claim", "batching-raises-throughput", *COST], 4),
        (["--claim", "batching-raises-throughput", *COST, "--allow-insufficient"], 0),
        (["--claim", "cache-leaves-ttft", "--claim", "batching-raises-throughput", *COST], 4),
        ([*COST], 0),
        ([*COST, "--strict"], 0),
    ],
)
def test_exit_codes_of_open_claims(arguments: list[str], code: int, capsys: Capture) -> None:
    """Only a claim that was asked for by name, and that nothing there could tell."""
    told(capsys, *arguments, code=code)


def test_a_source_that_cannot_tell_does_not_open_a_claim(calls: Path, capsys: Capture) -> None:
    """The recordings can never show a server without its cache; the cost model can. But where a
    source could have told and does not, the claim is open."""
    told(capsys, str(calls), *FILE, *COST, "--claim", "cache-leaves-ttft")
    told(capsys, str(calls), *FILE, "--claim", "cache-leaves-ttft", code=4)
    told(capsys, str(calls), *FILE, *COST, "--claim", "batching-raises-throughput", code=4)


def test_strict_fails_with_a_claim(
    calls: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1, which outranks 4; without --strict a failed claim is a result like any other."""

    def failing() -> list[Row]:
        return [
            Row(id="cache-leaves-ttft", source="cost", unit="", slope=2, low=2, high=2,
                verdict="fails", note="broken"),
            Row(id="e2e-is-ttft-plus-steps", source="cost", unit="", slope=None, low=None,
                high=None, verdict="insufficient evidence", note="nothing"),
        ]  # fmt: skip

    monkeypatch.setattr(cost, "rows", failing)
    told(capsys, *COST)
    told(capsys, *COST, "--strict", "--claim", "e2e-is-ttft-plus-steps", code=4)
    told(capsys, *COST, "--strict", code=1)
    asked = ["--claim", "e2e-is-ttft-plus-steps", "--claim", "cache-leaves-ttft"]
    told(capsys, *COST, "--strict", *asked, code=1)


def test_one_model_at_a_time(calls: Path, tmp_path: Path, capsys: Capture) -> None:
    """The one with most calls, and that is said; --where chooses."""
    lines = calls.read_text().splitlines()
    file = tmp_path / "two.jsonl"
    file.write_text("\n".join([*lines, *(line.replace("fleet", "other") for line in lines[:9])]))
    assert run(["claims", str(file), *FILE]) == 0
    assert "40 of 49 calls judged, those of fleet at" in capsys.readouterr().err
    assert run(["claims", str(file), *FILE, "--where", "model=other"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "9 calls" in out


def test_lines_that_cannot_be_used_are_said(calls: Path, tmp_path: Path, capsys: Capture) -> None:
    """The first ten, then a count."""
    file = tmp_path / "torn.jsonl"
    good_lines = calls.read_text()
    file.write_text(good_lines + "{torn\n" * 15)
    assert run(["claims", str(file), *FILE]) == 0
    err = capsys.readouterr().err.splitlines()
    assert len(err) == 11
    assert err[-1] == "latscope: and 5 more lines left out"


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["--url", "http://127.0.0.1:9"], 2, "--url needs --model"),
        (["--url", "http://127.0.0.1:9", "--model", " "], 2, "--url needs --model"),
        (["--url", "nonsense", "--model", "m"], 2, "unknown target 'nonsense'"),
        (["--url", "http://h", "--model", "m", "--timeout", "nan"], 2, "--timeout needs a finite"),
        (["--url", "http://h", "--model", "m", "--requests", "9"], 2, "--requests: at least 33"),
        (["--url", "http://h", "--model", "m", "--longest", "9"], 2, "--longest: from 240"),
        (["--model", "m"], 2, "--model is for --url"),
        (["--save", "x"], 2, "--save is for --url"),
        (["--key-env", "x"], 2, "--key-env is for --url"),
        (["--source", "url"], 2, "--source url needs --url"),
        (["--source", "file"], 2, "--source file needs a FILE of recordings"),
        (["--id", "x"], 2, "--id chooses among recorded calls: give a FILE"),
        (["--where", "x=1"], 2, "--where chooses among recorded calls: give a FILE"),
        (["--claim", "nonsense"], 2, "'nonsense' is not one of"),
        (["/nonsense", *FILE], 3, "/nonsense: cannot be read"),
        (["--url", "http://127.0.0.1:9", "--model", "m", "--source", "url"], 3, "127.0.0.1:9"),
    ],
)
def test_wrong_usage_is_one_clear_line(
    arguments: list[str], code: int, line: str, capsys: Capture
) -> None:
    """The last line on stderr says what to do; nothing on stdout."""
    assert run(["claims", *arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert line in err.splitlines()[-1]


def test_no_usable_call_is_said(calls: Path, capsys: Capture) -> None:
    assert run(["claims", str(calls), *FILE, "--where", "model=none"]) == 3
    assert "no complete streamed call to judge by" in capsys.readouterr().err


def test_an_endpoint_is_told_beside_the_models(tmp_path: Path, capsys: Capture) -> None:
    """What is sent is said first, with its bound; the recordings are saved."""
    file = tmp_path / "saved.jsonl"
    with serving(good()) as server:
        target = ["--url", server.url, "--model", "tiny", "--save", str(file)]
        assert run(["claims", "--json", *target, *LEAST, *COST, "--source", "url"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert list(rows(found)) == [(claim, source) for claim in CLAIMS for source in ("cost", "url")]
    first, second = err.splitlines()[:2]
    assert f"33 requests (33 at most) to {server.url}/v1/chat/completions, model tiny" in first
    assert "16 one at a time, prompts of about 64, 256, 768, 1,536 tokens" in second
    assert len(server.bodies) == len(file.read_text().splitlines()) == 33


def test_an_endpoint_that_fails_says_why(capsys: Capture) -> None:
    """The calls that failed are left out; when all did, that is 3."""
    failing = error("500 Internal Server Error", "broken")
    with serving(good(), failing) as server:
        asked = ["claims", "--url", server.url, "--model", "tiny", *LEAST, "--source", "url"]
        assert run(asked) == 3
    err = capsys.readouterr().err
    assert "(32 calls); left out" in err
    assert "no call streamed a token to its end" in err


def test_an_interrupt_keeps_what_was_learned() -> None:
    """Ctrl-C while a call is waited for: the rows of those before, and 130."""
    held = threading.Event()
    with serving(*[good()] * 20, [b"", held]) as server:
        asked = ["claims", "--url", server.url, "--model", "tiny", *LEAST, "--source", "url"]
        process = child(*asked, "--json")
        while len(server.bodies) < 21:
            assert process.poll() is None
            held.wait(0.01)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert len(json.loads(out)["claims"]) == len(CLAIMS)
    assert "interrupted; what was learned is shown" in err


# -- the table ------------------------------------------------------------------------------------


def drawn(found: dict[str, Any], width: int, *, colours: bool = False) -> str:
    file = io.StringIO()
    console = Console(
        file=file,
        width=width,
        color_system="truecolor" if colours else None,
        force_terminal=colours,
        highlight=False,
    )
    for text in claims_lines(found, width=width, colours=colours):
        text.rstrip()
        console.print(text, soft_wrap=True)
    return file.getvalue()


@pytest.fixture(scope="module")
def costs() -> dict[str, Any]:
    return document(list(cost.rows()))


@pytest.mark.parametrize("width", [60, 80, 120, 160])
def test_every_line_fits(width: int, costs: dict[str, Any]) -> None:
    """At any width; nothing of a note is lost."""
    shown = drawn(costs, width)
    assert max(map(len, shown.splitlines())) <= width
    words = shown.split()
    for row in costs["claims"]:
        assert all(word in words for word in row["note"].split())


def test_a_row_shows_figure_interval_and_verdict(costs: dict[str, Any]) -> None:
    shown = drawn(costs, 80)
    assert re.search(r"✓ cost model  12 \[12, 12\] +holds", shown)
    assert re.search(r"\? cost model  — +insufficient evidence", shown)
    assert "cache-removes-recomputation: ratio of slopes" in shown
    assert "cost model        ✓ 7 holds   ? 2 insufficient evidence" in shown


@pytest.mark.parametrize(
    ("unit", "figures", "shown"),
    [
        ("ms a step", (5e-05, 4e-05, 6e-05), "50 ns [40, 60]"),
        ("ms a step", (0.0031, 0.002, 0.0042), "3.10 µs [2.00, 4.20]"),
        ("ms a step", (-0.0004, -0.002, 0.0012), "-0.40 µs [-2.00, 1.20]"),
        ("ms TTFT", (1234.5, 900.1, 2000.2), "1.23 s [0.90, 2.00]"),
        ("ms TTFT", (0.0, 0.0, 0.0), "0 ms [0, 0]"),
        ("units TTFT", (12.0, 12.0, 12.0), "12 units [12, 12]"),
        ("ratio", (1.0034, 1.0028, 1.0039), "1.003 [1.003, 1.004]"),
        ("ratio", (614.2, 607.7, 617.9), "614 [608, 618]"),
        ("ratio", (1.0, -0.0001, 2.5), "1.00 [0.00, 2.50]"),
        ("ratio", (3.5, 2.5, None), "3.50 [2.50, —]"),
    ],
)
def test_figures_are_in_the_unit_that_suits_them(
    unit: str, figures: tuple[float, float, float | None], shown: str, costs: dict[str, Any]
) -> None:
    """Interval and slope in one unit, three digits."""
    slope, low, high = figures
    claim = "cache-leaves-ttft"
    row = {"id": claim, "source": "url", "slope": slope, "low": low, "high": high,
           "verdict": "holds", "note": "n"}  # fmt: skip
    found = {**costs, "claims": [row], "units": {claim: {"url": unit}}}
    assert f"endpoint  {shown}  " in drawn(found, 80)


def test_verdicts_have_a_mark_and_with_colours_a_colour(costs: dict[str, Any]) -> None:
    """Told apart without colours too."""
    assert "\x1b[32m✓" in drawn(costs, 80, colours=True)
    assert "\x1b" not in drawn(costs, 80)
