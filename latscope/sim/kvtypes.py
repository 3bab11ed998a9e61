"""Which layer of a model is of which kind: one name a layer, as transformers 5.19 names them.

Model families say it in many ways; each rule reads one of them, or gives null where its keys are
not there.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from latscope.errors import InputError
from latscope.sim.kv import Kind
from latscope.sim.kvfields import LAYERS, WINDOW, Reading

KINDS: Mapping[str, Kind] = {
    "full_attention": "full",
    "attention": "full",
    "indexed_attention": "full",
    "deepseek_sparse_attention": "full",
    "hybrid": "full",
    "sliding_attention": "sliding",
    "hybrid_sliding": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "state",
    "mamba": "state",
    "mamba2": "state",
    "recurrent": "state",
    "conv": "state",
    "moe": "none",
    "mlp": "none",
}
"""What a layer keeps, by its name in layer_types; `hybrid` layers keep a state besides."""

LETTERS: Mapping[str, str] = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


def layer_names(reading: Reading) -> Sequence[str]:
    """One name a layer, from the first rule whose keys the configuration has."""
    for rule in RULES:
        names = rule(reading)
        if names is not None:
            break
    else:
        names = ["full_attention"] * reading.needed(*LAYERS)
    count = reading.number(*LAYERS)
    if count is not None and count != len(names):
        raise InputError(f"{reading.where}: {count} layers, but {len(names)} layer types")
    unknown = next((name for name in names if name not in KINDS), None)
    if unknown is not None:
        raise InputError(f"{reading.where}: layers of type {unknown!r:.40} are not modelled")
    return names


def _listed(reading: Reading) -> list[str] | None:
    """A name for every layer, as the file lists them."""
    for key in ("layer_types", "layers_block_type"):
        names = reading.config.get(key)
        if names is not None:
            if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
                raise InputError(f"{reading.where}: {key} is no list of names")
            return names
    return None


def _lettered(reading: Reading) -> list[str] | None:
    """Nemotron-H: a letter for every layer."""
    pattern = reading.config.get("hybrid_override_pattern")
    if not isinstance(pattern, str):
        return None
    return [LETTERS.get(letter, letter) for letter in pattern]


def _numbered(reading: Reading) -> list[str] | None:
    """MiniMax: 0 for a linear layer, 1 for full attention."""
    kinds = reading.config.get("attn_type_list")
    if not isinstance(kinds, list):
        return None
    return ["full_attention" if kind == 1 else "linear_attention" for kind in kinds]


def _indexed(reading: Reading) -> list[str] | None:
    """The places of the attention layers: Bamba and LFM2 from 0, Kimi Linear from 1."""
    linear = reading.config.get("linear_attn_config")
    if isinstance(linear, Mapping) and isinstance(linear.get("full_attn_layers"), list):
        places, first = linear["full_attn_layers"], 1
    else:
        places, first = reading.config.get("attn_layer_indices"), 0
        places = reading.config.get("full_attn_idxs") if places is None else places
    if not isinstance(places, list):
        return None
    count = reading.needed(*LAYERS)
    chosen = {place - first for place in places if isinstance(place, int)}
    return ["full_attention" if place in chosen else "linear_attention" for place in range(count)]


def _periodic(reading: Reading) -> list[str] | None:
    """Jamba: one attention layer in a period, at its offset."""
    if reading.config.get("model_type") != "jamba":
        return None
    period = reading.needed("attn_layer_period")
    offset = reading.get("attn_layer_offset")
    count = reading.needed(*LAYERS)
    return ["attention" if place % period == offset else "mamba" for place in range(count)]


def _repeated(reading: Reading) -> list[str] | None:
    """RecurrentGemma: a short list of types, repeated; its attention has a window."""
    blocks = reading.config.get("block_types")
    if not isinstance(blocks, list) or not blocks:
        return None
    count = reading.needed(*LAYERS)
    names = [{"attention": "sliding_attention"}.get(str(name), str(name)) for name in blocks]
    return [names[at % len(names)] for at in range(count)]


def _interval(reading: Reading) -> list[str] | None:
    """Qwen3-Next: linear attention, and full attention every so many layers."""
    every = reading.number("full_attention_interval")
    return None if every is None else _every(reading, every, "linear_attention")


def _chunked(reading: Reading) -> list[str] | None:
    """Llama 4: layers with positions see their chunk, those without all."""
    if reading.number("attention_chunk_size") is None:
        return None
    listed = reading.config.get("no_rope_layers")
    if isinstance(listed, list) and listed:
        return ["chunked_attention" if rope else "full_attention" for rope in listed]
    every = reading.number("no_rope_layer_interval")
    if every is None:
        raise InputError(
            f"{reading.where}: attention_chunk_size, but no layer_types say where it applies"
        )
    return _every(reading, every, "chunked_attention")


def _windowed(reading: Reading) -> list[str] | None:
    """A sliding window in all layers, in a pattern, or above a layer."""
    if reading.get("use_sliding_window") is False or reading.number(*WINDOW) is None:
        return None
    pattern = reading.get("sliding_window_pattern")
    if isinstance(pattern, str) and pattern:
        names = {"L": "sliding_attention", "G": "full_attention"}
        said = [names.get(letter, letter) for letter in pattern]
        return [said[at % len(said)] for at in range(reading.needed(*LAYERS))]
    if pattern is not None:
        every = reading.needed("sliding_window_pattern")
        return _every(reading, every, "sliding_attention")
    count = reading.needed(*LAYERS)
    full = 0
    if reading.config.get("use_sliding_window"):
        full = reading.number("max_window_layers", least=0) or 0
    else:
        reading.note("a sliding window and no pattern: it holds in every layer")
    return ["full_attention" if at < full else "sliding_attention" for at in range(count)]


def _every(reading: Reading, every: int, other: str) -> list[str]:
    """Full attention in the last layer of every so many."""
    count = reading.needed(*LAYERS)
    return [other if (place + 1) % every else "full_attention" for place in range(count)]


Rule: TypeAlias = Callable[[Reading], list[str] | None]
RULES: tuple[Rule, ...] = (
    _listed,
    _lettered,
    _numbered,
    _indexed,
    _periodic,
    _repeated,
    _interval,
    _chunked,
    _windowed,
)
"""In this order; a configuration none of them reads has full attention throughout."""
