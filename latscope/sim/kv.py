"""Memory of the KV cache: bytes a token, bytes of a context, and what fits in a given memory.

A token leaves in every layer that attends to it what later tokens read of it:

    full         keys and values of every token:   2 x KV heads x head dimension
    sliding      the same, of the last `window` tokens only
    chunked      the same, of the tokens of its own chunk
    latent       one vector of every token (MLA), keys and values in one
    state        nothing per token; a fixed state per sequence (linear attention, Mamba)
    none         nothing (feed-forward layers, layers that share another's cache)

Memory is handed out in blocks of tokens. `latscope.sim.kvconfig` reads the layers off a model's
configuration; here is arithmetic only. Layouts: vLLM 0.32 (v1/kv_cache_interface.py and the
backends' customize_spec), llama.cpp's block formats (ggml-common.h).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, TypeAlias

from latscope.errors import UsageError

SCHEMA = "latscope.kv/1"
MOST_TOKENS = 1_000_000_000
IN_FLIGHT = 2048
"""vLLM 0.32's default max_num_batched_tokens (vllm/config/scheduler.py)."""
ALIKE = 1.5
"""vLLM 0.32 pads the smaller kind of layers up, not the larger one down, below this ratio."""

Kind: TypeAlias = Literal["full", "sliding", "chunked", "latent", "state", "none"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """How a vector of the cache is stored: `group` values in `group_bytes`, and per head and token
    `scales` bytes more. group 1 for plain numbers."""

    group: int
    group_bytes: int
    scales: int = 0
    source: str = ""

    def vector(self, width: int) -> int:
        """Bytes of one vector of so many values; see `check`."""
        return width // self.group * self.group_bytes


VLLM = "vLLM 0.32: one fp32 scale for the keys and one for the values of a head and token"
GGML = "llama.cpp: blocks of 32 values with their scale"

FORMATS: Mapping[str, Format] = {
    "float32": Format(group=1, group_bytes=4),
    "bfloat16": Format(group=1, group_bytes=2),
    "float16": Format(group=1, group_bytes=2),
    "fp8": Format(group=1, group_bytes=1, source="one scale for a whole layer: no bytes a token"),
    "fp8_per_token_head": Format(group=1, group_bytes=1, scales=8, source=VLLM),
    "int8": Format(group=1, group_bytes=1, scales=8, source=VLLM),
    "int4": Format(group=2, group_bytes=1, scales=8, source=VLLM),
    "nvfp4": Format(
        group=16, group_bytes=9, source="vLLM 0.32: 16 values in 8 bytes, and an fp8 scale"
    ),
    "q8_0": Format(group=32, group_bytes=34, source=GGML),
    "q5_1": Format(group=32, group_bytes=24, source=GGML),
    "q5_0": Format(group=32, group_bytes=22, source=GGML),
    "q4_1": Format(group=32, group_bytes=20, source=GGML),
    "q4_0": Format(group=32, group_bytes=18, source=GGML),
    "iq4_nl": Format(group=32, group_bytes=18, source=GGML),
}

SAME: Mapping[str, str] = {
    "fp32": "float32",
    "f32": "float32",
    "float": "float32",
    "bf16": "bfloat16",
    "fp16": "float16",
    "f16": "float16",
    "half": "float16",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
    "int8_per_token_head": "int8",
    "int4_per_token_head": "int4",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """So many layers of one kind. heads: KV heads, 1 for a latent; widths: length of the vectors a
    head keeps of a token (keys, values), empty when it keeps none; window: most tokens kept, null
    for all; extra_bytes: what a token takes besides, in no format's reach (an indexer's keys);
    state_bytes: of each sequence, null when unknown."""

    kind: Kind
    count: int
    heads: int = 0
    widths: tuple[int, ...] = ()
    window: int | None = None
    extra_bytes: int = 0
    state_bytes: int | None = 0

    def token_bytes(self, kept: Format) -> int:
        """What one token leaves in one of these layers."""
        if not self.widths:
            return 0
        return self.heads * (sum(map(kept.vector, self.widths)) + kept.scales) + self.extra_bytes

    def tokens(self, context: int) -> int:
        """How many of a context's tokens are kept."""
        return context if self.window is None else min(context, self.window)

    def blocks(self, context: int, block: int, in_flight: int) -> int:
        """Blocks a sequence holds here at most. A window keeps the tokens being computed besides,
        and lies across one block more than it fills; a chunk begins where a block does."""
        tokens = context
        if self.window is not None:
            tokens = min(context, self.window + in_flight - (self.kind == "sliding"))
        return -(-tokens // block) + (self.kind == "sliding")


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as far as its KV cache goes. dtype: of the model; assumed: what the configuration
    does not say and was taken for granted, in words."""

    name: str
    layers: tuple[Layers, ...]
    dtype: str
    longest: int | None = None
    """Most tokens of a context the configuration allows."""
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a device has and what of it is spoken for, in bytes."""

    total: int
    weights: int
    weights_source: str
    reserve: int
    reserve_source: str

    @property
    def cache(self) -> int:
        return max(0, self.total - self.weights - self.reserve)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """What a cache of so many bytes holds. blocks: of the pool, null where layers are too unlike to
    share one; at_once: sequences of the whole context, not rounded down (vLLM's "maximum
    concurrency")."""

    cache: int
    blocks: int | None
    at_once: Fraction
    context: int

    @property
    def sequences(self) -> int:
        return int(self.at_once)

    @property
    def tokens(self) -> int:
        """In sequences of the context: what vLLM calls its KV cache size."""
        return int(self.at_once * self.context)


def format_named(name: str) -> tuple[str, Format]:
    """A format by its usual names; UsageError lists them."""
    plain = name.strip().lower().removeprefix("torch.")
    plain = SAME.get(plain, plain)
    if plain not in FORMATS:
        raise UsageError(f"no format {name!r:.40}; there are: {', '.join(FORMATS)}")
    return plain, FORMATS[plain]


def check(model: Model, name: str) -> None:
    """UsageError when the format cannot hold the model's vectors: it keeps groups of values."""
    group = FORMATS[name].group
    for width in (width for layers in model.layers for width in layers.widths):
        if width % group:
            raise UsageError(f"{name} keeps {group} values together; {width} is no multiple of it")


def token_bytes(model: Model, kept: Format) -> int:
    """What a token leaves behind in all layers: 2 x layers x KV heads x head dimension x bytes
    where they are all alike."""
    return sum(group.count * group.token_bytes(kept) for group in model.layers)


def growth_bytes(model: Model, kept: Format) -> int:
    """By how much a sequence grows a token once every window is full."""
    whole = (group for group in model.layers if group.window is None)
    return sum(group.count * group.token_bytes(kept) for group in whole)


def state_bytes(model: Model) -> int | None:
    """What each sequence takes whatever its length; null when a layer's is not known."""
    states = [(group.count, group.state_bytes) for group in model.layers]
    if any(state is None for _, state in states):
        return None
    return sum(count * (state or 0) for count, state in states)


def context_bytes(model: Model, kept: Format, context: int) -> int:
    """What a sequence of so many tokens needs, its state included as far as it is known."""
    return sum(
        group.count * (group.token_bytes(kept) * group.tokens(context) + (group.state_bytes or 0))
        for group in model.layers
    )


def fit(
    model: Model, kept: Format, context: int, block: int, cache: int, in_flight: int = IN_FLIGHT
) -> Fit:
    """How many sequences of `context` tokens a cache of so many bytes holds.

    Raises UsageError when the model keeps nothing, so that no number would mean anything."""
    groups = [group for group in model.layers if group.widths]
    pages = {group.token_bytes(kept) * block for group in groups}
    if len(pages) == 1 and not any(group.state_bytes for group in model.layers):
        return _pooled(groups, pages.pop(), context, block, cache, in_flight)
    each = sum(
        group.count * group.blocks(context, block, in_flight) * group.token_bytes(kept) * block
        for group in groups
    )
    each += state_bytes(model) or 0
    if each == 0:
        raise UsageError(f"{model.name} keeps nothing of a token: no memory limits how many fit")
    return Fit(cache=cache, blocks=None, at_once=Fraction(cache, each), context=context)


def _pooled(
    groups: Sequence[Layers], page: int, context: int, block: int, cache: int, in_flight: int
) -> Fit:
    """vLLM's pool: kinds are cut into groups of one size, the last of each kind padded, and a
    block of the pool is a page of every layer of a group."""
    counts = [group.count for group in groups]
    size = max(counts) if max(counts) < ALIKE * min(counts) else min(counts)
    blocks = cache // (size * page)
    needed = sum(
        -(-group.count // size) * group.blocks(context, block, in_flight) for group in groups
    )
    return Fit(cache=cache, blocks=blocks, at_once=Fraction(blocks, needed), context=context)


def notes(model: Model, found: Fit, in_flight: int) -> list[str]:
    """What a fit takes for granted, in words."""
    said = []
    if any(group.window for group in model.layers):
        said.append(
            f"windows also hold {in_flight:,} tokens in flight (--in-flight): vLLM 0.32's"
            " max_num_batched_tokens, 2048 by default, 8192 for its server on GPUs from 70 GiB,"
            " times the batches it runs at once"
        )
    if found.blocks is None:
        said.append("layers of unlike sizes: an engine that pads them to one size fits fewer")
    return said


def to_mapping(
    model: Model,
    kept_name: str,
    context: int | None,
    block: int,
    memory: Memory | None = None,
    found: Fit | None = None,
    in_flight: int = IN_FLIGHT,
) -> dict[str, Any]:
    """`latscope.kv/1`, JSON-ready; sizes in bytes, null where nothing was asked or is known."""
    kept = FORMATS[kept_name]
    return {
        "schema": SCHEMA,
        "model": model.name,
        "dtype": model.dtype,
        "kv_dtype": kept_name,
        "kv_source": kept.source,
        "layers": [_plain_layers(group, kept) for group in model.layers],
        "bytes_per_token": token_bytes(model, kept),
        "growth_per_token": growth_bytes(model, kept),
        "state_bytes": state_bytes(model),
        "context": None
        if context is None
        else {
            "tokens": context,
            "bytes": context_bytes(model, kept, context),
        },
        "block": block,
        "memory": None if memory is None else _plain_memory(memory),
        "fit": None if found is None else _plain_fit(found),
        "assumed": [*model.assumed, *(notes(model, found, in_flight) if found else ())],
    }


def _plain_layers(group: Layers, kept: Format) -> dict[str, Any]:
    return {
        "kind": group.kind,
        "count": group.count,
        "kv_heads": group.heads,
        "widths": list(group.widths),
        "window": group.window,
        "bytes_per_token": group.token_bytes(kept),
        "state_bytes": group.state_bytes,
    }


def _plain_memory(memory: Memory) -> dict[str, Any]:
    return {
        "total": memory.total,
        "weights": memory.weights,
        "weights_source": memory.weights_source,
        "reserve": memory.reserve,
        "reserve_source": memory.reserve_source,
        "cache": memory.cache,
    }


def _plain_fit(found: Fit) -> dict[str, Any]:
    return {
        "cache": found.cache,
        "blocks": found.blocks,
        "tokens": found.tokens,
        "sequences": found.sequences,
        "at_once": round(float(found.at_once), 4),
    }
