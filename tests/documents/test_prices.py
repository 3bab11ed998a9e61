"""Prices: the user's, then genai-prices; unknown is never 0."""

import builtins
import sys
from pathlib import Path
from typing import Any

import pytest

from latscope.documents.prices import Prices, of_table, read
from latscope.errors import InputError

OPENAI = "https://api.openai.com:443/v1/chat/completions"
ANTHROPIC = "https://api.anthropic.com:443/v1/messages"
OWN = [{"model": "tiny*", "input": 2.0, "cached_input": 0.5, "cache_write": 3.0, "output": 10.0}]


def called(**more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {
        "model": "tiny",
        "endpoint": "http://127.0.0.1:8000/v1/chat/completions",
        "started_at": "2026-11-01T00:00:00Z",
        "input_tokens": 1000,
        "cached_tokens": 400,
        "cache_write_tokens": 100,
        "output_tokens": 50,
        "reasoning_tokens": 20,
    }
    return {**given, **more}


def own(rows: Any = None) -> Prices:
    return of_table(OWN if rows is None else rows, "prices.toml")


def test_money_is_split_by_what_was_paid_for() -> None:
    found = own().money(called())
    parts = {name: value for name, value in found.items() if isinstance(value, float)}
    assert parts == pytest.approx(
        {
            "total": 0.0012 - 0.0002 + 0.0002 + 0.0003 + 0.0005,
            "uncached_input": 500 * 2e-6,
            "cached_input": 400 * 0.5e-6,
            "cache_write": 100 * 3e-6,
            "output": 50 * 10e-6,
            "reasoning": 20 * 10e-6,
            "visible": 30 * 10e-6,
        }
    )
    assert (found["currency"], found["source"], found["why"]) == ("USD", "prices.toml", "")


def test_a_price_that_is_not_given_makes_the_total_unknown() -> None:
    found = own([{"model": "*", "input": 2.0}]).money(called())
    assert (found["total"], found["cached_input"], found["output"]) == (None, None, None)
    assert found["uncached_input"] == pytest.approx(0.001)
    assert found["why"] == "no price of: cached input, cache write, output"


def test_what_did_not_happen_costs_nothing() -> None:
    none = called(cached_tokens=0, cache_write_tokens=None, output_tokens=0, reasoning_tokens=0)
    found = own([{"model": "*", "input": 2.0}]).money(none)
    assert found["total"] == pytest.approx(0.002)
    assert (found["cached_input"], found["cache_write"]) == (0.0, 0.0)


def test_usage_that_is_not_stated_is_unknown() -> None:
    found = own().money(called(input_tokens=None))
    assert (found["total"], found["why"]) == (None, "the answer states no usage")
    found = own().money(called(cached_tokens=None))
    assert found["total"] is None
    assert found["why"] == "the answer does not state how many tokens came from the cache"
    same = own([{**OWN[0], "cached_input": 2.0}]).money(called(cached_tokens=None))
    assert same["total"] is not None
    assert own().money(called(reasoning_tokens=None))["visible"] is None
    assert own().money(called(model=None))["why"] == "the model is not known"


def test_the_first_row_that_fits_counts() -> None:
    rows = [
        {"model": "tiny", "host": "elsewhere", "input": 9.0},
        {"model": "ti*", "input": 1.0, "currency": "EUR"},
        {"model": "*", "input": 2.0},
    ]
    found = own(rows).money(called())
    assert (found["currency"], found["rates"]["input"]) == ("EUR", 1e-6)
    other = own(rows).money(called(model="other"))
    assert other["rates"]["input"] == 2e-6
    at_host = own([{"model": "*", "host": "127.0.0.1", "input": 5.0}]).money(called())
    assert at_host["rates"]["input"] == 5e-6


def test_a_vendors_list_price_is_known_by_its_address() -> None:
    found = Prices().money(called(model="gpt-4o", endpoint=OPENAI, cache_write_tokens=None))
    assert found["rates"] == pytest.approx(
        {"input": 2.5e-6, "cached_input": 1.25e-6, "cache_write": None, "output": 1e-5}
    )
    assert str(found["source"]).startswith("genai-prices ")
    assert found["total"] == pytest.approx(600 * 2.5e-6 + 400 * 1.25e-6 + 50 * 1e-5)


def test_a_vendors_model_at_an_address_of_your_own_has_no_price() -> None:
    found = Prices().money(called(model="gpt-4o"))
    assert (found["total"], found["rates"]) == (None, None)
    assert found["why"] == "no list price of gpt-4o at 127.0.0.1; give one with --prices"
    assert Prices().money(called(model="none-such", endpoint=OPENAI))["total"] is None
    assert "at this address" in Prices().money(called(endpoint=None))["why"]


def test_prices_may_depend_on_the_prompts_length_the_tier_and_how_long_is_kept() -> None:
    prices = Prices()
    claude = called(model="claude-sonnet-4-5", endpoint=ANTHROPIC)
    short = prices.money(claude)["rates"]
    assert prices.money(claude)["rates"] == short
    long = prices.money({**claude, "input_tokens": 300_000})["rates"]
    assert long["input"] == pytest.approx(2 * short["input"])
    hour = prices.money({**claude, "request": {"cache_ttl_ns": 3600 * 10**9}})["rates"]
    assert hour["cache_write"] > short["cache_write"]
    gpt = called(model="gpt-4o", endpoint=OPENAI, cache_write_tokens=0)
    tier = prices.money({**gpt, "service_tier": {"served": "priority"}})["rates"]
    assert tier["input"] > prices.money(gpt)["rates"]["input"]
    undated = prices.money({**gpt, "started_at": "never"})
    assert undated["total"] is not None


def test_without_the_library_a_price_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = builtins.__import__

    def refuse(name: str, *more: Any) -> Any:
        if name == "genai_prices":
            raise ImportError(name)
        return plain(name, *more)

    monkeypatch.setattr(builtins, "__import__", refuse)
    monkeypatch.delitem(sys.modules, "genai_prices", raising=False)
    found = Prices().money(called(model="gpt-4o", endpoint=OPENAI))
    assert found["why"] == "needs latscope[analysis], or a table of prices"


def test_a_file_of_prices(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    file.write_text('[[prices]]\nmodel = "tiny"\ninput = 1\n', encoding="utf-8")
    assert read(file).money(called())["rates"]["input"] == 1e-6


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prices = 1", "prices: Input should be a valid list"),
        ("x = 1", r"holds no prices; a row begins with \[\[prices\]\]"),
        ("[[prices]", "not TOML"),
        ('[[prices]]\nmodel = "a"\n[[prices]]\ninput = 1', "prices row 2 model: Field required"),
        ('[[prices]]\nmodel = "a"\ninput = -1', "prices row 1 input: Input should be greater"),
        ('[[prices]]\nmodel = "a"\nin = 1', "prices row 1 in: Extra inputs are not permitted"),
        ('[[prices]]\nmodel = "a"\ninput = nan', "prices row 1 input: Input should be a finite"),
    ],
)
def test_what_cannot_be_meant_is_told_with_its_row(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "p.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        read(file)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "none.toml")
