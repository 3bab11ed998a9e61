"""Every query of the dashboard, the recording rules and the alerts, in a real Prometheus.

Two days of calls are exported by `latscope export`, laid into a Prometheus with their own times,
and asked about: on the second day everything goes wrong, so each query must have an answer and each
alert must fire; on the first day none may.
"""

import contextlib
import json
import math
import re
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs.grafana import dashboard
from latscope.attribution import attribute
from latscope.attribution.jsonview import to_mapping
from latscope.cli.main import run
from latscope.recording import Attempt, Mark, Recording, to_line
from tests.calls import DONE, attempt, call, finish, metrics, tokens, usage
from tests.engines import install, openmetrics
from tests.engines.conftest import need
from tests.engines.servers import HOST, free_port
from tests.export.otlp.collector import collecting

GRAFANA = Path(dashboard.__file__).parent
RULES = [GRAFANA / "recording-rules.yml", GRAFANA / "alert-rules.yml"]
GOOD = datetime(2026, 11, 28, 12, tzinfo=UTC)
BAD = GOOD + timedelta(days=1)
CALLS = 240
"""A day: one every 15 s for an hour."""
EVERY_S = 15
READY_S = 30


# -- the calls -------------------------------------------------------------------------------------


def answer(first: float, *, cached: int, gap: float = 0.0, queue: float | None = None) -> Any:
    """Chunks of one answer in milliseconds: forty tokens, with a gap after the twentieth."""
    step = 20.0
    body = tokens(20, start=first, step=step)
    body += [(at + gap, data) for at, data in tokens(20, start=first + 20 * step, step=step)]
    end = body[-1][0]
    details = {
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    extra = {} if queue is None else {"metrics": metrics(queue, first - queue - 20, end - first)}
    body += [(end + 1, finish()), (end + 2, usage(40, prompt=1000, details=details, **extra))]
    return [*body, (end + 3, DONE)]


def made(number: int, day: datetime, *attempts: Any, model: str) -> Recording:
    at = day + timedelta(seconds=EVERY_S * number)
    return replace(
        call(*attempts, request={"model": model, "stream": True}),
        call_id=f"{day:%d}-{model}-{number}",
        started_at=at.isoformat().replace("+00:00", "Z"),
    )


def good_day() -> Iterator[Recording]:
    for number in range(CALLS):
        yield made(number, GOOD, attempt(answer(150, cached=800, queue=30)), model="near")
        yield made(number, GOOD, attempt(answer(150, cached=800)), model="far")


def bad_day() -> Iterator[Recording]:
    """`near` queues, stalls, retries, fails and lost its cache; `far` has a slow network."""
    for number in range(CALLS):
        chunks = answer(4000, cached=50, gap=2000, queue=3500)
        late = [(at + 1000, data) for at, data in chunks]
        retried = (
            attempt(status=429, headers=300, end=310),
            attempt(late, entry=900, connect=None, sent=903, headers=1005),
        )
        yield made(number, BAD, *(retried if number % 4 else [attempt(chunks)]), model="near")
        if number % 5 == 0:
            failed = attempt([(300, b'{"error": {"type": "server_error"}}')], status=500)
            yield made(number + CALLS, BAD - timedelta(hours=1), failed, model="near")
        slow = attempt(answer(3500, cached=50), connect=3000, sent=3200, headers=3300)
        yield made(number, BAD, _connecting(slow), model="far")


def _connecting(slow: Attempt) -> Attempt:
    """The attempt, its connection begun at once: all the time until it stands is the network's."""
    marks = (
        Mark(mark.name, 10**6) if mark.name == "connect.started" else mark for mark in slow.marks
    )
    return replace(slow, marks=tuple(marks))


def with_excess(recording: Recording) -> str:
    """An attribution line that knows what load cost: no single call can."""
    line = to_mapping(attribute(recording))
    line["model"] = (recording.request or {})["model"]
    line["load_excess"] = {
        "ns": 10**9, "low_ns": 0, "high_ns": 2 * 10**9, "floor_ns": 10**8, "n": 50,
        "provenance": "probed",
    }  # fmt: skip
    return json.dumps(line)


def lines(calls: Iterator[Recording]) -> Iterator[str]:
    for number, recording in enumerate(calls):
        yield with_excess(recording) if number % 10 == 9 else to_line(recording)


# -- the Prometheus --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Prometheus:
    url: str

    def ask(self, query: str, at: datetime) -> list[dict[str, Any]]:
        """The result of an instant query; a query that is none fails."""
        form = urllib.parse.urlencode({"query": query, "time": at.timestamp()})
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/query?{form}", timeout=20) as response:
                found = json.load(response)
        except urllib.error.HTTPError as error:
            pytest.fail(f"{query}: {error.read().decode()}", pytrace=False)
        result: list[dict[str, Any]] = found["data"]["result"]
        return result


@contextlib.contextmanager
def prometheus(folder: Path) -> Iterator[Prometheus]:
    port = free_port()
    (folder / "prometheus.yml").write_text("global: {}\n")
    command = [str(install.prometheus_binary("prometheus"))]
    command += ["--config.file", str(folder / "prometheus.yml")]
    command += ["--storage.tsdb.path", str(folder / "data")]
    command += ["--storage.tsdb.retention.time", "100y", "--log.level", "warn"]
    command += ["--web.listen-address", f"{HOST}:{port}"]
    with (folder / "prometheus.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    url = f"http://{HOST}:{port}"
    try:
        for _ in range(READY_S * 10):
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/-/ready", timeout=5):
                break
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.1)
                pytest.fail((folder / "prometheus.log").read_text())
        yield Prometheus(url)
    finally:
        process.terminate()
        process.wait(20)


def promtool(*arguments: object) -> str:
    command = [str(install.prometheus_binary("promtool")), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module", name="server")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that holds both days and what the recording rules made of them."""
    need("prometheus")
    folder = tmp_path_factory.mktemp("prometheus")
    with collecting() as collector:
        for name, calls in (("good", good_day()), ("bad", bad_day())):
            file = folder / f"{name}.jsonl"
            file.write_text("\n".join(lines(calls)) + "\n")
            arguments = ["export", str(file), "--otlp", collector.url, "--no-traces"]
            assert run([*arguments, "--no-history"]) == 0
    page = folder / "page.txt"
    page.write_text(openmetrics.text(request for _, request in collector.came))
    data = folder / "data"
    promtool("tsdb", "create-blocks-from", "openmetrics", page, data)
    for _ in range(2):  # what rules make is there for other rules only once it is loaded
        with prometheus(folder) as server:
            _backfill(server, data)
    with prometheus(folder) as server:
        yield server


def _backfill(server: Prometheus, data: Path) -> None:
    hour = timedelta(hours=1)
    for day in (GOOD, BAD):
        first, last = int((day - hour).timestamp()), int((day + hour).timestamp())
        arguments = ["--start", first, "--end", last, "--eval-interval", "30s"]
        arguments += ["--url", server.url, "--output-dir", data, RULES[0]]
        promtool("tsdb", "create-blocks-from", "rules", *arguments)


# -- the queries -----------------------------------------------------------------------------------


def expressions() -> list[tuple[str, str]]:
    """(panel, query) of the dashboard, its variables filled in as Grafana does."""
    found = []
    for panel in json.loads((GRAFANA / "latscope.json").read_text())["panels"]:
        for target in panel["targets"]:
            query = target["expr"].replace("$__rate_interval", "5m")
            found.append((panel["title"], re.sub(r"\$(model|server)", ".*", query)))
    return found


def rules(file: Path, kind: str) -> list[dict[str, Any]]:
    groups = yaml.safe_load(file.read_text())["groups"]
    return [rule for group in groups for rule in group["rules"] if kind in rule]


def late(day: datetime) -> datetime:
    return day + timedelta(minutes=55)


def numbers(result: list[dict[str, Any]]) -> list[float]:
    return [float(row["value"][1]) for row in result]


def by_labels(result: list[dict[str, Any]]) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        tuple(sorted((k, v) for k, v in row["metric"].items() if k != "__name__")): value
        for row, value in zip(result, numbers(result), strict=True)
    }


@pytest.mark.parametrize(
    ("panel", "query"), expressions(), ids=[f"{n}-{p}" for n, (p, _) in enumerate(expressions())]
)
def test_every_query_of_the_dashboard_has_an_answer(
    panel: str, query: str, server: Prometheus
) -> None:
    found = numbers(server.ask(query, late(BAD)))
    assert found, f"{panel}: {query}"
    assert all(math.isfinite(value) for value in found), f"{panel}: {query}: {found}"


@pytest.mark.parametrize("rule", rules(RULES[0], "record"), ids=lambda rule: str(rule["record"]))
def test_every_recording_rule_makes_a_series(rule: dict[str, Any], server: Prometheus) -> None:
    found = by_labels(server.ask(rule["record"], late(BAD)))
    assert found
    assert all(math.isfinite(value) for value in found.values())
    # Evaluated up to half a minute before: near, not equal.
    assert found == pytest.approx(by_labels(server.ask(rule["expr"], late(BAD))), rel=0.25)


@pytest.mark.parametrize("rule", rules(RULES[1], "alert"), ids=lambda rule: str(rule["alert"]))
def test_every_alert_fires_on_the_bad_day_alone(rule: dict[str, Any], server: Prometheus) -> None:
    assert server.ask(rule["expr"], late(BAD))
    assert server.ask(rule["expr"], late(GOOD)) == []


def test_the_segments_of_an_average_call_add_up_to_its_duration(server: Prometheus) -> None:
    parts = server.ask("sum by (gen_ai_request_model) (latscope:segment_seconds:mean5m)", late(BAD))
    whole = server.ask(
        "sum by (gen_ai_request_model) (rate(gen_ai_client_inference_duration_seconds_sum[5m]))"
        " / sum by (gen_ai_request_model)"
        " (rate(gen_ai_client_inference_duration_seconds_count[5m]))",
        late(BAD),
    )
    by_model = {row["metric"]["gen_ai_request_model"]: float(row["value"][1]) for row in whole}
    assert len(by_model) == 2
    for row in parts:
        model = row["metric"]["gen_ai_request_model"]
        assert float(row["value"][1]) == pytest.approx(by_model[model], rel=0.02)


def test_promtool_finds_the_rules_sound() -> None:
    need("prometheus")
    assert promtool("check", "rules", *RULES).count("SUCCESS") == len(RULES)


def test_the_dashboard_is_what_its_script_writes() -> None:
    assert json.loads((GRAFANA / "latscope.json").read_text()) == dashboard.dashboard()


def test_every_alert_names_runbooks_that_exist() -> None:
    known = {page.stem for page in Path("runbooks").glob("*.md")}
    for rule in rules(RULES[1], "alert"):
        said = rule["annotations"].get("description", "")
        named = re.findall(r"\b[a-z]+(?:-[a-z]+)+\b", said.rpartition("unbook")[2])
        assert set(named) <= known
