"""`latscope probe`: pairs against a second target, the server's metrics, round trips beside."""

import json
from pathlib import Path
from typing import Any

import pytest

from latscope.cli.main import run
from latscope.documents.recordings import read, read_series
from latscope.probe.metrics import parse
from tests.probe.scripted import answer, chunk, error, good, opened, serving, sse, usage
from tests.probe.test_metrics import pages

Capture = pytest.CaptureFixture[str]
QUIET = ("-m", "tiny", "--max-tokens", "4")


def lines(captured: str) -> list[Any]:
    return [json.loads(line) for line in captured.splitlines()]


def test_pairs_come_as_tagged_lines_and_a_comparison(tmp_path: Path, capsys: Capture) -> None:
    """stdout holds attributions only; the comparison is talk, and whole in its file; recordings
    carry the same tags."""
    out, saved = tmp_path / "against.json", tmp_path / "calls.jsonl"
    with serving(good()) as a, serving(good()) as b:
        options = ["--against", b.url, "--model2", "small", "-n", "3", "--prompt-tokens", "30,90"]
        options += ["--json", "--compare-out", str(out), "--save", str(saved)]
        assert run(["probe", a.url, *QUIET, *options]) == 0
    said = capsys.readouterr()
    tags = [call["tags"] for call in lines(said.out)]
    assert sorted((tag["pair"], tag["arm"]) for tag in tags) == [
        (str(pair), arm) for pair in (1, 2, 3) for arm in "ab"
    ]
    assert f"TARGET2  {b.url}/v1/chat/completions · small" in said.err
    assert "3 pairs; TARGET2 less TARGET; 90 % intervals" in said.err
    told = json.loads(out.read_text())
    assert (told["schema"], told["pairs"], told["used"]) == ("latscope.against/1", 3, 3)
    assert [dict(call.tags) for call in read(saved)][2:] == tags
    assert {body["model"] for body in b.bodies} == {"small"}
    sizes = [len(body["messages"][0]["content"]) for body in a.bodies]
    assert sizes[0] == sizes[1] == sizes[3] != sizes[2]
    assert [len(body["messages"][0]["content"]) for body in b.bodies] == sizes


def test_a_comparison_for_people(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each arm's summary, a row a difference, what it grows with, a verdict; the width is kept."""
    monkeypatch.setenv("COLUMNS", "80")
    with serving(good()) as a, serving(good()) as b:
        assert run(["probe", a.url, *QUIET, "--against", b.url, "-n", "3", "--no-warm-up"]) == 0
    out = capsys.readouterr().out
    assert f"a · tiny · {a.url}" in out
    assert all(f"\n{name} " in out for name in ("TTFT", "E2E", "client", "TARGET2"))
    assert "\ngrows with\n" in out
    assert "the same in all pairs: request bytes, input tokens, output tokens" in out
    assert "→ " in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_a_wide_screen_draws_the_intervals(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On one axis, zero a bar, each estimate a dot."""
    monkeypatch.setenv("COLUMNS", "140")
    slow = [opened(), sse(chunk("one")), sse(chunk(finish="stop"), usage(1), "[DONE]")]
    with serving(good()) as a, serving(slow) as b:
        assert run(["probe", a.url, *QUIET, "--against", b.url, "-n", "3"]) == 0
    drawn = [line for line in capsys.readouterr().out.splitlines() if "●" in line]
    assert len([line for line in drawn if line.startswith(("TTFT", "E2E"))]) == 2


def test_keys_and_headers_stay_with_their_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the first is trusted with is not sent to the second, and the other way round."""
    monkeypatch.setenv("KEY_A", "sk-first-123456")
    monkeypatch.setenv("KEY_B", "sk-second-12345")
    with serving(good()) as a, serving(good()) as b:
        options = ["--against", b.url, "-n", "1", "--no-warm-up", "--json"]
        options += ["--key-env", "KEY_A", "-H", "x-team: first"]
        run(["probe", a.url, *QUIET, *options])
        run(
            ["probe", a.url, *QUIET, *options, "--key-env2", "KEY_B", "--header2", "x-team: second"]
        )
    for asked in a.asked:
        assert asked.headers["authorization"] == "Bearer sk-first-123456"
        assert asked.headers["x-team"] == "first"
    assert "authorization" not in b.asked[0].headers
    assert "x-team" not in b.asked[0].headers
    assert b.asked[1].headers["authorization"] == "Bearer sk-second-12345"
    assert b.asked[1].headers["x-team"] == "second"


def test_a_second_target_that_fails_leaves_nothing_to_compare(capsys: Capture) -> None:
    """Its trouble is said, its models are asked of it; the first target's calls stand."""
    gone = error("404 Not Found", "The model `tiny` does not exist", code="model_not_found")
    with serving(good()) as a, serving(gone, models=["small"]) as b:
        assert run(["probe", a.url, *QUIET, "--against", b.url, "-n", "2", "--json"]) == 0
    said = capsys.readouterr()
    assert [call["status"] for call in lines(said.out)].count("complete") == 2
    assert "0 pairs, 2 more left out" in said.err
    assert "no pair completed, so nothing can be compared" in said.err
    assert "models on offer: small" in said.err


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--model2", "m"], "--model2 says something of --against"),
        (["--key-env2", "K"], "--key-env2 says something of --against"),
        (["--compare-out", "x"], "--compare-out says something of --against"),
        (["--against", "http://h", "--rate", "2"], "one call at a time"),
        (["--against", "http://h", "--concurrency", "2"], "one call at a time"),
        (["--against", "http://h", "--metrics", "http://h"], "reads one server's page"),
        (["--against", "ftp://h"], "no http or https URL"),
        (["--metrics", "ftp://h"], "--metrics: no http or https URL"),
        (["--prompt-tokens", "12,x"], "several with commas"),
        (["--prompt-tokens", "0"], "at least 1"),
    ],
)
def test_what_does_not_go_together_is_wrong_usage(
    options: list[str], why: str, capsys: Capture
) -> None:
    """Exit code 2 and one line, before anything is sent."""
    assert run(["probe", "http://127.0.0.1:9", *QUIET, *options]) == 2
    said = capsys.readouterr()
    assert why in said.err
    assert said.out == ""


def test_a_comparison_that_cannot_be_written_is_told_first(capsys: Capture) -> None:
    """Not after the calls were paid for."""
    options = ["--against", "http://127.0.0.1:9", "--compare-out", "/no/such/folder/x"]
    assert run(["probe", "http://127.0.0.1:9", *QUIET, *options]) == 3
    assert "--compare-out: /no/such/folder/x cannot be written" in capsys.readouterr().err


def vllm_page(count: int) -> str:
    """A vLLM that counted so many calls, each 2, 30 and 500 ms."""
    rows = [
        f"vllm:request_{name}_time_seconds_{end} {value}"
        for name, each in (("queue", 0.002), ("prefill", 0.03), ("decode", 0.5))
        for end, value in (("sum", each * count), ("count", count))
    ]
    return "\n".join(["vllm:num_requests_running 0", *rows, ""])


def test_the_servers_own_means_stand_beside(tmp_path: Path, capsys: Capture) -> None:
    """Two calls, counted as two: its means are shown and its readings saved among recordings."""
    file = tmp_path / "calls.jsonl"
    with serving(good()) as server, pages(*map(vllm_page, (7, 8, 8, 10))) as url:
        options = ["-n", "2", "--metrics", url, "--save", str(file)]
        assert run(["probe", server.url, *QUIET, *options]) == 0
    out = capsys.readouterr().out
    assert f"means of 2 calls: the server's, reported in aggregate by {url}/metrics" in out
    for name, figure in (("queue", "2.0 ms"), ("prefill", "30.0 ms"), ("decode", "500 ms")):
        row = next(line for line in out.splitlines() if line.startswith(f"  {name} "))
        assert figure in row
        assert f"vllm:request_{name}_time_seconds" in row
    assert len(list(read(file))) == 3
    kept = list(read_series(file))
    assert kept[0].values == parse(vllm_page(7))
    assert kept[-1].values == parse(vllm_page(10))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["-n", "2"], "vllm:request_queue_time_seconds counted 3 calls, 2 were ours"),
        (["-n", "3", "--concurrency", "2"], "only calls one at a time tell"),
    ],
)
def test_means_that_may_not_be_used_are_refused(
    options: list[str], why: str, capsys: Capture
) -> None:
    """Someone else's call was counted too; or ours came together. JSON stays alone on stdout."""
    with serving(good()) as server, pages(vllm_page(7), vllm_page(8), vllm_page(11)) as url:
        assert run(["probe", server.url, *QUIET, *options, "--metrics", url, "--json"]) == 0
    said = capsys.readouterr()
    assert len(lines(said.out)) == int(options[1])
    assert f"the server's own means are not used: {why}" in said.err


def test_means_of_calls_that_failed_are_refused(capsys: Capture) -> None:
    """Nobody knows which of them the server counted."""
    cut = answer(sse(chunk("one")))
    with serving(good(), cut) as server, pages(vllm_page(7)) as url:
        run(["probe", server.url, *QUIET, "-n", "1", "--metrics", url])
    assert "not used: a call did not complete" in capsys.readouterr().out


def test_a_page_that_is_not_there_ends_it_before_the_calls(capsys: Capture) -> None:
    """Exit code 3, nothing sent."""
    with serving(good()) as server:
        options = ["--metrics", "http://127.0.0.1:9"]
        assert run(["probe", server.url, *QUIET, *options]) == 3
        assert server.asked == []
    assert "--metrics: http://127.0.0.1:9/metrics cannot be read" in capsys.readouterr().err


def test_round_trips_can_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is even started, whatever the target."""
    monkeypatch.setattr("latscope.cli.probe.RttProbe", None)  # None() would fail
    file = tmp_path / "calls.jsonl"
    options = ["-n", "2", "--save", str(file), "--no-rtt-probe"]
    with serving(good()) as server:
        assert run(["probe", server.url, *QUIET, *options]) == 0
    assert all(call.rtt_probe == () for call in read(file))
