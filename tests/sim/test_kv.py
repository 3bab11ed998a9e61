"""KV-cache memory: what layers keep, as real engines and published figures have it."""

import json
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from latscope.errors import UsageError
from latscope.sim import kv, kvconfig
from tests.engines import models

CONFIGS = Path(__file__).parents[2] / "fixtures" / "configs"
BF16 = kv.FORMATS["bfloat16"]
GIB = 1024**3
PLAIN: dict[str, Any] = {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "dtype": "bfloat16",
}


def read(config: dict[str, Any]) -> kv.Model:
    return kvconfig.read(config, "a model", "config.json")


def shipped(name: str) -> kv.Model:
    return read(json.loads((CONFIGS / f"{name}.json").read_text()))


def test_the_tiny_configuration_is_the_one_the_engines_serve() -> None:
    assert json.loads((CONFIGS / "tiny.json").read_text()) == models.hf_config()


def test_real_vllm_reports_the_same_size() -> None:
    """The line of its log and the labels of its metrics, at 2 GiB and blocks of 128."""
    log, metrics = (CONFIGS / "tiny.vllm.txt").read_text().splitlines()
    labels = dict(re.findall(r'(\w+)="([^"]*)"', metrics))
    model = shipped("tiny")
    found = kv.fit(
        model, BF16, 4096, int(labels["block_size"]), int(labels["kv_cache_memory_bytes"])
    )
    assert kv.token_bytes(model, BF16) == 4096
    assert found.blocks == int(labels["num_gpu_blocks"]) == 4096
    assert found.tokens == int(labels["kv_cache_size_tokens"]) == 524_288
    assert float(found.at_once) == float(labels["kv_cache_max_concurrency"])
    assert f"KV cache size: {found.tokens:,} tokens" in log
    assert f"4,096 tokens per request: {float(found.at_once):.2f}x" in log


@pytest.mark.parametrize(
    ("name", "token", "growth", "context"),
    [
        # 2 x 32 layers x 8 KV heads x 128 x 2 bytes; 128 KiB in "The weight of remembering"
        # (news.future-shock.ai, 2026-03).
        ("llama-3.1-8b", 131_072, 131_072, 131_072 * 32_768),
        # The same shape, of which only the last 4,096 tokens are kept.
        ("mistral-7b-v0.1", 131_072, 0, 131_072 * 4096),
        # 62 x 2 x 16 x 128 x 2; every sixth layer is full: 10 of them.
        ("gemma-3-27b", 507_904, 81_920, 8192 * (10 * 32_768 + 52 * 1024)),
        # 61 x (512 + 64) x 2; 68.6 KiB in the same article, 10.72 GiB at 163,840 tokens.
        ("deepseek-v3", 70_272, 70_272, 70_272 * 32_768),
        # 12 of 48 layers x 2 x 2 x 256 x 2, and a state: 36 x (8192 x 3 + 32 x 128 x 128) x 2.
        ("qwen3-next-80b-a3b", 24_576, 24_576, 24_576 * 32_768 + 36 * 1_097_728),
        # 24 x 2 x 8 x 64 x 2, half of it a window of 128.
        ("gpt-oss-20b", 49_152, 24_576, 2048 * 12 * (32_768 + 128)),
    ],
)
def test_public_models_have_the_published_sizes(
    name: str, token: int, growth: int, context: int
) -> None:
    """Bytes a token, once windows are full, and of 32,768 tokens."""
    model = shipped(name)
    assert kv.token_bytes(model, BF16) == token
    assert kv.growth_bytes(model, BF16) == growth
    assert kv.context_bytes(model, BF16, 32_768) == context


@pytest.mark.parametrize(
    ("name", "tokens", "blocks", "at_once"),
    [
        ("llama-3.1-8b", 327_680, 20_480, 40.0),
        ("mistral-7b-v0.1", 435_771, 20_480, 53.1948051948052),
        ("gemma-3-27b", 160_739, 32_768, 19.621556886227545),
        ("deepseek-v3", 611_184, 38_199, 74.607421875),
        ("gpt-oss-20b", 1_378_704, 109_226, 168.29892141756548),
    ],
)
def test_vllm_fits_as_many_of_mixed_models(
    name: str, tokens: int, blocks: int, at_once: float
) -> None:
    """What vLLM 0.32's own get_kv_cache_configs and get_kv_cache_capacity make of these layers in
    40 GiB, blocks of 16, 8,192 tokens, 2,048 in flight; tests/engines/test_kv.py asks it again."""
    found = kv.fit(shipped(name), BF16, 8192, 16, 40 * GIB)
    assert (found.tokens, found.blocks) == (tokens, blocks)
    assert float(found.at_once) == pytest.approx(at_once, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "layer"),
    [
        # Of one layer of Llama 3.1 8B (8 heads x 128), from vLLM 0.32's own specs.
        ("bfloat16", 4096),
        ("fp8", 2048),
        ("int8", 2112),
        ("int4", 1088),
        ("fp8_per_token_head", 2112),
        # 2 x 8 x (128 / 2 + 128 / 16)
        ("nvfp4", 1152),
        # llama.cpp: 2 x 8 x 128 / 32 blocks of 34, 24, 22, 20, 18, 18 bytes.
        ("q8_0", 2176),
        ("q5_1", 1536),
        ("q5_0", 1408),
        ("q4_1", 1280),
        ("q4_0", 1152),
        ("iq4_nl", 1152),
        ("float32", 8192),
    ],
)
def test_quantised_caches_count_their_scales(name: str, layer: int) -> None:
    model = shipped("llama-3.1-8b")
    assert kv.token_bytes(model, kv.FORMATS[name]) == 32 * layer


def test_a_quantised_latent_keeps_a_pair_of_scales() -> None:
    """vLLM 0.32: 576 bytes and two fp32 scales a layer."""
    assert kv.token_bytes(shipped("deepseek-v3"), kv.FORMATS["int8"]) == 61 * (576 + 8)


@pytest.mark.parametrize(
    ("said", "name"),
    [("torch.bfloat16", "bfloat16"), ("FP16", "float16"), ("fp8_e5m2", "fp8"), ("half", "float16")],
)
def test_formats_go_by_their_usual_names(said: str, name: str) -> None:
    assert kv.format_named(said) == (name, kv.FORMATS[name])


def test_an_unknown_format_lists_the_known_ones() -> None:
    with pytest.raises(UsageError, match="no format 'int3'; there are: float32, bfloat16"):
        kv.format_named("int3")


def test_a_format_that_cannot_hold_a_head_is_refused() -> None:
    """llama.cpp's blocks hold 32 values; a head of 80 is cut by none."""
    model = read({**PLAIN, "head_dim": 80})
    kv.check(model, "bfloat16")
    with pytest.raises(UsageError, match="q8_0 keeps 32 values together; 80"):
        kv.check(model, "q8_0")


@settings(deadline=None)
@given(
    some.sampled_from(["llama-3.1-8b", "gemma-3-27b", "deepseek-v3", "gpt-oss-20b"]),
    some.integers(1, 200_000),
    some.sampled_from([1, 16, 128]),
    some.integers(0, 10**12),
)
def test_what_fits_does_fit(name: str, context: int, block: int, cache: int) -> None:
    """The sequences said to fit need no more than the cache, and more memory never fits fewer."""
    model = shipped(name)
    found = kv.fit(model, BF16, context, block, cache)
    assert found.sequences * kv.context_bytes(model, BF16, context) <= cache
    assert found.sequences * context <= found.tokens <= found.at_once * context
    assert kv.fit(model, BF16, context, block, cache + 10**9).at_once >= found.at_once


def test_a_state_takes_its_place_beside_the_tokens() -> None:
    """Layers of unlike sizes share bytes, not blocks."""
    model = shipped("qwen3-next-80b-a3b")
    each = 24_576 * 4096 + 36 * 1_097_728
    found = kv.fit(model, BF16, 4096, 16, 10 * each)
    assert (found.blocks, found.at_once) == (None, Fraction(10))


def test_a_model_that_keeps_nothing_fits_any_number() -> None:
    model = read({**PLAIN, "layer_types": ["mamba"] * 4})
    assert kv.state_bytes(model) is None
    with pytest.raises(UsageError, match="no memory limits"):
        kv.fit(model, BF16, 100, 16, 1000)


def test_kinds_nearly_alike_are_padded_up() -> None:
    """vLLM pads 12 and 13 layers to 13 each, not to 12 and 24."""
    types = ["sliding_attention"] * 12 + ["full_attention"] * 13
    model = read({**PLAIN, "num_hidden_layers": 25, "layer_types": types, "sliding_window": 16})
    page = 2 * 2 * 16 * 2 * 16
    found = kv.fit(model, BF16, 160, 16, 13 * page * 100, in_flight=16)
    assert found.blocks == 100
    assert found.at_once == Fraction(100, 10 + 3)


@pytest.mark.parametrize(
    ("kind", "in_flight", "blocks"),
    [
        ("sliding", 1, 1 + 1),  # 15 tokens before the one computed: a block, and one it lies across
        ("sliding", 2, 2 + 1),
        ("sliding", 10**6, 63 + 1),
        ("chunked", 0, 1),
        ("chunked", 1, 2),
        ("full", 0, 63),
    ],
)
def test_windows_hold_what_is_in_flight(kind: kv.Kind, in_flight: int, blocks: int) -> None:
    """vLLM 0.32: a window of 16 keeps 15 tokens besides those being computed."""
    window = None if kind == "full" else 16
    assert kv.Layers(kind=kind, count=1, window=window).blocks(1000, 16, in_flight) == blocks


def test_the_answer_as_json_says_all() -> None:
    """Sizes in bytes; null where nothing was asked."""
    model = shipped("mistral-7b-v0.1")
    bare = kv.to_mapping(model, "int8", None, 16)
    assert (bare["schema"], bare["context"], bare["memory"], bare["fit"]) == (
        "latscope.kv/1", None, None, None,
    )  # fmt: skip
    memory = kv.Memory(total=100, weights=70, weights_source="w", reserve=40, reserve_source="r")
    full = kv.to_mapping(model, "int8", 10, 16, memory, kv.fit(model, BF16, 10, 16, memory.cache))
    assert full["memory"]["cache"] == full["fit"]["sequences"] == 0
    assert full["context"] == {"tokens": 10, "bytes": 10 * 32 * 2112}
    assert any("tokens in flight" in said for said in full["assumed"])
    json.dumps(full)
