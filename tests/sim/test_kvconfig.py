"""What a configuration says of its layers, in the words of every model family."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from latscope.errors import InputError
from latscope.sim import kv, kvconfig

CONFIGS = Path(__file__).parents[2] / "fixtures" / "configs"
BF16 = kv.FORMATS["bfloat16"]
PLAIN: dict[str, Any] = {
    "num_hidden_layers": 4,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "dtype": "bfloat16",
}

DELTA: dict[str, Any] = {
    "full_attention_interval": 2,
    "linear_num_key_heads": 1,
    "linear_key_head_dim": 1,
    "linear_num_value_heads": 1,
    "linear_value_head_dim": 1,
    "linear_conv_kernel_dim": 2,
}


def read(config: dict[str, Any]) -> kv.Model:
    return kvconfig.read(config, "a model", "config.json")


def shipped(name: str) -> kv.Model:
    return read(json.loads((CONFIGS / f"{name}.json").read_text()))


def kinds(model: kv.Model) -> dict[str, int]:
    return {group.kind: group.count for group in model.layers}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, {"full": 4}),
        ({"layer_types": ["attention", "mamba", "moe", "mlp"]}, {"full": 1, "state": 1, "none": 2}),
        ({"layers_block_type": ["hybrid"] * 4}, {"full": 4}),
        ({"hybrid_override_pattern": "M-*E"}, {"state": 1, "none": 2, "full": 1}),
        ({"attn_type_list": [0, 0, 0, 1]}, {"state": 3, "full": 1}),
        ({"attn_layer_indices": [1, 2]}, {"state": 2, "full": 2}),
        ({"full_attn_idxs": [0]}, {"full": 1, "state": 3}),
        ({"linear_attn_config": {"full_attn_layers": [4]}}, {"state": 3, "full": 1}),
        (
            {"model_type": "jamba", "attn_layer_period": 2, "attn_layer_offset": 1},
            {"state": 2, "full": 2},
        ),
        (
            {"block_types": ["recurrent", "attention"], "attention_window_size": 8},
            {"state": 2, "sliding": 2},
        ),
        ({"full_attention_interval": 2}, {"state": 2, "full": 2}),
        ({"sliding_window": 8}, {"sliding": 4}),
        ({"sliding_window": 8, "sliding_window_pattern": 2}, {"sliding": 2, "full": 2}),
        ({"sliding_window": 8, "sliding_window_pattern": "LLLG"}, {"sliding": 3, "full": 1}),
        ({"sliding_window": 8, "use_sliding_window": False}, {"full": 4}),
        (
            {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 3},
            {"full": 3, "sliding": 1},
        ),
        ({"model_type": "qwen3", "sliding_window": 8}, {"full": 4}),
        ({"model_type": "mistral", "sliding_window": None}, {"full": 4}),
        ({"model_type": "mistral"}, {"sliding": 4}),
        ({"model_type": "llama4_text"}, {"chunked": 3, "full": 1}),
        (
            {"attention_chunk_size": 8, "no_rope_layers": [1, 0, 1, 0]},
            {"chunked": 2, "full": 2},
        ),
        ({"model_type": "gemma2"}, {"sliding": 2, "full": 2}),
        ({"num_kv_shared_layers": 3}, {"full": 1, "none": 3}),
        ({"cross_attention_layers": [0]}, {"none": 1, "full": 3}),
        ({"layer_types": ["sliding_attention"] * 4}, {"full": 4}),
        ({"kv_lora_rank": 32, "qk_rope_head_dim": 8}, {"latent": 4}),
        ({"kv_lora_rank": 32, "qk_rope_head_dim": 0}, {"latent": 4}),
    ],
)
def test_layers_are_of_the_kind_the_configuration_says(
    more: dict[str, Any], expected: dict[str, int]
) -> None:
    """One row for each way model families say it."""
    assert kinds(read({**PLAIN, **more})) == expected


@pytest.mark.parametrize(
    ("config", "heads", "widths"),
    [
        ({"num_layers": 1, "n_head": 4, "n_embd": 64}, 4, (16, 16)),
        ({**PLAIN, "multi_query": True}, 1, (16, 16)),
        ({**PLAIN, "multi_query": True, "new_decoder_architecture": True}, 2, (16, 16)),
        ({**PLAIN, "num_key_value_heads": None}, 8, (16, 16)),
        ({**PLAIN, "head_dim": None, "hidden_size": 256}, 2, (32, 32)),
        ({**PLAIN, "v_head_dim": 8}, 2, (16, 8)),
        (
            {**PLAIN, "model_type": "gemma4_text", "layer_types": ["full_attention"] * 4},
            2,
            (512,) * 2,
        ),
        (
            {
                **PLAIN,
                "global_head_dim": 64,
                "num_global_key_value_heads": 1,
                "attention_k_eq_v": True,
            },
            1,
            (64, 64),
        ),
        (
            {
                **PLAIN,
                "sliding_window": 8,
                "swa_num_key_value_heads": 4,
                "swa_head_dim": 24,
                "swa_v_head_dim": 12,
            },
            4,
            (24, 12),
        ),
    ],
)
def test_heads_and_widths_are_found_under_every_name(
    config: dict[str, Any], heads: int, widths: tuple[int, int]
) -> None:
    (group,) = read(config).layers
    assert (group.heads, group.widths) == (heads, widths)


def test_heads_may_differ_by_layer() -> None:
    model = read({**PLAIN, "num_kv_heads": [1, 1, 2, 3], "num_key_value_heads": None})
    assert {group.heads: group.count for group in model.layers} == {1: 2, 2: 1, 3: 1}


def test_a_sparse_indexer_keeps_keys_besides() -> None:
    """DeepSeek V3.2: 128 fp8 values and a scale, in vLLM 0.32, whatever the cache's format."""
    config = {**PLAIN, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "index_head_dim": 128}
    assert kv.token_bytes(read(config), BF16) == 4 * (1152 + 132)
    assert any("indexer" in said for said in read(config).assumed)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({**PLAIN, "dtype": None}, "no dtype: bfloat16"),
        ({**PLAIN, "num_key_value_heads": None}, "as many as attention heads, 8"),
        ({**PLAIN, "sliding_window": 8}, "no pattern: it holds in every layer"),
        ({**PLAIN, "model_type": "mistral"}, "sliding_window 4096: the default of mistral"),
        ({**PLAIN, "layer_types": ["chunked_attention"] * 4}, "no size of the window"),
        ({**PLAIN, "layer_types": ["mamba"] * 4}, "the fixed state"),
        ({**PLAIN, "layer_types": ["hybrid"] * 4}, "the state that hybrid layers keep"),
        ({**PLAIN, "cross_attention_layers": [1]}, "cross-attention"),
        ({**PLAIN, "is_encoder_decoder": True}, "encoder-decoder"),
        ({**PLAIN, "num_nextn_predict_layers": 1}, "multi-token prediction"),
        ({"text_config": PLAIN}, "a multimodal model"),
        ({"thinker_config": {"text_config": PLAIN}}, "a multimodal model"),
        ({**PLAIN, "kv_lora_rank": 8, "qk_rope_head_dim": 8}, "MLA kept compressed"),
    ],
)
def test_what_is_assumed_is_said(config: dict[str, Any], said: str) -> None:
    assert any(said in note for note in read(config).assumed)


def test_a_complete_configuration_assumes_nothing() -> None:
    assert shipped("llama-3.1-8b").assumed == shipped("tiny").assumed == ()


def test_the_outer_part_may_hold_the_dtype() -> None:
    inner = {key: value for key, value in PLAIN.items() if key != "dtype"}
    assert read({"text_config": inner, "torch_dtype": "float16"}).dtype == "float16"


def test_a_state_may_have_its_own_dtype() -> None:
    config = json.loads((CONFIGS / "qwen3-next-80b-a3b.json").read_text())
    model = read({**config, "mamba_ssm_dtype": "float32"})
    assert kv.state_bytes(model) == 36 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "no num_hidden_layers"),
        ({"num_hidden_layers": 2}, "no num_attention_heads"),
        ({**PLAIN, "num_hidden_layers": "4"}, "num_hidden_layers is '4'"),
        ({**PLAIN, "num_hidden_layers": True}, "num_hidden_layers is True"),
        ({**PLAIN, "num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({**PLAIN, "num_hidden_layers": 10**9}, "more than 100,000 layers"),
        ({**PLAIN, "head_dim": -1}, "head_dim is -1"),
        ({**PLAIN, "head_dim": None, "hidden_size": 7}, "7 is no multiple of 8"),
        ({**PLAIN, "layer_types": ["attention"]}, "4 layers, but 1 layer types"),
        ({**PLAIN, "layer_types": ["compressed_sparse_attention"] * 4}, "are not modelled"),
        ({**PLAIN, "layer_types": "attention"}, "no list of names"),
        ({**PLAIN, "block_configs": [{}]}, "block_configs: layers that differ"),
        ({**PLAIN, "kv_lora_rank": 8}, "no qk_rope_head_dim"),
        ({**PLAIN, "attention_chunk_size": 8}, "no layer_types say where"),
        ({**PLAIN, "num_kv_heads": [1], "num_key_value_heads": None}, "no heads of layer 1"),
        ({**PLAIN, "dtype": "int3"}, "dtype: no format 'int3'"),
        ({**PLAIN, **DELTA, "mamba_ssm_dtype": "x"}, "mamba_ssm_dtype: no format"),
    ],
)
def test_what_would_be_guessed_is_refused(config: dict[str, Any], said: str) -> None:
    """One line that names the file and the key."""
    with pytest.raises(InputError, match=re.escape("config.json: ")) as caught:
        read(config)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


JSON = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=5),
    lambda inner: (
        some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = [
    *PLAIN, "layer_types", "sliding_window", "sliding_window_pattern", "kv_lora_rank", "model_type",
    "text_config", "linear_attn_config", "attn_type_list", "block_types", "use_sliding_window",
    "cross_attention_layers", "num_kv_heads", "num_kv_shared_layers", "attention_chunk_size",
    "hybrid_override_pattern", "no_rope_layers", "full_attn_idxs", "index_head_dim", "torch_dtype",
    "qk_rope_head_dim", "mamba_ssm_dtype", "multi_query", "attn_layer_offset", "v_head_dim",
]  # fmt: skip


@settings(deadline=None)
@given(some.dictionaries(some.sampled_from(KEYS), JSON, max_size=6))
def test_any_configuration_is_read_or_refused(wild: dict[str, Any]) -> None:
    """Values of any type in any key end in a model or in an InputError."""
    try:
        model = read({**PLAIN, **wild})
    except InputError:
        return
    assert kv.token_bytes(model, BF16) >= 0
