"""The account a vendor gets: what is in it, and what never is."""

from dataclasses import replace
from pathlib import Path

import pytest

from latscope.attribution import attribute
from latscope.cli.main import run
from latscope.documents import recordings
from latscope.report.ticket import Told, ticket
from latscope.units import MS

from . import samples

RECORDINGS = Path(__file__).parents[2] / "fixtures" / "recordings"
VLLM = RECORDINGS / "vllm-chat-stream.jsonl"
ANTHROPIC = next(RECORDINGS.glob("*anthropic*.jsonl"))


def told(path: Path) -> Told:
    recording = next(recordings.read(path))
    return Told(recording=recording, call=attribute(recording))


def text(*calls: Told) -> str:
    return "\n".join(ticket(calls, version="1"))


def test_it_names_ids_time_place_and_the_servers_own_figures() -> None:
    said = text(told(ANTHROPIC))
    assert "request-id `req_1`" in said
    assert "response `msg_1`" in said
    assert "region: cf-ray `9c-ZRH`" in said
    assert "2026-11-29T12:00:00" in said
    assert "x-envoy-upstream-service-time 39.0 ms" in said


def test_a_side_is_ruled_out_only_by_its_hard_maximum() -> None:
    said = text(told(VLLM))
    assert "The caller's process: ruled out, at most none of 262 ms" in said
    assert "The network: ruled out, at most 5.7 ms of 262 ms" in said
    assert "The server: at least 257 ms" in said
    own = text(Told(recording=told(VLLM).recording, call=samples.retried_call()))
    assert "not ruled out: at least" in own
    open_pieces = [samples.piece(50 * MS, "prefill"), samples.piece(50 * MS, "decode|network")]
    either = samples.attribution(open_pieces, 50 * MS)
    said = text(Told(recording=told(VLLM).recording, call=either))
    assert "The network: not ruled out: its share may be anything from none to 50.0 ms" in said


def test_what_only_bounds_are_known_of_has_no_figure() -> None:
    """Unknown is not nothing: a queue somewhere between nothing and 41 ms has no time."""
    row = next(line for line in text(told(ANTHROPIC)).splitlines() if line.startswith("| queue |"))
    assert row.startswith("| queue | — | — | none | 41.1 ms |")


def test_nothing_of_the_caller_is_in_it() -> None:
    """Tags, session, peer and prompt sizes are the caller's own."""
    one = told(VLLM)
    call = replace(
        one.call,
        tags={"team": "canary-tag"},
        session_id="canary-session",
        turn="canary-turn",
        connection=replace(one.call.connection, peer="10.9.8.7:1"),
    )
    said = text(Told(recording=one.recording, call=call))
    assert "canary" not in said
    assert "10.9.8.7" not in said


def test_a_failed_call_says_what_it_was_waiting_for() -> None:
    said = text(Told(recording=told(VLLM).recording, call=samples.failed_call()))
    assert "first token none came" in said
    assert "waiting for" in said


def test_several_calls_stand_one_after_the_other() -> None:
    said = text(told(VLLM), told(ANTHROPIC))
    assert said.startswith("# Slow calls to ")
    assert "## 2. " in said


def test_explain_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", str(VLLM), "--ticket"]) == 0
    assert capsys.readouterr().out.startswith("# A call to http://127.0.0.1:8000/v1/chat")
    assert run(["explain", str(VLLM), "--ticket", "--json"]) == 2
    assert "leave out --json" in capsys.readouterr().err
    assert run(["explain", str(VLLM), "--ticket", "--where", "model = other"]) == 0
    assert capsys.readouterr().out == ""
