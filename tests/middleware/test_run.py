"""`latscope run`: a program is recorded without a change to its code."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from latscope.cli.run import run_command
from latscope.errors import InputError

from .server import CANARY, REQUEST, SECRETS

ROOT = Path(__file__).parents[2]
RUN = "from latscope.cli.run import run_command; run_command(prog_name='latscope run')"


def start(arguments: Sequence[object], **more: Any) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, arguments)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **more,
    )


def run(*arguments: object, **environment: str) -> "subprocess.CompletedProcess[str]":
    with start(arguments, env={**os.environ, **environment}) as process:
        out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def records(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


HTTPX2 = f"""
import sys, httpx2
with httpx2.Client() as client:
    for _ in range(2):
        print(client.post(sys.argv[1], json={REQUEST!r}).text)
sys.exit(5)
"""
HTTPX = HTTPX2.replace("httpx2", "httpx")
OPENAI = f"""
import sys, openai
url = sys.argv[1].removesuffix("/chat/completions")
client = openai.OpenAI(base_url=url, api_key="{SECRETS[-1]}")
for each in (client, client.with_options(max_retries=1)):
    stream = each.chat.completions.create(**{REQUEST!r})
    print(*(chunk.choices[0].delta.content for chunk in stream))
sys.exit(5)
"""
OPENAI_OWN_CLIENT = OPENAI.replace("api_key=", "http_client=openai.DefaultHttpxClient(), api_key=")
ANTHROPIC = f"""
import sys, anthropic
url = sys.argv[1].removesuffix("/v1/chat/completions")
client = anthropic.Anthropic(base_url=url, api_key="{SECRETS[-1]}")
for _ in range(2):
    response = client.messages.with_raw_response.create(max_tokens=9, **{REQUEST!r})
    print(response.http_response.read().decode())
sys.exit(5)
"""


@pytest.mark.parametrize(
    ("app", "sdk", "begins"),
    [
        (HTTPX2, "httpx2", "transport"),
        (HTTPX, "httpx", "transport"),
        (OPENAI, "openai", "sdk"),
        (OPENAI_OWN_CLIENT, "openai", "sdk"),
        (ANTHROPIC, "anthropic", "sdk"),
    ],
)
def test_each_call_is_recorded_once(
    app: str, sdk: str, begins: str, url: str, tmp_path: Path
) -> None:
    """The program's output and exit code are its own; the file is its owner's and holds no
    content; the last line on stderr says what was recorded where."""
    path = tmp_path / "calls.jsonl"
    ran = run("-o", path, "--", sys.executable, "-c", app, url)
    assert (ran.returncode, ran.stdout.count(CANARY)) == (5, 2), ran.stderr
    assert ran.stderr == f"latscope: 2 calls recorded in {path}\n"
    for record in records(path):
        assert str(record["sdk"]).startswith(sdk + "/")
        assert record["start"] == begins
        assert "broken" not in record
    assert not [secret for secret in SECRETS if secret in path.read_text()]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_the_program_may_instrument_clients_itself(url: str, tmp_path: Path) -> None:
    """Its own call replaces ours and still writes the file; one call stays one line."""
    app = HTTPX2.replace(
        "    for", "    import latscope; latscope.instrument(client, tags={'a': 'b'})\n    for"
    )
    path = tmp_path / "calls.jsonl"
    ran = run("-o", path, "--", sys.executable, "-c", app, url)
    assert ran.returncode == 5, ran.stderr
    assert [record["tags"] for record in records(path)] == [{"a": "b"}] * 2


def test_calls_are_added_to_the_file_and_only_the_new_ones_counted(
    url: str, tmp_path: Path
) -> None:
    path = tmp_path / "calls.jsonl"
    run("-o", path, "--", sys.executable, "-c", HTTPX2, url)
    ran = run("-o", path, "--", sys.executable, "-c", HTTPX2, url)
    assert ran.stderr == f"latscope: 2 calls recorded in {path}\n"
    assert len(records(path)) == 4


def test_a_client_that_cannot_be_recorded_runs_on(url: str, tmp_path: Path) -> None:
    """One line says so."""
    app = (
        "import sys, httpx2\n"
        "class Odd(httpx2.Client):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "class Odder(httpx2.Client):\n"
        "    _transport = property(lambda self: None, lambda self, value: None)\n"
        "Odd().close()\n"
        "Odder()\n"
    )
    ran = run("-o", tmp_path / "calls.jsonl", "--", sys.executable, "-W", "ignore", "-c", app)
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.count("Odder is not recorded") == 1


IMPORTS = """
import sys
third = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(sorted(name for name in third if not name.startswith("__")))
"""


def test_nothing_third_party_is_imported_for_the_program(tmp_path: Path) -> None:
    """Before it imports a client library itself. (What the interpreter's own .pth files import is
    there without us too.)"""
    command = [sys.executable, "-c", IMPORTS]
    alone = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    ran = run("-o", tmp_path / "calls.jsonl", "--", *command)
    before, after = (set(json.loads(out.replace("'", '"'))) for out in (alone, ran.stdout))
    assert after - before <= {"latscope", "sitecustomize"}
    assert "latscope" in after
    assert ran.stderr.startswith("latscope: 0 calls recorded")


def test_an_existing_sitecustomize_still_runs(tmp_path: Path) -> None:
    """And the rest of PYTHONPATH stays what it was."""
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.seen = __file__")
    app = "import os, sys; print(sys.seen); print(sys.modules['sitecustomize'].__file__)"
    ran = run(
        "-o", tmp_path / "calls.jsonl", "--", sys.executable, "-c", app, PYTHONPATH=str(tmp_path)
    )
    assert ran.stdout.splitlines() == [str(tmp_path / "sitecustomize.py")] * 2, ran.stderr


def test_a_python_without_latscope_says_so(tmp_path: Path) -> None:
    """As one from another environment: the program runs, unrecorded."""
    app = "print('ran')"
    ran = run("-o", tmp_path / "calls.jsonl", "--", sys.executable, "-S", "-c", app)
    assert (ran.returncode, ran.stdout) == (0, "ran\n")
    code = (
        "import sys; sys.modules['latscope'] = None\n"
        "import runpy; runpy.run_path('latscope/cli/startup/sitecustomize.py')\n"
    )
    bare = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert bare.stderr.startswith(f"latscope: nothing is recorded in {sys.executable}")


@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        (["no-such-command-here"], 127, "command not found: no-such-command-here"),
        (["/etc/hostname"], 126, "cannot run /etc/hostname"),
        (["sh", "-c", "exit 3"], 3, ""),
        (["sh", "-c", "kill -TERM $$"], 143, ""),
        (["sh", "-c", 'test "$LATSCOPE_FILE" = "$0"', "{output}"], 0, ""),
    ],
)
def test_the_exit_code_is_the_programs(
    command: list[str], code: int, said: str, tmp_path: Path
) -> None:
    """127 and 126 when there is none to run, 128 + n when signal n ended it, as in a shell."""
    path = tmp_path / "calls.jsonl"
    ran = CliRunner().invoke(
        run_command, ["-o", str(path), "--", *(part.format(output=path) for part in command)]
    )
    assert ran.exit_code == code
    assert said in ran.stderr
    assert ran.stderr.endswith(f"latscope: 0 calls recorded in {path}\n")


def test_a_file_that_cannot_be_written_is_said_before_anything_runs(tmp_path: Path) -> None:
    ran = CliRunner().invoke(
        run_command, ["-o", str(tmp_path / "missing" / "calls.jsonl"), "--", "touch", "ran"]
    )
    assert isinstance(ran.exception, InputError)
    assert "cannot be written" in str(ran.exception)


def test_a_command_is_needed() -> None:
    assert CliRunner().invoke(run_command, []).exit_code == 2


WAITS = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(9))
print("ready", flush=True)
signal.pause()
"""


def test_signals_reach_the_program(tmp_path: Path) -> None:
    """It decides what they mean, and its end is still reported."""
    path = tmp_path / "calls.jsonl"
    with start(["-o", path, "--", sys.executable, "-c", WAITS], start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (9, f"latscope: 0 calls recorded in {path}\n")
