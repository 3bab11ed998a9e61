"""`latscope turns` as a user meets it."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from latscope.attribution import attribute
from latscope.attribution.jsonview import to_mapping
from latscope.cli.main import run
from latscope.export.jsonl import JSONLSink
from latscope.recording import Recording
from latscope.report.turnjson import SCHEMA
from tests import calls as recorded
from tests.rules.made import call as made

Capture = pytest.CaptureFixture[str]


def call(number: int, turn: str | None = "t", **more: Any) -> Recording:
    """A streamed call of 100 ms that began `number` seconds in."""
    from dataclasses import replace

    chunks = recorded.tokens(5, start=60, step=10)
    plain = recorded.stream(
        [*chunks, (100, recorded.usage(5, prompt=40)), (100, recorded.DONE)],
        request={"model": "tiny", "messages": [{"role": "user", "content": "x" * 90}]},
        end=100.0,
    )
    return replace(
        plain,
        call_id=f"{number:032x}",
        started_at=f"2026-11-29T12:00:{number:02}.000000Z",
        turn=turn,
        **more,
    )


def save(path: Path, calls: Iterable[Recording]) -> Path:
    sink = JSONLSink(str(path))
    for each in calls:
        sink.write(each)
    sink.close()
    return path


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """Two turns: three calls a second apart, then two."""
    calls = [call(number, "first" if number < 3 else "second") for number in range(5)]
    return save(tmp_path / "calls.jsonl", calls)


def lines(capsys: Capture) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_one_turn_is_a_waterfall(tmp_path: Path, capsys: Capture) -> None:
    file = save(tmp_path / "calls.jsonl", [call(number) for number in range(3)])
    assert run(["turns", str(file)]) == 0
    said = capsys.readouterr().out
    assert "turn 1 of t" in said
    assert said.count("outside") >= 3
    assert "900 ms you" in said


def test_several_are_tables_and_the_longest(five: Path, capsys: Capture) -> None:
    assert run(["turns", str(five)]) == 0
    said = capsys.readouterr().out
    assert said.splitlines()[0].startswith("session")
    assert "── longest " in said
    assert "turn 1 of first" in said
    assert "turn 1 of second" not in said
    assert run(["turns", str(five), "--slowest", "2"]) == 0
    assert "── longest 2 of 2 " in capsys.readouterr().out
    assert run(["turns", str(five), "--all"]) == 0
    assert "── turn 2 of 2 " in capsys.readouterr().out


def test_a_session_of_several_turns_has_a_table_of_its_own(tmp_path: Path, capsys: Capture) -> None:
    calls = [call(number, f"t{number}", session="conv") for number in range(4)]
    file = save(tmp_path / "calls.jsonl", [*calls, call(9, None)])
    assert run(["turns", str(file), "--slowest", "0"]) == 0
    said = capsys.readouterr().out
    assert "── 4 turns · conv " in said
    assert "and 1 call that nothing ties to another" in said


def test_only_the_longest_sessions_are_listed(tmp_path: Path, capsys: Capture) -> None:
    file = save(tmp_path / "calls.jsonl", [call(number, f"t{number}") for number in range(12)])
    assert run(["turns", str(file), "--slowest", "0"]) == 0
    assert "and 2 more sessions; --all lists them" in capsys.readouterr().out


def test_calls_that_nothing_ties_are_told_what_would(tmp_path: Path, capsys: Capture) -> None:
    file = save(tmp_path / "calls.jsonl", [call(number, None) for number in range(2)])
    assert run(["turns", str(file)]) == 0
    assert "2 calls alone: nothing ties the calls" in " ".join(capsys.readouterr().out.split())


def test_json_is_a_session_a_line(five: Path, capsys: Capture) -> None:
    assert run(["turns", str(five), "--json"]) == 0
    found = lines(capsys)
    assert [one["session"] for one in found] == ["first", "second"]
    assert {one["schema"] for one in found} == {SCHEMA}
    assert [len(one["turns"][0]["calls"]) for one in found] == [3, 2]


def test_attribution_lines_read_the_same(five: Path, tmp_path: Path, capsys: Capture) -> None:
    from latscope.documents import recordings

    file = tmp_path / "lines.jsonl"
    found = [to_mapping(attribute(one)) for one in recordings.read(five)]
    file.write_text("".join(json.dumps(one) + "\n" for one in found), encoding="utf-8")
    assert run(["turns", str(five), "--json", "--no-history"]) == 0
    own = lines(capsys)
    assert run(["turns", str(file), "--json"]) == 0
    assert lines(capsys) == own


def test_a_selection_chooses_whole_turns(five: Path, capsys: Capture) -> None:
    assert run(["turns", str(five), "--json", "--id", f"{1:032x}"]) == 0
    (found,) = lines(capsys)
    assert (found["session"], found["calls"]) == ("first", 3)
    assert run(["turns", str(five), "--json", "--where", "turn = second"]) == 0
    assert [one["session"] for one in lines(capsys)] == ["second"]
    assert run(["turns", str(five), "--json", "--session", "sec"]) == 0
    assert [one["session"] for one in lines(capsys)] == ["second"]
    assert run(["turns", str(five), "--json", "--since", "2026-11-29T12:00:02Z"]) == 0
    assert [one["calls"] for one in lines(capsys)] == [1, 2]


def test_money_comes_from_the_file_given_or_from_the_settings(
    five: Path, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = '[[prices]]\nmodel = "tiny"\ninput = 1.0\ncached_input = 1.0\noutput = 1.0\n'
    given = tmp_path / "p.toml"
    given.write_text(table, encoding="utf-8")
    assert run(["turns", str(five), "--json", "--prices", str(given)]) == 0
    assert lines(capsys)[0]["money"]["total"] == pytest.approx(3 * 45e-6)
    home = tmp_path / "project"
    home.mkdir()
    (home / "latscope.toml").write_text(table, encoding="utf-8")
    monkeypatch.chdir(home)
    assert run(["turns", str(five), "--json"]) == 0
    assert lines(capsys)[1]["money"]["total"] == pytest.approx(2 * 45e-6)
    monkeypatch.chdir(tmp_path)
    assert run(["turns", str(five), "--json"]) == 0
    assert lines(capsys)[0]["money"]["total"] is None


def test_spans_name_the_tools(five: Path, tmp_path: Path, capsys: Capture) -> None:
    spans = tmp_path / "spans.json"
    began = 1795953600 * 10**9 + 200_000_000
    span = {
        "traceId": "a" * 32, "spanId": "b" * 16, "name": "execute_tool search",
        "startTimeUnixNano": str(began), "endTimeUnixNano": str(began + 500_000_000),
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
            {"key": "gen_ai.tool.name", "value": {"stringValue": "search"}},
            {"key": "gen_ai.tool.call.arguments", "value": {"stringValue": "a secret"}},
        ],
    }  # fmt: skip
    document = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    spans.write_text(json.dumps(document), encoding="utf-8")
    assert run(["turns", str(five), "--json", "--spans", str(spans)]) == 0
    out = capsys.readouterr().out
    gap = json.loads(out.splitlines()[0])["turns"][0]["gaps"][0]
    assert gap["tools"] == [{"name": "search", "ns": 500_000_000}]
    assert "secret" not in out


def test_a_profile_says_what_a_token_takes(
    five: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from latscope.cli import turns
    from tests.attribution.test_estimate import profile

    known = profile()
    key = (known.model, known.endpoint)
    assert known.floor is not None
    assert turns._rates([_named(key)], [known]) == {key: known.floor.terms.linear_ns}
    assert turns._rates([_named(("other", "e"))], [known]) == {("other", "e"): None}


def _named(key: tuple[str, str]) -> Mapping[str, Any]:
    return made("c", model=key[0], endpoint=key[1])


def test_the_slope_of_the_file_is_used_without_a_profile() -> None:
    from latscope.cli import turns

    found = [
        made(f"c{size}", input_tokens=size, cached_tokens=0, ttft=size * 100_000, sent=0)
        for size in range(100, 1100, 100)
    ]
    (rate,) = turns._rates(found, []).values()
    assert rate == pytest.approx(100_000)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        ([], 2, "turns needs a file of calls, or - for stdin"),
        (["FILE", "--id", "zz"], 3, "no call has an id that starts with 'zz'"),
        (["FILE", "--session", "zz"], 3, "no session has a name that starts with 'zz'"),
        (["FILE", "--where", "model = none"], 0, "no call matches"),
        (["FILE", "--where", "bogus = 1"], 2, "bogus"),
        (["FILE.none"], 3, "cannot be read"),
        (["FILE", "--prices", "none.toml"], 2, "does not exist"),
        (["FILE", "--spans", "none.json"], 3, "none.json"),
    ],
)
def test_what_is_wrong_is_one_line(
    five: Path, arguments: list[str], code: int, said: str, capsys: Capture
) -> None:
    given = [argument.replace("FILE", str(five)) for argument in arguments]
    assert run(["turns", *given]) == code
    told = capsys.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert said in told.err


def test_an_empty_file_and_one_of_another_kind(tmp_path: Path, capsys: Capture) -> None:
    for text in ("", "hello\n"):
        file = tmp_path / "x"
        file.write_text(text, encoding="utf-8")
        assert run(["turns", str(file)]) == 3
        assert capsys.readouterr().err.count("\n") == 1
