"""`latscope export` into a real collector, HTTP and gRPC: what it passes on is what was sent."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from latscope.attribution import attribute
from latscope.cli.main import run
from latscope.documents import recordings
from latscope.export.otel.spans import span_rows
from latscope.export.otel.told import told
from latscope.timeline import build
from tests.engines import collector
from tests.engines.conftest import need
from tests.export.otlp.collector import Collector, collecting

PATIENCE_S = 20.0
METRIC = "gen_ai.client.inference.duration"


def come(behind: Collector, enough: Callable[[], bool]) -> None:
    until = time.monotonic() + PATIENCE_S
    while not enough() and time.monotonic() < until:
        time.sleep(0.05)


@pytest.mark.smoke
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_a_real_collector_takes_and_passes_on_every_span_and_point(
    protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    need("collector")
    file = tmp_path / "demo.jsonl"
    assert run(["demo", "--save", str(file)]) == 0
    calls = list(recordings.read(file))
    capsys.readouterr()
    with collecting() as behind:
        port = urlsplit(behind.url).port
        with collector.running(tmp_path, to=port) as between:
            at = between.http if protocol == "http" else between.grpc
            url = f"http://127.0.0.1:{at}"
            code = run(["export", str(file), "--otlp", url, "--protocol", protocol, "--json"])
            account = json.loads(capsys.readouterr().out)
            wanted = account["traces"]["taken"]
            come(behind, lambda: len(behind.spans()) >= wanted and bool(behind.points(METRIC)))
    assert code == 0
    rows = [row for call in calls for row in span_rows(told(call, build(call), attribute(call)))]
    assert wanted == len(rows)
    assert {(span.span_id.hex(), span.start_time_unix_nano) for span in behind.spans()} == {
        (row.span_id, row.start_unix_ns) for row in rows
    }
    last: dict[str, int] = {}
    for point in behind.points(METRIC):
        key = str(sorted(str(pair) for pair in point.attributes))
        last[key] = max(last.get(key, 0), point.count)
    assert sum(last.values()) == len(calls)
