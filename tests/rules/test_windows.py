"""Context windows by a model's name, held against the list they were read from."""

import pytest

from latscope.rules.windows import window_of


@pytest.mark.parametrize(
    ("model", "tokens"),
    [
        ("gpt-4", 8_192),
        ("gpt-4-0613", 8_192),
        ("gpt-4-turbo-2024-04-09", 128_000),
        ("openai/gpt-4o-mini", 128_000),
        ("gpt-5-mini", 400_000),
        ("o3-mini", 200_000),
        ("claude-sonnet-4-5-20250929", 200_000),
        ("anthropic.claude-opus-4-6-v1:0", 1_000_000),
        ("my-gpt-4-clone", None),
        ("llama-3.3-70b", None),
        ("proto3-large", None),
        (None, None),
    ],
)
def test_a_model_is_known_by_its_name(model: str | None, tokens: int | None) -> None:
    assert window_of(model) == tokens


def test_every_listed_window_is_that_of_the_price_list() -> None:
    data = pytest.importorskip("genai_prices.data")
    vendors = ("openai", "anthropic", "google", "x-ai", "azure", "aws")
    pairs = [
        (model.id, window_of(model.id), model.context_window)
        for vendor in data.providers
        if vendor.id in vendors
        for model in vendor.models
        if model.context_window and window_of(model.id)
    ]
    far = [(id, mine, theirs) for id, mine, theirs in pairs if abs(mine / theirs - 1) > 0.06]
    assert len(pairs) > 100
    assert not far
