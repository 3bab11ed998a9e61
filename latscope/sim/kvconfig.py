"""Reads off a Hugging Face config.json what a model's layers keep of a token.

What the file does not say and is taken for granted is put into words in `Model.assumed`; what would
have to be guessed is an InputError instead.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from latscope.errors import InputError, UsageError
from latscope.sim.kv import FORMATS, Kind, Layers, Model, format_named
from latscope.sim.kvfields import (
    DEFAULTS,
    HEAD_DIM,
    HEADS,
    HIDDEN,
    KV_HEADS,
    LAYERS,
    LONGEST,
    WINDOW,
    Config,
    Reading,
    language_part,
)
from latscope.sim.kvtypes import KINDS, layer_names

MOST_LAYERS = 100_000
UNREAD = ("block_configs", "compress_ratios", "per_layer_config", "cla_share_factor")
"""Keys of models whose layers differ in ways this does not model."""


def read(config: Config, name: str, where: str) -> Model:
    """The model a configuration describes; `where` names it in errors.

    Raises InputError, one line, when it describes none or one that is not modelled."""
    inner = language_part(config)
    model_type = str(inner.get("model_type", ""))
    reading = Reading(
        config=inner, outer=config, defaults=DEFAULTS.get(model_type, {}), where=where
    )
    if inner is not config:
        reading.note("a multimodal model: only its language model's cache is counted")
    for key in UNREAD:
        if inner.get(key):
            raise InputError(f"{where}: {key}: layers that differ this way are not modelled")
    if (reading.number(*LAYERS) or 0) > MOST_LAYERS:
        raise InputError(f"{where}: more than {MOST_LAYERS:,} layers")
    names = layer_names(reading)
    groups = Counter(_layer(reading, names, place) for place in range(len(names)))
    _asides(reading)
    return Model(
        name=name,
        layers=tuple(replace(layers, count=count) for layers, count in groups.items()),
        dtype=_dtype(reading),
        longest=reading.number(*LONGEST),
        assumed=tuple(reading.assumed),
    )


def _layer(reading: Reading, names: Sequence[str], place: int) -> Layers:
    """What one layer keeps."""
    name = names[place]
    kind = KINDS[name]
    shared = reading.number("num_kv_shared_layers", least=0) or 0
    if kind == "none" or place >= len(names) - shared:
        return Layers(kind="none", count=1)
    crossing = reading.config.get("cross_attention_layers")
    if isinstance(crossing, list) and place in crossing:
        reading.note("cross-attention layers keep KV of images, not of tokens: not counted")
        return Layers(kind="none", count=1)
    if kind == "state":
        return Layers(kind="state", count=1, state_bytes=_state(reading))
    state = None if name.startswith("hybrid") else 0
    if state is None:
        reading.note("the state that hybrid layers keep besides their KV is not counted")
    if reading.get("kv_lora_rank") is not None and kind == "full":
        return _latent(reading)
    window = {"sliding": _window, "chunked": _chunk}.get(kind, lambda _: None)(reading)
    if window is None and kind != "full":
        reading.note(f"{name} layers, but no size of the window: counted as full attention")
        kind = "full"
    heads, widths = _heads(reading, kind, place)
    return Layers(kind=kind, count=1, heads=heads, widths=widths, window=window, state_bytes=state)


def _latent(reading: Reading) -> Layers:
    """MLA: one compressed vector and the rotary part, keys and values together."""
    width = reading.needed("kv_lora_rank") + reading.needed("qk_rope_head_dim", least=0)
    reading.note(
        "MLA kept compressed, as vLLM, SGLang and llama.cpp do; transformers keeps whole heads"
    )
    extra = 0
    indexer = reading.number("index_head_dim")
    if indexer is not None:
        extra = indexer + -(-indexer // 128) * 4
        reading.note(f"the sparse indexer's keys, {extra} bytes a token and layer, as vLLM 0.32")
    return Layers(kind="latent", count=1, heads=1, widths=(width,), extra_bytes=extra)


def _window(reading: Reading) -> int | None:
    return reading.number(*WINDOW)


def _chunk(reading: Reading) -> int | None:
    return reading.number("attention_chunk_size")


def _heads(reading: Reading, kind: Kind, place: int) -> tuple[int, tuple[int, int]]:
    """KV heads, and the lengths of a key and of a value."""
    own = _own(reading, kind)
    heads = own.get("heads") or _kv_heads(reading, place)
    key = own.get("key") or _head_dim(reading)
    value = own.get("value") or (None if "key" in own else reading.number("v_head_dim")) or key
    return heads, (key, value)


def _own(reading: Reading, kind: Kind) -> dict[str, int]:
    """Sizes some models give layers of one kind: Gemma 4 the full ones, MiMo the sliding ones."""
    names = {
        "full": {"heads": "num_global_key_value_heads", "key": "global_head_dim"},
        "sliding": {
            "heads": "swa_num_key_value_heads",
            "key": "swa_head_dim",
            "value": "swa_v_head_dim",
        },
    }.get(kind, {})
    if kind == "full" and reading.get("attention_k_eq_v") is False:
        names.pop("heads")
    found = {what: reading.number(name) for what, name in names.items()}
    return {what: value for what, value in found.items() if value is not None}


def _kv_heads(reading: Reading, place: int) -> int:
    """KV heads: stated (maybe per layer), one for multi-query attention, else all heads."""
    if reading.config.get("multi_query") and not reading.config.get("new_decoder_architecture"):
        return 1
    stated = reading.get(*KV_HEADS)
    if isinstance(stated, list):
        if place >= len(stated) or not isinstance(stated[place], int) or stated[place] < 1:
            raise InputError(f"{reading.where}: {KV_HEADS[0]} names no heads of layer {place}")
        return int(stated[place])
    heads = reading.number(*KV_HEADS)
    if heads is None:
        heads = reading.needed(*HEADS)
        reading.note(f"no {KV_HEADS[0]}: as many as attention heads, {heads}")
    return heads


def _head_dim(reading: Reading) -> int:
    stated = reading.number(*HEAD_DIM)
    if stated is not None:
        return stated
    hidden, heads = reading.needed(*HIDDEN), reading.needed(*HEADS)
    if hidden % heads:
        raise InputError(f"{reading.where}: no head_dim, and {hidden} is no multiple of {heads}")
    return hidden // heads


def _state(reading: Reading) -> int | None:
    """State of a gated delta net (Qwen3-Next): a convolution's last inputs and a matrix a head;
    others are not modelled."""
    names = ("linear_num_key_heads", "linear_key_head_dim", "linear_num_value_heads")
    sizes = [reading.number(name) for name in (*names, "linear_value_head_dim")]
    kernel = reading.number("linear_conv_kernel_dim")
    key_heads, key, value_heads, value = sizes
    if not (key_heads and key and value_heads and value and kernel):
        reading.note("the fixed state that layers without KV keep per sequence is not counted")
        return None
    bytes_each = FORMATS[_dtype(reading)].vector(1)
    conv = (2 * key_heads * key + value_heads * value) * (kernel - 1) * bytes_each
    stated = reading.config.get("mamba_ssm_dtype")
    matrix = bytes_each
    if isinstance(stated, str):
        matrix = FORMATS[_format(reading, "mamba_ssm_dtype", stated)].vector(1)
    else:
        reading.note("the state of linear layers is kept in the model's dtype (vLLM's default)")
    return conv + value_heads * value * key * matrix


def _dtype(reading: Reading) -> str:
    for part in (reading.config, reading.outer):
        for key in ("dtype", "torch_dtype"):
            if isinstance(part.get(key), str) and part[key] != "auto":
                return _format(reading, key, part[key])
    reading.note("no dtype: bfloat16, 2 bytes a value")
    return "bfloat16"


def _format(reading: Reading, key: str, name: str) -> str:
    try:
        return format_named(name)[0]
    except UsageError as error:
        raise InputError(f"{reading.where}: {key}: {error}") from error


def _asides(reading: Reading) -> None:
    """Notes on what is in the file and left out on purpose."""
    if reading.config.get("is_encoder_decoder") or reading.outer.get("is_encoder_decoder"):
        reading.note("an encoder-decoder: KV of the encoder's output is not counted")
    if reading.config.get("num_nextn_predict_layers"):
        reading.note("layers for multi-token prediction keep KV only where it is used: not counted")
