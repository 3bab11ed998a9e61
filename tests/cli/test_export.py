"""`latscope export`, as a user sees it."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.attribution.jsonview import to_mapping
from latscope.cli.main import run
from latscope.recording import Trace, to_line
from tests.calls import DONE, finish, stream, tokens, usage
from tests.export.otlp.collector import Reply, collecting, partial_points, partial_spans

SECRET = "key-of-the-collector"


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENDPOINT", "HEADERS", "PROTOCOL", "TRACES_ENDPOINT"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)


def calls(n: int) -> Iterator[Any]:
    for number in range(n):
        chunks = [*tokens(3, start=20, step=5), (40.0, finish()), (40.5, usage(3)), (41.0, DONE)]
        yield replace(
            stream(chunks, request={"model": "tiny", "stream": True}),
            call_id=f"call-{number}",
            started_at=f"2026-11-29T12:00:{number:02}Z",
        )


@pytest.fixture(name="file")
def made_file(tmp_path: Path) -> Path:
    """Three recordings, an attribution line, a series, a damaged line."""
    one, two, three, four = calls(4)
    path = tmp_path / "calls.jsonl"
    lines = [to_line(call) for call in (one, two, three)]
    lines += [json.dumps(to_mapping(attribute(four)))]
    lines += ['{"schema": "latscope.series/1", "at": "2026-11-29T12:00:00Z", "source": "s"}']
    path.write_text("\n".join(lines) + "\n{cut\n")
    return path


def latscope(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = run([str(argument) for argument in arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_recordings_become_traces_and_metrics(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with collecting() as collector:
        code, out, err = latscope(capsys, "export", file, "--otlp", collector.url)
    assert code == 0
    traces, metrics = out.splitlines()
    assert traces.startswith(f"traces: {len(collector.spans())} spans of 4 calls taken by")
    assert metrics.startswith("metrics: ")
    roots = {span.trace_id for span in collector.spans() if not span.parent_span_id}
    assert len(roots) == 3
    assert collector.points("gen_ai.client.inference.duration")[-1].count == 1  # of the line
    assert "1 line of latscope.attribution/1" in err
    assert "calls.jsonl:6" in err  # the damaged one


def test_json_is_one_line_with_every_count(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with collecting() as collector:
        code, out, _ = latscope(capsys, "export", file, "--otlp", collector.url, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "latscope.export/1"
    assert (found["calls"], found["attribution_lines"], found["left_out"]) == (4, 1, 1)
    assert found["traces"]["taken"] == len(collector.spans())
    assert found["metrics"]["given_up"] is None


def test_the_selection_and_the_signals_are_the_users(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with collecting() as collector:
        code, out, _ = latscope(
            capsys, "export", file, "--otlp", collector.url, "--id", "call-1", "--no-metrics"
        )
    assert code == 0
    assert "of 1 call taken" in out
    assert {signal for signal, _ in collector.came} == {"traces"}


def test_what_the_collector_refuses_is_told_and_is_no_success(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rejecting = Reply(body=partial_spans(2, "too old")), Reply(body=partial_points(3, "no room"))
    with collecting([rejecting[0]], [rejecting[1]]) as collector:
        code, out, err = latscope(capsys, "export", file, "--otlp", collector.url)
    assert code == 3
    assert "2 spans refused" in out
    assert f"{collector.url}/v1/traces: 2 spans refused: too old" in err
    assert f"{collector.url}/v1/metrics: 3 points refused: no room" in err


def test_a_busy_collector_is_asked_again(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    busy = Reply(status=503, headers=(("retry-after", "0"),))
    with collecting([busy, busy]) as collector:
        code, out, err = latscope(capsys, "export", file, "--otlp", collector.url, "--no-metrics")
    assert code == 0
    assert "in 3 requests; 2 of them repeated" in out
    assert err.count("503 Service Unavailable; asking again in 0 s") == 2


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(status=429, headers=(("retry-after", "3600"),)), "429 Too Many Requests"),
        (Reply(status=503), "503 Service Unavailable"),
        (Reply(how="hang"), "no answer in 0.2 s"),
        (Reply(how="reset"), "cannot be reached"),
    ],
)
def test_a_collector_that_stays_away_is_one_line_and_exit_3(
    reply: Reply,
    why: str,
    file: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "0.2")
    with collecting([reply] * 9, [reply] * 9) as collector:
        code, out, err = latscope(
            capsys, "export", file, "--otlp", collector.url, "--patience", "0"
        )
    assert code == 3
    assert out == ""
    assert collector.came == []
    assert err.splitlines()[-1].startswith(f"latscope: {collector.url} cannot be reached")
    assert why in err.splitlines()[-1]


@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_nobody_there_is_one_line_and_exit_3(
    protocol: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    code, out, err = latscope(capsys, "export", file, "--otlp", url, "--protocol", protocol)
    assert (code, out) == (3, "")
    assert err.splitlines()[-1].startswith(f"latscope: {url} cannot be reached")


def test_a_refused_key_is_told_and_never_shown(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with collecting([Reply(status=401)], [Reply(status=401)]) as collector:
        code, out, err = latscope(
            capsys, "export", file, "--otlp", collector.url, "--headers", f"api-key={SECRET}"
        )
    assert code == 3
    assert "takes no traces: 401 Unauthorized" in err
    assert collector.headers[0]["api-key"] == SECRET
    assert SECRET not in out + err


def test_address_and_headers_come_from_the_environment(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with collecting() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"api-key={SECRET}")
        code, _, _ = latscope(capsys, "export", file)
    assert code == 0
    assert {found["api-key"] for found in collector.headers} == {SECRET}


def test_without_an_address_nothing_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = latscope(capsys, "export", "/nowhere.jsonl")
    assert (code, out) == (2, "")
    assert "give --otlp" in err


def test_nothing_to_send_is_wrong_usage(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = latscope(
        capsys, "export", file, "--otlp", "http://h", "--no-traces", "--no-metrics"
    )
    assert code == 2
    assert "leave nothing to send" in err


def test_no_call_that_matches_is_told(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with collecting() as collector:
        code, _, err = latscope(
            capsys, "export", file, "--otlp", collector.url, "--where", "model=other"
        )
    assert code == 3
    assert "no call matches" in err
    assert collector.came == []


def test_calls_whose_ids_are_none_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = calls(2)
    file = tmp_path / "calls.jsonl"
    broken = replace(one, trace=Trace(trace_id="zz", span_id="11" * 8))
    file.write_text(to_line(broken) + "\n" + to_line(two) + "\n")
    with collecting() as collector:
        code, _, err = latscope(capsys, "export", file, "--otlp", collector.url)
    assert code == 0
    assert "1 call with ids that are none: no spans" in err
    assert len({span.trace_id for span in collector.spans()}) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["export", "FILE", "--otlp", "http://127.0.0.1:9"],
        ["join", "FILE", "--listen", "127.0.0.1:0"],
        ["probe", "http://127.0.0.1:9", "-m", "m", "--receive-spans", "127.0.0.1:0"],
    ],
    ids=lambda arguments: str(arguments[0]),
)
def test_without_the_extra_it_is_named(arguments: list[str], file: Path) -> None:
    program = (
        "import sys; sys.modules['opentelemetry.proto'] = None;"
        "from latscope.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", program, *arguments]
    named = [str(file) if part == "FILE" else part for part in command]
    done = subprocess.run(named, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith("needs an extra: pip install 'latscope[otel]'\n")


def test_an_interrupt_keeps_what_was_sent_and_says_so(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from latscope.export.otlp.exporter import Exporter

    monkeypatch.setattr("latscope.export.otlp.exporter.MOST_SPANS", 1)
    taken = Exporter.take

    def interrupted(self: Exporter, call: Any, *rest: Any) -> None:
        if call.call_id == "call-2":
            raise KeyboardInterrupt
        taken(self, call, *rest)

    monkeypatch.setattr(Exporter, "take", interrupted)
    with collecting() as collector:
        code, out, err = latscope(capsys, "export", file, "--otlp", collector.url)
    assert code == 130
    assert out.startswith(f"traces: {len(collector.spans())} spans of 2 calls")
    assert "no metrics were sent" in err
