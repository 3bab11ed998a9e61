"""What a server, a file or a pasted secret must not do to terminal, exit code or log."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.text import Text

from latscope.cli.main import run
from latscope.cli.output import screen
from tests.probe.scripted import answer, error, good, serving

Capture = pytest.CaptureFixture[str]
STEERS = "\x1b]0;owned\x07\x1b[2Jred\u202ertl"
QUIET = ("--model", "tiny", "-n", "1", "--no-warm-up")


def probe(url: str, *more: str) -> int:
    return run(["probe", url, *QUIET, "--json", *more])


def command(*arguments: str, **more: object) -> "subprocess.CompletedProcess[bytes]":
    line = [sys.executable, "-m", "latscope", *arguments]
    return subprocess.run(line, stderr=subprocess.PIPE, timeout=60, check=False, **more)  # type: ignore[call-overload,no-any-return]


def test_a_server_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its message is shown, its control and direction characters are not; a terminal counts: a
    pipe has them stripped by click."""
    said: list[str] = []
    monkeypatch.setattr("click.echo", lambda text, err=False: said.append(text) if err else None)
    with serving(error("500 Internal Server Error", STEERS)) as server:
        probe(server.url)
    assert "red" in said[-1]
    assert not set(said[-1]) & {"\x1b", "\x07", "\u202e"}


def test_a_recording_cannot_either(capsys: Capture) -> None:
    """A name from a file takes as much room as before and starts no line of its own."""
    screen().lines([Text.assemble(("a\x1b[2J\nb", "bold"))])
    assert capsys.readouterr().out == "a\ufffd[2J\ufffdb\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("-H", "Authorization Bearer sk-canary-123456"),
        ("-H", "sk-canary-123456"),
        ("--key-env", "sk-canary-123456"),
    ],
)
def test_a_secret_in_the_wrong_place_is_not_repeated(
    arguments: tuple[str, str], capsys: Capture
) -> None:
    assert probe("http://127.0.0.1:9", *arguments) == 2
    assert "canary" not in capsys.readouterr().err


def test_a_secret_header_is_not_quoted_from_an_answer(capsys: Capture) -> None:
    with serving(error("500 Oops", "bad token sk-canary-123456")) as server:
        probe(server.url, "-H", "Authorization: Bearer sk-canary-123456")
    assert "bad token (key)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("http://[::1",), "the target is no URL"),
        (("http://h/v1?api-version=1",), "holds a query"),
        (("http://h", "--timeout", "nan"), "--timeout needs a finite number"),
        (("http://h", "--rate", "inf"), "--rate needs a finite number"),
        (("http://h", "-H", "Content-Length: 5"), "not for the user to set"),
    ],
)
def test_odd_usage_is_one_line_and_two(
    arguments: Sequence[str], line: str, capsys: Capture
) -> None:
    assert probe(*arguments) == 2
    assert line in capsys.readouterr().err


def test_no_command_shows_the_help_as_it_is_laid_out(capsys: Capture) -> None:
    assert run([]) == 2
    assert len(capsys.readouterr().err.splitlines()) > 10


def test_a_probe_whose_reader_went_away_ends_quietly() -> None:
    """As `latscope probe ... --json | head -1`."""
    reading, writing = os.pipe()
    os.close(reading)
    with serving(good()) as server:
        done = command("probe", server.url, *QUIET, "--json", stdout=writing)
    os.close(writing)
    assert done.returncode == 0
    assert b"fault" not in done.stderr


def test_explain_json_whose_reader_went_away_ends_quietly(tmp_path: Path) -> None:
    """click would make it 1, the code of a finding."""
    file = str(tmp_path / "calls.jsonl")
    with serving(good()) as server:
        assert probe(server.url, "--save", file) == 0
    reading, writing = os.pipe()
    os.close(reading)
    done = command("explain", file, "--json", stdout=writing)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_no_fault_of_ours() -> None:
    with open("/dev/full", "wb") as full:
        done = command("explain", "--owners", stdout=full)
    assert done.returncode == 3
    assert done.stderr == b"latscope: the output cannot be written: No space left on device\n"


def test_a_body_that_does_not_decode_is_no_interruption(capsys: Capture) -> None:
    with serving(answer("not gzip", headers={"content-encoding": "gzip"})) as server:
        assert probe(server.url) == 3
    said = capsys.readouterr().err
    assert "not in the encoding its headers name" in said
    assert "interrupted" not in said


def test_a_strange_body_is_not_called_an_error_inside_the_answer(capsys: Capture) -> None:
    with serving(answer('{"hello": 1}', kind="application/json")) as server:
        assert probe(server.url) == 3
    said = capsys.readouterr().err
    assert "a body that is no chat answer" in said
    assert "an error inside" not in said


def test_a_dead_endpoint_is_told_once(capsys: Capture) -> None:
    """Not once for the warm-up and once for the calls."""
    with serving(error("500 Oops", "boom")) as server:
        assert run(["probe", server.url, "--model", "tiny", "-n", "2", "--json"]) == 3
    assert capsys.readouterr().err.count("boom") == 1


def test_plain_http_to_a_tls_server_is_hinted_at(capsys: Capture) -> None:
    with serving(b"") as server:
        probe(server.url)
    assert "https://" in capsys.readouterr().err
