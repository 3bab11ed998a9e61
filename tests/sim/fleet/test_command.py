"""`latscope sim fleet`: results on stdout, files where asked, clear refusals."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from latscope.cli.main import run
from latscope.documents.recordings import read

Capture = pytest.CaptureFixture[str]
FEW = ["sim", "fleet", "--calls", "60", "--seed", "1", "--rate", "15"]


def result(capsys: Capture, *more: str) -> dict[str, Any]:
    assert run([*FEW, "--json", *more]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def test_the_same_seed_gives_the_same_bytes(capsys: Capture) -> None:
    shown = []
    for seed in ("1", "1", "2"):
        assert run([*FEW, "--seed", seed, "--prefixes", "3", "--json"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] != shown[2]
    assert json.loads(shown[0])["schema"] == "latscope.fleet/1"
    assert len(json.loads(shown[0])["calls"]) == 60


def test_the_cost_model_comes_out_of_a_single_call(capsys: Capture) -> None:
    """Prompt 200, 12 us a token, 1 us a context token: TTFT 2400 us, 40 steps later 11660 us."""
    one = ["--calls", "1", "--arrivals", "constant", "--prompt", "200", "--prompt-spread", "0"]
    one += ["--output", "41", "--output-spread", "0", "--step-ms", "0", "--prefill-us", "12"]
    one += ["--attention-ns", "0", "--decode-us", "12", "--kv-ns", "1000"]
    (call,) = result(capsys, *one)["calls"]
    assert call["first_token_ns"] == 2_400_000
    assert call["last_token_ns"] == 11_660_000


def test_a_person_reads_times_shares_and_use(capsys: Capture) -> None:
    assert run([*FEW, "--replicas", "2", "--routing", "least-loaded"]) == 0
    shown = capsys.readouterr().out
    assert "60 calls in" in shown
    for name in ("TTFT", "ITL", "E2E", "queue", "prefill", "decode", "preemptions", "by replica"):
        assert name in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


def test_the_table_goes_to_a_file_instead(capsys: Capture, tmp_path: Path) -> None:
    """CSV or JSONL by its name, the same rows."""
    rows = result(capsys)["calls"]
    for name in ("t.csv", "t.jsonl"):
        assert "calls" not in result(capsys, "--table", str(tmp_path / name))
    with (tmp_path / "t.csv").open(newline="") as file:
        assert [{k: int(v) for k, v in row.items()} for row in csv.DictReader(file)] == rows
    lines = (tmp_path / "t.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == rows


def test_recordings_are_a_sample_that_explain_reads(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    result(capsys, "--recordings", "7", str(file), "--rtt-ms", "20")
    assert len(list(read(file))) == 7
    first = file.read_bytes()
    result(capsys, "--recordings", "7", str(file), "--rtt-ms", "20")
    assert file.read_bytes() == first, "written anew, the same bytes"
    assert run(["explain", str(file), "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["truth"]["source"][:17] for line in lines] == ["latscope sim flee"] * 7


def test_load_is_a_share_of_what_the_fleet_can_do(capsys: Capture) -> None:
    assert run([*FEW[:4], "--load", "0.5", "--json"]) == 0
    half = json.loads(capsys.readouterr().out)["workload"]
    assert run([*FEW[:4], "--load", "1.0", "--json"]) == 0
    whole = json.loads(capsys.readouterr().out)["workload"]
    assert half["rate"] == pytest.approx(whole["rate"] / 2)


def test_a_trace_is_served(capsys: Capture, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("at_s,prompt,output\n0.5,10,3\n0,20,2\n")
    assert run(["sim", "fleet", "--trace", str(trace), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["prompt_tokens"] for row in found["calls"]] == [20, 10]
    assert found["workload"] == {"trace": "trace.csv", "calls": 2, "seed": 0}
    assert run(["sim", "fleet", "--trace", str(trace)]) == 0
    assert "2 calls in" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--rate", "0"], 2, "--rate"),
        (["--rate", "1", "--load", "0.5"], 2, "give one"),
        (["--rate", "nan"], 2, "--rate: nan is no number"),
        (["--rate", "1e-300"], 2, "292 simulated years"),
        (["--max-num-batched-tokens", "8"], 2, "must not be below --max-num-seqs"),
        (["--prompt", "0"], 2, "--prompt"),
        (["--step-ms", "-1"], 2, "--step-ms"),
        (["--kv-blocks", "3"], 3, "blocks of KV memory"),
        (["--table", "{}/no/t.csv"], 3, "--table: "),
        (["--recordings", "3", "{}/no/r.jsonl"], 3, "--recordings: "),
        (["--recordings", "0", "{}/r.jsonl"], 2, "--recordings"),
        (["--trace", "{}"], 2, "--trace"),
        (["--trace", "{}/bytes"], 3, "not UTF-8"),
        (["--trace", "{}/empty"], 3, "holds no call"),
        (["--trace", "{}/good", "--rate", "1"], 2, "--trace says when"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(
    arguments: list[str], code: int, said: str, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\xff")
    (tmp_path / "empty").write_text("")
    (tmp_path / "good").write_text("at_s,prompt,output\n0,1,1\n")
    given = [text.format(tmp_path) for text in arguments]
    assert run(["sim", "fleet", "--calls", "5", *given]) == code
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = [line for line in shown.err.splitlines() if "simulating" not in line]
    assert said in line
