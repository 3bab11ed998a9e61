"""Every endpoint or file a user can get wrong: one clear line, the right code, nothing lost.

Real sockets throughout; the server sends exactly the scripted bytes.
"""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from latscope.cli.main import run
from latscope.documents import recordings
from tests.probe.scripted import Reply, answer, chunk, error, good, opened, serving, sse, usage


class Said:
    """What a command printed: stdout's lines, stderr's lines, its exit code."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out.splitlines(), err.splitlines()

    @property
    def calls(self) -> list[Any]:
        return [json.loads(line) for line in self.out]

    @property
    def text(self) -> str:
        return "\n".join(self.err)


@pytest.fixture
def latscope(capsys: pytest.CaptureFixture[str]) -> Any:
    def command(*arguments: str) -> Said:
        code = run(list(arguments))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        assert all(line.startswith("latscope: ") for line in err.splitlines())
        return Said(code, out, err)

    return command


def probe(*more: str) -> list[str]:
    return ["--model", "tiny", "-n", "1", "--no-warm-up", "--json", *more]


CUT = [opened() + sse(chunk("one"), chunk(" two"))]
IN_BAND = answer(sse(chunk("one"), {"error": {"message": "out of memory", "type": "oom"}}))
PAGE = answer("<!DOCTYPE html><html><body>Log in</body></html>", kind="text/html")
DISGUISED = answer("<html><body>Log in</body></html>")

REPLIES: dict[str, tuple[Reply, str, str]] = {
    "wrong path": (
        answer('{"detail":"Not Found"}', status="404 Not Found", kind="application/json"),
        "answered 404: check the URL's path and --api",
        "error",
    ),
    "401": (error("401 Unauthorized", "bad key sk-12345678"), "the key was refused", "error"),
    "403": (error("403 Forbidden", "no"), "the key was refused: name the key's", "error"),
    "429": (error("429 Too Many Requests", "slow down"), "(no retry-after)", "error"),
    "429 with retry-after": (
        error("429 Too Many Requests", "slow down", headers={"retry-after": "7"}),
        "it asks to wait 7 s",
        "error",
    ),
    "500": (error("500 Internal Server Error", "boom"), "answered 500: boom (see the", "error"),
    "400": (error("400 Bad Request", "too long"), "answered 400: too long (change", "error"),
    "502 page": (answer("<h1>Bad</h1>", status="502 Bad Gateway"), "answered 502 (see", "error"),
    "redirect": (
        answer("", status="308 Permanent Redirect", headers={"location": "https://h/x?k=v"}),
        "moved to https://h/x: probe that address",
        "error",
    ),
    "web page": (PAGE, "answered with a web page instead of the API", "error"),
    "web page as a stream": (DISGUISED, "answered with a web page", "error"),
    "empty 200": (answer(""), "answered 200 with an empty body", "cut"),
    "cut stream": (CUT, "ended the stream before its terminal event", "cut"),
    "error in a 200": (IN_BAND, "an error inside the answer, oom: out of memory", "error"),
    "no answer": (b"", "dropped the connection before answering", "error"),
}


@pytest.mark.parametrize("name", REPLIES)
def test_a_bad_answer_is_one_line_and_still_a_call(name: str, latscope: Any) -> None:
    """The line says what and where; stdout holds the failed call; the code is 3."""
    reply, line, status = REPLIES[name]
    with serving(reply) as server:
        said = latscope("probe", server.url, *probe())
    assert said.code == 3
    assert line in said.err[-1]
    assert server.url in said.err[-1] or f"127.0.0.1:{server.port}" in said.err[-1]
    assert len(said.err) == 2
    if name in ("web page", "web page as a stream", "redirect"):
        assert said.calls[0]["status"] in ("error", "cut")
    else:
        assert [call["status"] for call in said.calls] == [status]
    assert "sk-12345678" not in said.text


def test_an_unresolvable_host(latscope: Any) -> None:
    """The host is named."""
    said = latscope("probe", "http://no-such-host.invalid", *probe())
    assert said.code == 3
    assert "cannot resolve the host no-such-host.invalid" in said.err[-1]
    assert said.calls[0]["error"]["phase"] == "connect"


def test_a_refused_port(latscope: Any) -> None:
    """Host and port are named."""
    with serving(good()) as server:
        port = server.port
    said = latscope("probe", f"http://127.0.0.1:{port}", *probe())
    assert said.code == 3
    assert f"127.0.0.1:{port} refused the connection" in said.err[-1]


def test_a_tls_failure(latscope: Any) -> None:
    """https:// to a server that speaks none."""
    with serving(answer("")) as server:
        said = latscope("probe", f"https://127.0.0.1:{server.port}", *probe())
    assert said.code == 3
    assert f"TLS to 127.0.0.1:{server.port} failed" in said.err[-1]


SILENCES: dict[str, tuple[list[bytes], str, str]] = {
    "headers": ([], "the response headers", "headers"),
    "first token": ([opened()], "the first token", "first_token"),
    "stream": ([opened() + sse(chunk("one"))], "the next part of the stream", "stream"),
}


@pytest.mark.parametrize("name", SILENCES)
def test_a_silence_names_the_phase_that_was_waiting(name: str, latscope: Any) -> None:
    """Total silence ends the call after --timeout; the line and the call name the phase."""
    sent, words, phase = SILENCES[name]
    with serving([*sent, threading.Event()]) as server:
        said = latscope("probe", server.url, *probe("--timeout", "0.4"))
    assert said.code == 3
    assert f"was silent for 0.4 s while waiting for {words}" in said.err[-1]
    assert said.calls[0]["status"] == "error"
    assert said.calls[0]["error"]["phase"] == phase


def test_an_unknown_model_lists_what_is_offered(latscope: Any) -> None:
    """The nearest name first."""
    message = "The model `tiny` does not exist."
    with serving(error("404 Not Found", message), models=["large", "tiny-2"]) as server:
        said = latscope("probe", server.url, *probe())
    assert said.code == 3
    assert "has no model 'tiny'" in said.text
    assert "models on offer: tiny-2, large" in said.text


def test_some_failures_do_not_fail_the_probe(latscope: Any) -> None:
    """One completed call is enough for 0; the failed one is a line too; the warm-up never is."""
    bad = error("500 Internal Server Error", "boom")
    with serving(bad, good(), bad, good()) as server:
        said = latscope("probe", server.url, "--model", "tiny", "-n", "3", "--json")
    assert said.code == 0
    assert [call["status"] for call in said.calls] == ["complete", "error", "complete"]
    assert "warm-up, not counted" in said.text


def test_a_refused_parameter_is_asked_again_once(latscope: Any) -> None:
    """The endpoint's spelling is used from then on, and said; the refusal is no measured call."""
    refusal = error("400 Bad Request", "Unsupported parameter: 'max_tokens'", param="max_tokens")
    with serving(refusal, good()) as server:
        said = latscope("probe", server.url, "--model", "tiny", "-n", "2", "--json")
    assert said.code == 0
    assert "asking again max_completion_tokens instead of max_tokens" in said.text
    assert [call["status"] for call in said.calls] == ["complete"] * 2
    caps = [[name for name in body if name.startswith("max_")] for body in server.bodies]
    assert caps == [["max_tokens"], *[["max_completion_tokens"]] * 3]


def test_reasoning_that_eats_the_cap_is_told(latscope: Any) -> None:
    """The call completed, yet nothing visible came: what to set is said."""
    frames = sse(chunk(reasoning="hm"), chunk(finish="length"), usage(64, 64), "[DONE]")
    with serving(answer(frames)) as server:
        said = latscope("probe", server.url, *probe())
    assert said.code == 0
    assert "reasoning used all 64 tokens of the cap" in said.err[-1]
    assert "max_tokens was 64" in said.err[-1]


def test_a_key_is_nowhere(latscope: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not on the screen, not in the file, though the server repeats it."""
    secret = "sk-canary-0123456789"
    monkeypatch.setenv("MY_KEY", secret)
    file = tmp_path / "calls.jsonl"
    with serving(error("500 Internal Server Error", f"who is {secret}")) as server:
        said = latscope(
            "probe", server.url, *probe("--key-env", "MY_KEY", "--save", str(file)),
            "-H", "X-Extra: canary-9876543210",
        )  # fmt: skip
    assert server.asked[0].headers["authorization"] == f"Bearer {secret}"
    assert server.asked[0].headers["x-extra"] == "canary-9876543210"
    for text in (said.text, "\n".join(said.out), file.read_text()):
        assert "canary" not in text
    assert file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--model", "m", "--rate", "1", "--concurrency", "2"], "not both"),
        (["--model", "m", "-H", "no colon"], "needs 'Name: value'"),
        (["--model", "m", "--extra-body", "{"], "no JSON"),
        (["--model", "m", "--extra-body", "[1]"], "must be a JSON object"),
        (["--model", "m", "--prompt", "x", "--prompt-tokens", "9"], "one of --prompt,"),
        (["--model", "m", "--prompt", " "], "the prompt is empty"),
        (["--model", "m", "-n", "0"], "Invalid value for '-n'"),
        ([], "Missing option"),
    ],
)
def test_wrong_usage_is_two(arguments: list[str], line: str, latscope: Any) -> None:
    """Before anything is sent."""
    said = latscope("probe", "http://127.0.0.1:9", *arguments)
    assert (said.code, said.out) == (2, [])
    assert line in said.err[-1]


def test_a_file_that_cannot_be_saved_to_fails_before_the_calls(latscope: Any) -> None:
    """Nothing is measured in vain."""
    with serving(good()) as server:
        said = latscope("probe", server.url, *probe("--save", "/no/such/folder/calls.jsonl"))
        assert server.asked == []
    assert said.code == 3
    assert "--save: /no/such/folder/calls.jsonl cannot be written" in said.err[-1]


@pytest.fixture
def recorded(tmp_path: Path, latscope: Any) -> Path:
    """Two recorded calls."""
    file = tmp_path / "calls.jsonl"
    with serving(good()) as server:
        latscope("probe", server.url, "--model", "tiny", "-n", "1", "--save", str(file), "--json")
    assert len(list(recordings.read(file))) == 2
    return file


def test_a_broken_last_line_costs_itself_only(recorded: Path, latscope: Any) -> None:
    """The rest is read, the loss is said, the code is 0."""
    whole = recorded.read_bytes()
    recorded.write_bytes(whole[:-200])
    said = latscope("explain", str(recorded), "--json")
    assert said.code == 0
    assert len(said.calls) == 1
    assert len(said.err) == 1
    assert str(recorded) in said.err[0]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda call: call.update(schema="latscope.recording/9"), "latscope.recording/9"),
        (lambda call: call["target"].update(port=-5), "port"),
        (lambda call: call["attempts"][0].update(status="many"), "status"),
    ],
    ids=["version", "range", "type"],
)
def test_a_bad_line_costs_itself_only(
    change: Any, line: str, recorded: Path, latscope: Any
) -> None:
    """The rest is shown; one line names file, line and field; the code is 3."""
    lines = recorded.read_text().splitlines()
    call = json.loads(lines[1])
    change(call)
    recorded.write_text(f"{lines[0]}\n{json.dumps(call)}\n{lines[1]}\n")
    said = latscope("explain", str(recorded), "--json")
    assert said.code == 3
    assert len(said.calls) == 2
    assert len(said.err) == 1
    assert f"{recorded}:2" in said.err[0]
    assert line in said.err[0]


def test_many_bad_lines_are_counted(recorded: Path, latscope: Any) -> None:
    """A file half of another version does not flood the terminal."""
    whole = recorded.read_text()
    recorded.write_text(whole + '{"schema": "latscope.recording/9"}\n' * 13)
    said = latscope("explain", str(recorded), "--json")
    assert (said.code, len(said.calls), len(said.err)) == (3, 2, 11)
    assert "upgrade latscope to read it; left out" in said.err[0]
    assert said.err[-1] == "latscope: and 3 more lines left out"


def test_a_file_of_another_version_is_one_line(recorded: Path, latscope: Any) -> None:
    """Nothing could be read, so nothing was left out: the first line's fault is the file's."""
    recorded.write_text('{"schema": "latscope.recording/9"}\n' * 13)
    said = latscope("explain", str(recorded))
    assert (said.code, said.out, len(said.err)) == (3, [], 1)
    assert "upgrade latscope to read it; nor can any of the 12 after it" in said.err[0]


@pytest.mark.parametrize("how", [(), ("--json",), ("--json", "--slowest", "1")])
def test_an_id_that_no_call_has_is_told(
    how: tuple[str, ...], recorded: Path, latscope: Any
) -> None:
    """The same line and code, whatever the form of the result."""
    said = latscope("explain", str(recorded), "--id", "zzz", *how)
    assert (said.code, said.out) == (3, [])
    assert said.err == ["latscope: no call has an id that starts with 'zzz'"]


def test_an_id_that_no_call_has_hides_no_other_trouble(
    recorded: Path, latscope: Any, tmp_path: Path
) -> None:
    """A file that could not be read may be where the call is."""
    said = latscope("explain", str(tmp_path / "nope"), str(recorded), "--id", "zzz")
    assert said.code == 3
    assert "cannot be read" in said.err[0]
    assert "starts with 'zzz'" in said.err[1]


def test_a_bad_file_does_not_hide_the_next(recorded: Path, latscope: Any, tmp_path: Path) -> None:
    """Every file that can be read is."""
    said = latscope("explain", str(tmp_path / "nope.jsonl"), str(recorded), "--json")
    assert (said.code, len(said.calls)) == (3, 2)
    assert "nope.jsonl: cannot be read" in said.err[0]


@pytest.mark.parametrize("content", ["", "\n", "hello\n", "{}\n"])
def test_what_is_no_recording_is_said_to_be_none(
    content: str, latscope: Any, tmp_path: Path
) -> None:
    """Empty, text, other JSON."""
    file = tmp_path / "calls.jsonl"
    file.write_text(content)
    said = latscope("explain", str(file))
    assert (said.code, said.out, len(said.err)) == (3, [], 1)
    assert str(file) in said.err[0]
