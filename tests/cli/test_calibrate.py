"""`latscope calibrate`: what it will send is said and confirmed, and what it learned is kept."""

import json
import os
import pty
import select
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from latscope.cli.main import run
from latscope.documents import profiles, recordings
from latscope.documents.scenarios import Scenario
from latscope.probe.calibration.plan import plan
from latscope.sim.process import Running, start
from tests.cli.test_commands import LATSCOPE, child
from tests.cli.test_probe import vllm_page
from tests.probe.scripted import answer, chunk, error, serving, sse, usage
from tests.probe.test_metrics import pages

Capture = pytest.CaptureFixture[str]
PATIENCE_S = 240.0
"""A busy machine takes long to start a process."""
SMALL = ["--max-requests", "34", "--longest", "480", "--yes"]

QUICK = Scenario(
    name="quick",
    metrics="none",
    prefill_base_ms=5,
    prefill_us_per_token=50,
    decode_step_ms=2,
    step_jitter=0,
    queue_ms=0,
)


@pytest.fixture(scope="module")
def served() -> Iterator[Running]:
    with start([QUICK]) as running:
        yield running


def test_a_profile_is_written_shown_and_its_calls_kept(
    served: Running, tmp_path: Path, capsys: Capture
) -> None:
    file, save = tmp_path / "quick.json", tmp_path / "calls.jsonl"
    code = run(
        ["calibrate", served.base_url, "-m", "quick", "-o", str(file), "--save", str(save), *SMALL]
    )
    out, err = capsys.readouterr()
    assert code == 0, err
    found = profiles.read(file)
    assert found.spent["requests"] == 34
    kept = list(recordings.read(save))
    assert len(kept) == 34
    assert any(one.rtt_probe for one in kept)
    assert "34 requests to" in err
    assert "no price: the server runs on this machine" in err
    assert "left out to keep under the caps: no cache" in err
    assert "first token" in out
    assert "✓" in out or "✗" in out
    assert all(line.startswith("latscope: ") for line in err.splitlines())
    assert out.splitlines()[0] == f"quick  {served.base_url}/v1/chat/completions"


def test_round_trips_can_be_left_out(served: Running, tmp_path: Path, capsys: Capture) -> None:
    save = tmp_path / "calls.jsonl"
    options = ["--json", "--no-rtt-probe", "--save", str(save), *SMALL]
    assert run(["calibrate", served.base_url, "-m", "quick", *options]) == 0, capsys.readouterr()
    assert all(one.rtt_probe == () for one in recordings.read(save))


def test_the_servers_own_means_stand_beside_the_profile(
    served: Running, tmp_path: Path, capsys: Capture
) -> None:
    """The plan's calls, counted as so many after the two warm-ups; the readings are saved too."""
    calls = len(plan(requests=34, longest=480).calls)
    save, file = tmp_path / "calls.jsonl", tmp_path / "quick.json"
    with pages(*map(vllm_page, (7, 9, 9 + calls))) as url:
        options = ["--metrics", url, "--save", str(save), "-o", str(file), *SMALL]
        assert run(["calibrate", served.base_url, "-m", "quick", *options]) == 0
    out = capsys.readouterr().out
    assert f"means of {calls} calls: the server's, reported in aggregate by {url}/metrics" in out
    (row,) = [line for line in out.splitlines() if line.startswith("  prefill  ")]
    assert "30.0 ms" in row
    kept = [
        one.values["vllm:request_queue_time_seconds_count"] for one in recordings.read_series(save)
    ]
    assert (kept[0], kept[1], kept[-1]) == (7, 9, 9 + calls)
    assert len(list(recordings.read(save))) == 34


@pytest.mark.parametrize(
    ("last", "why"),
    [
        (vllm_page(99), "counted 92 calls, "),
        ("vllm:num_requests_running 2", "2 calls were in the server when ours had ended"),
    ],
)
def test_means_that_may_not_be_used_say_why(
    served: Running, last: str, why: str, capsys: Capture
) -> None:
    with pages(vllm_page(7), vllm_page(7), last) as url:
        options = ["--json", "--metrics", url, *SMALL]
        assert run(["calibrate", served.base_url, "-m", "quick", *options]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 1
    assert "the server's own means are not used: " in err
    assert why in err


def test_means_of_calls_that_failed_are_refused(capsys: Capture) -> None:
    reply = answer(sse(chunk("one"), chunk(finish="length"), usage(1), "[DONE]"))
    failed = error("500 Internal Server Error", "no")
    with serving(reply, reply, failed) as server, pages(vllm_page(7)) as url:
        code = run(["calibrate", server.url, "-m", "tiny", "--json", "--metrics", url, *SMALL])
    assert code == 3
    assert "not used: a call did not complete" in capsys.readouterr().err


def test_a_page_that_is_not_there_is_one_line_before_anything_is_sent(capsys: Capture) -> None:
    with serving(error("401 Unauthorized", "no")) as server, pages("404") as url:
        code = run(["calibrate", server.url, "-m", "tiny", "--json", "--metrics", url, *SMALL])
        assert server.asked == []
    out, err = capsys.readouterr()
    assert code == 3
    assert out == ""
    assert f"--metrics: {url}/metrics answered 404" in err
    assert len(err.splitlines()) == 1


def test_json_is_the_profile_and_nothing_else(served: Running, capsys: Capture) -> None:
    code = run(["calibrate", served.base_url, "-m", "quick", "--json", *SMALL, "--expires", "1"])
    out = capsys.readouterr().out
    assert code == 0
    (line,) = out.splitlines()
    found = profiles.read_text(line)
    assert (found.model, found.schema) == ("quick", "latscope.profile/1")
    assert found.made_at < found.expires_at


def test_nothing_is_sent_unless_confirmed(served: Running, capsys: Capture) -> None:
    """Without a terminal there is nobody to ask."""
    before = len(served.truths())
    code = run(["calibrate", served.base_url, "-m", "quick", "--json", "--longest", "480"])
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert "confirm with --yes" in err
    assert "requests to" in err  # what it would have sent is said first
    assert len(served.truths()) == before


def test_on_a_terminal_it_asks_and_takes_no_for_an_answer(served: Running) -> None:
    before = len(served.truths())
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [*LATSCOPE, "calibrate", served.base_url, "-m", "quick", "--json"],
        stdin=theirs,
        stderr=theirs,
        stdout=subprocess.PIPE,
    )
    os.close(theirs)
    said = b""
    while b"send them?" not in said:
        assert select.select([ours], [], [], PATIENCE_S)[0], said
        said += os.read(ours, 4096)
    os.write(ours, b"n\n")
    out, _ = process.communicate(timeout=PATIENCE_S)
    os.close(ours)
    assert process.returncode == 0
    assert out == b""
    assert len(served.truths()) == before


def interrupted(process: subprocess.Popen[str], ready: Callable[[], bool]) -> tuple[str, str]:
    """What it printed, once it was interrupted where it had come so far."""
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not ready():
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        return process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()


def test_an_interrupt_keeps_what_was_learned(served: Running, tmp_path: Path) -> None:
    file = tmp_path / "part.json"
    before = len(served.truths())
    process = child(
        "calibrate", served.base_url, "-m", "quick", "-o", str(file), "--yes", "--longest", "480",
        "--seed", "1",
    )  # fmt: skip
    out, err = interrupted(process, lambda: len(served.truths()) >= before + 8)
    assert process.returncode == 130, err
    found = profiles.read(file)
    assert 0 < found.n < 180
    assert any(text.startswith("interrupted after") for text in found.skipped)
    assert "interrupted; what was learned is kept" in err
    assert "first token" in out


def test_an_interrupt_before_anything_was_learned(tmp_path: Path) -> None:
    """A server that does not answer."""
    file = tmp_path / "none.json"
    with serving([threading.Event()]) as server:
        process = child(
            "calibrate", server.url, "-m", "tiny", "-o", str(file), "--yes", "--longest", "480"
        )
        _, err = interrupted(process, lambda: bool(server.asked))
    assert process.returncode == 130, err
    assert "nothing was learned" in err
    assert not file.exists()


WRONG: dict[str, tuple[list[str], str]] = {
    "no place for the profile": (["http://127.0.0.1:9", "-m", "m"], "give -o FILE"),
    "no such folder": (["http://127.0.0.1:9", "-m", "m", "-o", "no/such/p.json"],
                       "cannot be written"),
    "a cap too small": (["http://127.0.0.1:9", "-m", "m", "--json", "--max-requests", "5"],
                        "are too few"),
    "no time to be good for": (["http://127.0.0.1:9", "-m", "m", "--json", "--expires", "0"],
                               "--expires needs"),
    "an endless timeout": (["http://127.0.0.1:9", "-m", "m", "--json", "--timeout", "inf"],
                           "--timeout needs"),
    "an empty model": (["http://127.0.0.1:9", "-m", " ", "--json"], "--model is empty"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_one_line(name: str, capsys: Capture) -> None:
    arguments, said = WRONG[name]
    assert run(["calibrate", *arguments]) in (2, 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert said in err
    assert len(err.splitlines()) == 1


def test_an_endpoint_that_cannot_be_used_is_one_line(capsys: Capture) -> None:
    with serving(error("401 Unauthorized", "no")) as server:
        code = run(["calibrate", server.url, "-m", "tiny", "--json", *SMALL])
    out, err = capsys.readouterr()
    assert code == 3
    assert out == ""
    assert "the key was refused" in err.splitlines()[-1]


def test_calls_that_failed_are_counted(capsys: Capture) -> None:
    """Two warm-ups pass, then nothing does: there is nothing to learn from."""
    reply = answer(sse(chunk("one"), chunk(finish="length"), usage(1), "[DONE]"))
    with serving(reply, reply, error("500 Internal Server Error", "no")) as server:
        code = run(["calibrate", server.url, "-m", "tiny", "--json", *SMALL])
    err = capsys.readouterr().err
    assert code == 3
    assert "(8 calls); left out" in err  # two blocks of four
    assert "nothing learned" in err


def test_no_prompt_answer_or_key_is_in_a_profile(
    served: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setenv("MY_KEY", "sk-canary-0123456789")
    file, save = tmp_path / "p.json", tmp_path / "calls.jsonl"
    code = run(["calibrate", served.base_url, "-m", "quick", "-o", str(file), "--key-env", "MY_KEY",
                "--save", str(save), "-H", "X-Team: canary-header", *SMALL])  # fmt: skip
    assert code == 0, capsys.readouterr().err
    for text in (file.read_text(), save.read_text(), *capsys.readouterr()):
        assert "canary" not in text
        assert "List words that go with these" not in text
    plain: dict[str, Any] = json.loads(file.read_text())
    assert plain["schema"] == "latscope.profile/1"
