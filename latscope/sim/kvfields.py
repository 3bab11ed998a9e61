"""A Hugging Face config.json as its fields are read: names, defaults, and what was assumed.

Names and defaults are those of transformers 5.19 (models/*/configuration_*.py) and vLLM 0.32
(transformers_utils/model_arch_config_convertor.py). Published files leave out what equals their
class's default, so DEFAULTS holds the ones that matter to a KV cache; each use of one is put into
words in `Reading.assumed`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from latscope.errors import InputError

Config: TypeAlias = Mapping[str, Any]

NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "text_model_config")
"""Where multimodal models keep the language model's part; may be nested twice."""

MOST = 10**9
LAYERS = ("num_hidden_layers", "n_layer", "num_layers", "n_layers")
HEADS = ("num_attention_heads", "n_head", "num_heads", "n_heads")
KV_HEADS = (
    "num_key_value_heads",
    "num_kv_heads",
    "n_head_kv",
    "multi_query_group_num",
    "num_attention_groups",
)
HEAD_DIM = ("head_dim", "attention_head_dim", "hidden_size_per_head", "kv_channels", "d_kv")
HIDDEN = ("hidden_size", "n_embd", "d_model", "dim")
LONGEST = ("max_position_embeddings", "n_positions", "max_sequence_length", "seq_length")
WINDOW = ("sliding_window", "attention_window_size", "sliding_window_size")

_NO_WINDOW = {"use_sliding_window": False, "max_window_layers": 28}
_DELTA = {"full_attention_interval": 4, "num_key_value_heads": 2, "head_dim": 256}
DEFAULTS: Mapping[str, Config] = {
    "cohere2": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "deepseek_v2": {"kv_lora_rank": 512, "qk_rope_head_dim": 64},
    "deepseek_v3": {"kv_lora_rank": 512, "qk_rope_head_dim": 64},
    "exaone4": {"sliding_window": 4096, "sliding_window_pattern": 4},
    "gemma2": {
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "sliding_window": 4096,
        "sliding_window_pattern": 2,
    },
    "gemma3_text": {
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "max_position_embeddings": 131_072,
        "sliding_window": 4096,
        "sliding_window_pattern": 6,
    },
    "gemma3n_text": {
        "num_hidden_layers": 35,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 256,
        "sliding_window": 512,
        "sliding_window_pattern": 5,
        "num_kv_shared_layers": 15,
    },
    "gemma4_text": {
        "sliding_window": 512,
        "sliding_window_pattern": 6,
        "global_head_dim": 512,
        "attention_k_eq_v": False,
    },
    "gpt_oss": {"sliding_window": 128, "sliding_window_pattern": 2, "head_dim": 64},
    "jamba": {"attn_layer_period": 8, "attn_layer_offset": 4},
    "llama4_text": {
        "attention_chunk_size": 8192,
        "no_rope_layer_interval": 4,
        "num_key_value_heads": 8,
        "head_dim": 128,
    },
    "mistral": {"sliding_window": 4096},
    "qwen2": _NO_WINDOW,
    "qwen2_moe": _NO_WINDOW,
    "qwen2_vl": _NO_WINDOW,
    "qwen2_vl_text": _NO_WINDOW,
    "qwen2_5_vl": _NO_WINDOW,
    "qwen2_5_vl_text": _NO_WINDOW,
    "qwen3": _NO_WINDOW,
    "qwen3_moe": _NO_WINDOW,
    "qwen3_next": _DELTA,
    "qwen3_5_text": _DELTA,
    "qwen3_5_moe_text": _DELTA,
    "smollm3": {"use_sliding_window": False},
}
"""Values of the model's own class that a published file may leave out, by model_type."""


@dataclass(slots=True)
class Reading:
    """A configuration being read: the language model's part, what surrounds it, its class's
    defaults, and what had to be assumed so far."""

    config: Config
    outer: Config
    defaults: Config
    where: str
    assumed: list[str] = field(default_factory=list)

    def get(self, *names: str) -> Any:
        """The first of the keys that is set, else its class's default, which is noted."""
        for name in names:
            if self.config.get(name) is not None:
                return self.config[name]
        for name in names:
            if self.defaults.get(name) is not None and name not in self.config:
                said = f"{name} {self.defaults[name]}: the default of {self.config['model_type']}"
                self.note(f"{said}, the file does not state it")
                return self.defaults[name]
        return None

    def number(self, *names: str, least: int = 1) -> int | None:
        """The same as an integer, null when there is none."""
        value = self.get(*names)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
            raise InputError(
                f"{self.where}: {names[0]} is {value!r:.40}, not a number from {least} to {MOST:,}"
            )
        return value

    def needed(self, *names: str, least: int = 1) -> int:
        value = self.number(*names, least=least)
        if value is None:
            raise InputError(
                f"{self.where}: no {names[0]}; a config.json of a language model states it"
            )
        return value

    def note(self, said: str) -> None:
        if said not in self.assumed:
            self.assumed.append(said)


def language_part(config: Config) -> Config:
    """The mapping that describes the language model: the whole, or a part of a multimodal one."""
    for key in NESTED:
        if isinstance(part := config.get(key), Mapping):
            return language_part(part)
    return config
