import io
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from latscope import __version__
from latscope.attribution import attribute
from latscope.attribution.jsonview import KEYS
from latscope.attribution.model import SEGMENTS, Attribution
from latscope.cli import main as main_module
from latscope.cli.main import COMMANDS, run
from latscope.documents import recordings
from latscope.documents.scenarios import DEMO
from latscope.recording import Recording
from tests.probe.scripted import chunk, good, opened, serving, sse

LATSCOPE = [sys.executable, "-m", "latscope"]
Capture = pytest.CaptureFixture[str]


def child(*arguments: str, **more: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*LATSCOPE, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        **more,
    )


@pytest.fixture
def recorded(tmp_path: Path, capsys: Capture) -> Path:
    """Three recorded calls, the warm-up among them."""
    file = tmp_path / "calls.jsonl"
    with serving(good()) as server:
        assert run(["probe", server.url, "-m", "tiny", "-n", "2", "--save", str(file)]) == 0
    capsys.readouterr()
    return file


def test_help_and_version_are_fast_and_name_every_command(capsys: Capture) -> None:
    """Help imports no command, so nothing of rich, httpx2 or pydantic."""
    script = (
        "import sys; from latscope.cli.main import run; code = run(['--help']);"
        "heavy = {'rich', 'httpx2', 'pydantic', 'uvicorn'} & set(sys.modules);"
        "sys.exit(1 if heavy else code)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"latscope {__version__}\n"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: Capture) -> None:
    """Each says what it does and shows its options."""
    assert run([name, "--help"]) == 0
    assert "Usage: latscope" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nonsense"], "No such command 'nonsense'. (see latscope --help)"),
        (["explain", "--nonsense"], "(see latscope explain --help)"),
        (["explain"], "explain needs a file of recordings, or - for stdin"),
        (["explain", "x", "--by", "nonsense"], "--by: no field 'nonsense'"),
        (["explain", "x", "--by", "segments"], "--by: segments is a list: take one by its name: q"),
        (
            ["explain", "x", "--by", "model,connection"],
            "take one of connection.reused, connection.h",
        ),
        (["explain", "x", "--by", "flags"], "--by: flags is a list, not one value"),
        (["explain", "x", "--by", "tags"], "--by: tags holds many values: take one, as tags.NAME"),
        (["explain", "x", "--by", ","], "--by: needs at least one field"),
        (["explain", "x", "--since", "nonsense"], "--since: 'nonsense' is no time"),
    ],
)
def test_wrong_usage_is_one_line_and_two(arguments: list[str], line: str, capsys: Capture) -> None:
    """On stderr, with where to look."""
    assert run(arguments) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert line in err


def test_a_fault_of_our_own_is_one_line_without_its_message(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A message may quote a payload; the place is enough, and one variable shows all."""

    def fails(*args: Any, **kwargs: Any) -> None:
        raise ZeroDivisionError("canary")

    monkeypatch.setattr(main_module.cli, "main", fails)
    assert run([]) == 3
    err = capsys.readouterr().err
    assert "ZeroDivisionError at test_commands.py:" in err
    assert "canary" not in err
    monkeypatch.setenv("LATSCOPE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run([])


def test_explain_tells_one_call_in_full_and_many_in_short(recorded: Path, capsys: Capture) -> None:
    """One: a waterfall. Many: a summary and the slowest; --all and --slowest show more."""
    counts = {}
    for options in ((), ("--all",), ("--slowest", "2"), ("--slowest", "0"), ("--id", "zzz")):
        code = run(["explain", str(recorded), *options])
        counts[options] = (code, capsys.readouterr().out.count("TTFT  "))
    assert counts == {
        (): (0, 1),
        ("--all",): (0, 3),
        ("--slowest", "2"): (0, 2),
        ("--slowest", "0"): (0, 0),
        ("--id", "zzz"): (3, 0),
    }


def test_explain_filters_and_groups(recorded: Path, capsys: Capture) -> None:
    """--where, --by; that nothing matches is said and is no error."""
    assert run(["explain", str(recorded), "--by", "status,api", "--slowest", "0"]) == 0
    assert "complete · chat" in capsys.readouterr().out
    assert run(["explain", str(recorded), "--where", "model = other"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "latscope: no call matches\n")
    assert run(["explain", str(recorded), "--where", "model = other", "--json"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "latscope: no call matches\n")


def test_explain_attributes_only_what_id_and_time_let_through(
    recorded: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attributing costs most; what a recording itself rules out is not attributed."""
    wanted = [call.call_id for call in recordings.read(recorded)][1]
    seen = []

    def counting(call: Recording, **more: Any) -> Attribution:
        seen.append(call.call_id)
        return attribute(call, **more)

    monkeypatch.setattr("latscope.attribution.attribute", counting)
    assert run(["explain", str(recorded), "--id", wanted]) == 0
    assert run(["explain", str(recorded), "--until", "2001-01-01", "--json"]) == 0
    assert run(["explain", str(recorded), "--since", "2999-01-01"]) == 0
    assert seen == [wanted]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_explain_says_how_far_it_is(
    recorded: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, in a line that is gone when the result comes; elsewhere not at all."""
    monkeypatch.setattr("latscope.cli.explain.EVERY", 2)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", terminal)
        assert run(["explain", str(recorded)]) == 0
    assert terminal.getvalue() == "\r\x1b[2Klatscope: 2 calls read ...\r\x1b[2K"
    capsys.readouterr()
    assert run(["explain", str(recorded)]) == 0
    assert capsys.readouterr().err == ""


def test_explain_json_is_one_attribution_a_line(recorded: Path, capsys: Capture) -> None:
    """Every key of the contract, both sums of the law, nothing else on stdout."""
    assert run(["explain", str(recorded), "--json"]) == 0
    calls = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(calls) == 3
    for call in calls:
        assert tuple(call) == KEYS
        assert sum(segment["ns"] for segment in call["segments"]) == call["wall_ns"]
    assert run(["explain", str(recorded), "--json", "--slowest", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["wall_ns"] == max(call["wall_ns"] for call in calls)


def test_explain_takes_the_mode_from_who_knows(recorded: Path, capsys: Capture) -> None:
    """A loopback address may be a tunnel to a vendor; --mode says so, and owners follow."""
    owners = {}
    for mode in ("self-hosted", "vendor"):
        assert run(["explain", str(recorded), "--json", "--slowest", "1", "--mode", mode]) == 0
        call = json.loads(capsys.readouterr().out)
        owners[call["mode"]] = call["segments"][0]["owner"]
    assert set(owners) == {"self-hosted", "vendor"}
    assert owners["vendor"] != owners["self-hosted"]


def test_explain_reads_standard_input(recorded: Path) -> None:
    """`-` is stdin."""
    with recorded.open() as file:
        done = child("explain", "-", "--json", stdin=file)
        out, err = done.communicate(timeout=60)
    assert (done.returncode, len(out.splitlines()), err) == (0, 3, "")


def test_explain_owners_needs_no_file(capsys: Capture) -> None:
    """The table by itself."""
    assert run(["explain", "--owners"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in SEGMENTS if name != "unattributed")


def test_a_reader_that_goes_away_is_no_error(recorded: Path) -> None:
    """`latscope explain ... | head -1` ends quietly."""
    done = child("explain", str(recorded), "--all", "--slowest", "9")
    assert done.stdout is not None
    assert done.stderr is not None
    done.stdout.close()
    assert done.wait(60) == 0
    assert done.stderr.read() == ""
    done.stderr.close()


def test_probe_shows_the_warm_up_apart(capsys: Capture) -> None:
    """It is said to not count; the group counts the measured calls only."""
    with serving(good()) as server:
        assert run(["probe", server.url, "-m", "tiny", "-n", "2"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("warm-up, not counted: complete")
    assert "\n    2       0 " in out


@pytest.mark.parametrize("load", [("--concurrency", "3"), ("--rate", "50")])
def test_probe_sends_every_call_once_under_load(load: tuple[str, ...], capsys: Capture) -> None:
    """Closed loop or open, each call is a line, in order of its number, with its own prompt."""
    with serving(good()) as server:
        assert run(["probe", server.url, "-m", "tiny", "-n", "7", "--json", *load]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
    prompts = {body["messages"][0]["content"] for body in server.bodies}
    ids = {asked.headers["x-request-id"] for asked in server.asked}
    assert len(server.bodies) == len(prompts) == len(ids) == 8


def test_probe_asks_what_it_is_given(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a file, from stdin, filler; --reuse-prompt sends it as it is."""
    file = tmp_path / "prompt.txt"
    file.write_text("from a file")
    with (tmp_path / "prompt.txt").open() as stdin, serving(good()) as server:
        monkeypatch.setattr("sys.stdin", stdin)
        for options in (["--prompt-file", str(file)], ["--prompt", "-"], ["--prompt", "typed"]):
            more = ["-n", "1", "--no-warm-up", "--reuse-prompt", *options]
            assert run(["probe", server.url, "-m", "tiny", *more]) == 0
        more = ["-n", "1", "--no-warm-up", "--prompt-tokens", "300", "--no-stream"]
        run(["probe", server.url, "-m", "tiny", *more])
    said = [body["messages"][0]["content"] for body in server.bodies]
    assert said[:3] == ["from a file", "from a file", "typed"]
    assert 250 < len(said[3].split()) < 350
    assert server.bodies[3]["stream"] is False
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"\xff\xfe")
    assert run(["probe", "http://127.0.0.1:9", "-m", "t", "--prompt-file", str(bad)]) == 3
    assert "cannot be read as text" in capsys.readouterr().err


def test_an_interrupt_keeps_what_was_learned(tmp_path: Path) -> None:
    """Ctrl-C in the second call: the first is shown, both are saved, the code is 130."""
    file = tmp_path / "calls.jsonl"
    with serving(good(), [opened() + sse(chunk("one")), threading.Event()]) as server:
        more = ["-n", "3", "--no-warm-up", "--json", "--save", str(file)]
        running = child("probe", server.url, "-m", "tiny", *more)
        assert running.stdout is not None
        first = running.stdout.readline()
        while len(server.asked) < 2:
            assert running.poll() is None
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert json.loads(first)["status"] == "complete"
    assert [json.loads(line)["status"] for line in out.splitlines()] == ["cancelled"]
    assert "interrupted; what was learned is shown" in err
    assert "Traceback" not in err
    assert len(list(recordings.read(file))) == 2


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path]:
    """The demo's JSON and the file it saved."""
    file = tmp_path_factory.mktemp("demo") / "demo.jsonl"
    done = subprocess.run(
        [*LATSCOPE, "demo", "--json", "--save", str(file)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), file


def test_demo_json_holds_six_calls_with_their_truth(demo: tuple[Any, Path]) -> None:
    """The contract's schema; both sums of law 1; the truth is a partition of the wall too."""
    told, _ = demo
    assert told["schema"] == "latscope.demo/1"
    assert [call["model"] for call in told["calls"]] == list(DEMO)
    for call in told["calls"]:
        assert sum(segment["ns"] for segment in call["segments"]) == call["wall_ns"]
        first = sum(segment["ttft_ns"] for segment in call["segments"])
        assert first == call["first_token_ns"]
        assert sum(share["ns"] for share in call["truth"]["segments"]) == call["wall_ns"]


def test_demo_saves_what_it_told(demo: tuple[Any, Path], capsys: Capture) -> None:
    """The recordings carry the truth, and explain tells the same of them."""
    told, file = demo
    assert run(["explain", str(file), "--json"]) == 0
    again = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert again == told["calls"]


def test_demo_tells_the_story(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    """Six headings, each call beside its truth, what to try next; the width is kept."""
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["demo"]) == 0
    out = capsys.readouterr().out
    assert all(f"── {n} of 6 · " in out for n in range(1, 7))
    assert out.count("the truth lies") == 6
    assert out.count("\ntruth") >= 12
    assert "would split it:" in out
    assert "latscope run -o calls.jsonl -- python app.py" in out
    assert max(len(line) for line in out.splitlines()) <= 80


def test_sim_serve_answers_probes_until_it_is_stopped(capsys: Capture) -> None:
    """The URL is stdout's only line; the scenarios are the models."""
    server = child("sim", "serve", "--port", "0")
    assert server.stdout is not None
    assert server.stderr is not None
    url = server.stdout.readline().strip()
    assert run(["probe", url, "-m", "healthy", "-n", "1", "--max-tokens", "3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["provider"] == "latscope-sim"
    server.send_signal(signal.SIGINT)
    assert server.wait(30) in (0, 130)
    assert "Traceback" not in server.stderr.read()
    server.stdout.close()
    server.stderr.close()


def test_sim_serve_lists_its_scenarios(capsys: Capture, tmp_path: Path) -> None:
    """Each with what it shows; a file that is none is one line."""
    assert run(["sim", "serve", "--list"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in DEMO)
    bad = tmp_path / "bad.toml"
    bad.write_text("schema = 'nonsense'")
    assert run(["sim", "serve", str(bad)]) == 3
    assert str(bad) in capsys.readouterr().err
