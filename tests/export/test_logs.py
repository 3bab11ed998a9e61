"""The sink in the application's log."""

import logging

import pytest

from latscope.documents.recordings import read
from latscope.export.logs import LoggingSink
from latscope.recording import Recording
from tests.test_fixtures import FOLDER


@pytest.fixture
def call() -> Recording:
    (found,) = read(FOLDER / "vllm-chat-stream.jsonl")
    return found


def test_a_call_is_a_line_with_its_figures(
    call: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "latscope.calls")
    LoggingSink().write(call)
    (record,) = caplog.records
    told = record.__dict__["latscope"]
    assert record.levelno == logging.INFO
    assert record.name == "latscope.calls"
    assert told["id"] == call.call_id
    assert told["status"] == "complete"
    assert told["e2e_ms"] >= told["ttft_ms"] > 0
    segments = {name: told[name] for name in told if name.endswith("_ms")}
    rest = sum(segments.values()) - told["ttft_ms"] - told["e2e_ms"]
    assert rest == pytest.approx(told["e2e_ms"], abs=0.01)
    assert f"ttft_ms={told['ttft_ms']}" in record.getMessage()
    assert "None" not in record.getMessage()


def test_a_call_that_went_wrong_is_a_warning(
    call: Recording, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where calls that went well are not logged."""
    (failed,) = read(FOLDER / "vllm-chat-error.jsonl")
    logger = logging.getLogger("app")
    caplog.set_level(logging.WARNING, "app")
    sink = LoggingSink(logger, logging.DEBUG)
    sink.write(failed)
    sink.write(call)
    assert [(record.name, record.levelno) for record in caplog.records] == [("app", 30)]


def test_a_logger_that_is_off_costs_nothing(
    call: Recording, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("latscope.export.logs.build", None)
    logger = logging.getLogger("off")
    logger.setLevel(logging.CRITICAL)
    LoggingSink(logger).write(call)
