"""Traffic drawn from a seed, and traces."""

from dataclasses import replace
from itertools import pairwise
from statistics import mean, median, quantiles

import pytest

from latscope.errors import InputError
from latscope.sim.fleet.arrivals import Call, Workload, drawn, parse
from latscope.units import S

MANY = Workload(calls=4000, rate=20.0)


def test_poisson_arrivals_have_the_rate_and_the_spread_of_one() -> None:
    """Gaps of an exponential: mean 50 ms, median ln 2 of it."""
    at = [call.at_ns for call in drawn(MANY)]
    gaps = [after - before for before, after in pairwise(at)]
    assert mean(gaps) == pytest.approx(S / 20, rel=0.05)
    assert median(gaps) == pytest.approx(0.693 * S / 20, rel=0.06)


def test_constant_and_burst_arrivals_keep_the_rate() -> None:
    constant = [call.at_ns for call in drawn(replace(MANY, pattern="constant", calls=5))]
    assert constant == [n * S // 20 for n in range(5)]
    burst = [call.at_ns for call in drawn(replace(MANY, pattern="burst", burst=2, calls=5))]
    assert burst == [0, 0, S // 10, S // 10, S // 5]


def test_lengths_have_their_median_and_spread() -> None:
    calls = list(drawn(MANY))
    assert median(call.prompt for call in calls) == pytest.approx(512, rel=0.05)
    assert median(call.output for call in calls) == pytest.approx(128, rel=0.05)
    cuts = quantiles((call.prompt for call in calls), n=100)
    assert cuts[83] / cuts[15] == pytest.approx(4.06, rel=0.15)  # e ** (2 sigma), sigma 0.7
    fixed = drawn(replace(MANY, prompt_spread=0, output_spread=0))
    assert {(call.prompt, call.output, call.cap) for call in fixed} == {(512, 128, 128)}


def test_one_setting_leaves_the_other_draws_alone() -> None:
    """More prefixes or longer outputs move no arrival and change no prompt."""
    plain = list(drawn(MANY))
    other = list(drawn(replace(MANY, output=999, prefixes=5, prefix_tokens=64)))
    assert [call.at_ns for call in other] == [call.at_ns for call in plain]
    assert [call.prompt - 64 for call in other] == [call.prompt for call in plain]
    assert {call.prefix for call in other} == {f"prefix-{n}" for n in range(5)}


CSV = """at_s,prompt,output,max_tokens,prefix,shared,session,priority
1.5,100,20,50,a,64,,1
0.25,80,9,,,,s,

2,70,5,3,,,,
"""
CALLS = [
    Call(S // 4, 80, 9, 9, session="s"),
    Call(3 * S // 2, 100, 20, 50, "a", 64, None, 1),
    Call(2 * S, 70, 3, 3),
]


def test_a_csv_trace_is_read_in_order_of_arrival() -> None:
    """Blank lines and empty cells are nothing; max_tokens caps the output."""
    assert parse(CSV.splitlines(keepends=True), name="t.csv") == CALLS


def test_a_jsonl_trace_is_read_the_same() -> None:
    lines = [
        '{"at_s": 1.5, "prompt": 100, "output": 20, "max_tokens": 50, "prefix": "a",'
        ' "shared": 64, "priority": 1}',
        '{"at_s": 0.25, "prompt": 80, "output": 9, "session": "s", "unknown": [1]}',
        "",
        '{"at_s": 2, "prompt": 70, "output": 5, "max_tokens": 3}',
    ]
    assert parse(lines, name="t.jsonl") == CALLS


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "t: holds no call"),
        ("at_s,prompt,output\n", "t: holds no call"),
        ("at_s,prompt\n1,2\n", "t:1: no column output"),
        ("at_s,prompt,output\n1,0,5\n", "t:2: prompt: '0' is no whole number from 1"),
        ("at_s,prompt,output\n\n1,5,x\n", "t:3: output: 'x' is no whole number"),
        ("at_s,prompt,output\n1,5\n", "t:2: output: None is no whole number"),
        ("at_s,prompt,output\n-1,5,5\n", "t:2: at_s: '-1' is no time in seconds"),
        ("at_s,prompt,output\nnan,5,5\n", "t:2: at_s: 'nan' is no time"),
        ("at_s,prompt,output\nsoon,5,5\n", "t:2: at_s: 'soon' is no time"),
        ("at_s,prompt,output\n1,99999999999,5\n", "t:2: prompt: '99999999999' is no whole"),
        ("at_s,prompt,output,shared\n1,5,5,3\n", "t:2: shared: 3 tokens of no prefix"),
        ("at_s,prompt,output,shared,prefix\n1,5,5,6,a\n", "t:2: shared: 6 tokens of no prefix"),
        ('{"at_s": 1, "prompt": 5, "output": 5}\n[1]\n', "t:2: not an object but a JSON list"),
        ('{"at_s": 1, "prompt"\n', "t:1: not JSON"),
        ('{"at_s": [], "prompt": 5, "output": 5, "x": 1}\n{}', "t:2: prompt: None is no whole"),
    ],
)
def test_a_bad_trace_is_told_by_file_line_and_field(text: str, said: str) -> None:
    with pytest.raises(InputError) as caught:
        parse(text.splitlines(keepends=True), name="t")
    assert str(caught.value).startswith(said)
