"""Files that mix recordings, attributions and series: what comes out, and what is told."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.attribution.jsonview import KEYS, to_mapping
from latscope.documents import lines
from latscope.documents.runbooks import read
from latscope.errors import InputError
from latscope.recording import Recording, to_line
from tests.calls import stream, tokens
from tests.documents.test_runbooks import PAGE
from tests.report.samples import reported_call, retried_call

SERIES = (
    '{"schema":"latscope.series/1","at":"2026-01-01T00:00:00Z","source":"http://h/metrics",'
    '"values":{"x":1.0}}'
)
Change = Callable[[dict[str, Any]], object]


def recording() -> Recording:
    return stream(tokens(5, start=100, step=10))


def attributed(call: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(to_mapping(call or reported_call())))
    return found


def written(path: Path, *texts: str) -> Path:
    path.write_text("".join(f"{text}\n" for text in texts))
    return path


def told(path: Path) -> tuple[list[Any], list[str], list[str]]:
    problems: list[str] = []
    refused: list[str] = []
    found = list(lines.read(path, problems=problems, refused=refused))
    return found, problems, refused


def test_the_lines_of_a_file_may_be_of_any_kind(tmp_path: Path) -> None:
    call = attributed()
    turned = {key: call[key] for key in reversed(list(call))}  # schema last
    path = written(
        tmp_path / "mixed.jsonl",
        to_line(recording()),
        SERIES,
        json.dumps(call),
        "",
        json.dumps(turned, separators=(",", ":")),
    )
    found, problems, refused = told(path)
    assert isinstance(found[0], Recording)
    assert json.loads(json.dumps(found[1:])) == [call, call]
    assert not problems
    assert not refused
    assert [one.call_id for one in lines.read_recordings(path)] == [recording().call_id]


@pytest.mark.parametrize("call", [reported_call(), retried_call()])
def test_an_attribution_comes_back_as_it_was_written(call: Any) -> None:
    line = json.dumps(attributed(call)).encode()
    found = lines.understood(line)
    assert isinstance(found, dict)
    assert json.loads(json.dumps(found)) == attributed(call)


def test_unknown_keys_are_dropped_and_later_ones_may_lack() -> None:
    """As of a line that an older or a newer latscope wrote."""
    call = attributed()
    for key in ("hops", "request", "rate_limit", "service_tier", "sample", "response_id"):
        del call[key]
    del call["segments"][0]["ttft_low_ns"]
    found = lines.understood(json.dumps({**call, "news": 1}).encode())
    assert isinstance(found, dict)
    assert set(found) == set(KEYS)
    assert found["hops"] == []
    assert found["service_tier"] == {"requested": None, "served": None}
    assert found["request"] is None


FAULTS: list[tuple[Change, str]] = [
    (lambda call: call.pop("wall_ns"), "wall_ns: Field required"),
    (lambda call: call.update(wall_ns=-1), "wall_ns: Input should be greater than or equal to 0"),
    (lambda call: call.update(wall_ns=10**30), "wall_ns: Input should be less than or equal to"),
    (lambda call: call.update(schema="latscope.attribution/2"), "schema 'latscope.attribution/2'"),
    (lambda call: call["segments"][1].update(ns="x"), "segments[1].ns: Input should be a valid"),
    (lambda call: call["segments"].pop(), "segments: List should have at least 6 items"),
    (lambda call: call["segments"][0].update(name="decode"), "segments: must be queue, prefill"),
    (lambda call: call["segments"][0].update(bounds_ns=[1]), "segments[0].bounds_ns[1]: Field"),
    (lambda call: call.update(itl=3), "itl: Input should be"),
    (
        lambda call: call.update(tokens_per_chunk=float("inf")),
        "tokens_per_chunk: Input should be a",
    ),
    (lambda call: call.update(started_at="soon"), "started_at: String should match"),
    (lambda call: call.update(status="fine"), "status: Input should be 'complete'"),
    (lambda call: call.update(tags={"a": 1}), "tags.a: Input should be a valid string"),
]


@pytest.mark.parametrize(("change", "said"), FAULTS, ids=[said[:20] for _, said in FAULTS])
def test_a_line_with_a_field_out_of_range_is_left_out(
    tmp_path: Path, change: Change, said: str
) -> None:
    broken = attributed()
    change(broken)
    path = written(tmp_path / "calls.jsonl", json.dumps(attributed()), json.dumps(broken), "{}")
    found, problems, refused = told(path)
    assert len(found) == 1
    assert not problems
    assert refused[0].startswith(f"{path}:2: {said}")
    assert "\n" not in refused[0]


def test_a_quota_may_be_below_zero() -> None:
    limits = {"limit_requests": 5, "remaining_requests": -3, "limit_tokens": None}
    limits |= {"remaining_tokens": None, "retry_after_ns": None}
    line = json.dumps({**attributed(), "rate_limit": limits}).encode()
    found = lines.understood(line)
    assert isinstance(found, dict)
    assert found["rate_limit"]["remaining_requests"] == -3


def test_what_is_no_json_is_told_as_broken(tmp_path: Path) -> None:
    """The family's name in it, as in a line cut off by a killed writer."""
    whole = json.dumps(attributed())
    path = written(tmp_path / "calls.jsonl", whole, whole[:200], whole, '["latscope.attribution"')
    found, problems, refused = told(path)
    assert len(found) == 2
    assert [text.partition(": ")[0] for text in problems] == [f"{path}:2", f"{path}:4"]
    assert not refused


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ": holds no call; a file of calls holds one latscope.recording/1 or"),
        (SERIES, ": holds no call; "),
        ("[1]", ":1: not a recording but a JSON list"),
        ('{"schema": "latscope.attribution/1"}', ":1: call_id: Field required"),
        ('{"schema": 3, "x": "latscope.attribution"}', ":1: schema '3' is no recording"),
    ],
)
def test_a_file_without_a_call_is_told(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path / "calls.jsonl", text)
    with pytest.raises(InputError) as caught:
        told(path)
    assert str(caught.value).startswith(f"{path}{said}")
    with pytest.raises(InputError):
        list(lines.read_recordings(path))


def test_a_mapping_is_checked_as_a_line_is() -> None:
    call = attributed()
    assert json.loads(json.dumps(lines.checked(call, "call 1"))) == call
    with pytest.raises(InputError, match=r"^call 1: wall_ns: "):
        lines.checked({**call, "wall_ns": "x"}, "call 1")
    again = [*call["segments"][:-1], call["segments"][0]]
    with pytest.raises(InputError, match=r"^call 1: segments: must be queue"):
        lines.checked({**call, "segments": again}, "call 1")


def test_the_files_a_case_names_lie_beside_its_page(tmp_path: Path) -> None:
    text = PAGE.replace("    calls:\n", "    baseline: [{file: b.jsonl}, {n: 1}]\n    calls:\n")
    page = read(written(tmp_path / "page.md", text.rstrip()))
    written(tmp_path / "b.jsonl", to_line(recording()), json.dumps(attributed()))
    found = lines.beside(page, page.cases[0])
    assert list(found) == ["b.jsonl"]
    mine, other = found["b.jsonl"]
    assert mine == to_mapping(attribute(recording()))
    assert other["call_id"] == attributed()["call_id"]
    written(tmp_path / "b.jsonl", to_line(recording()), "{}")
    with pytest.raises(InputError, match=r"b\.jsonl:2: "):
        lines.beside(page, page.cases[0])
