"""`latscope kv`: what a KV cache takes, and how many tokens and sequences fit in a memory."""

import json
import re
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from latscope.cli.output import json_line, screen
from latscope.errors import InputError, UsageError
from latscope.report.kv import lines
from latscope.sim import kv, kvconfig
from latscope.sim.kvfields import language_part

UNITS: Mapping[str, int] = {
    "": 1,
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgt", start=1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgt", start=1)},
}
MOST_BYTES = 1024**5
COUNTS: Mapping[str, int] = {"": 1, "K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12}

RESERVE_PERCENT = 8
RESERVE_SOURCE = (
    "8 % of the memory, what vLLM 0.32 leaves alone (gpu_memory_utilization 0.92,"
    " vllm/config/cache.py); it also sets aside the peak of activations it measures at start: add"
    " that with --reserve"
)
ALONE = "--kv-memory is the cache alone"


@click.command("kv", short_help="memory of the KV cache, and what fits")
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A Hugging Face config.json; the options below go before it.",
)
@click.option("--layers", type=click.IntRange(1, 100_000), help="Layers.")
@click.option("--kv-heads", type=click.IntRange(1, 100_000), help="KV heads of a layer.")
@click.option("--head-dim", type=click.IntRange(1, 100_000), help="Length of a key or value.")
@click.option(
    "--latent",
    type=click.IntRange(1, 100_000),
    help="MLA: length of the one vector, kv_lora_rank + qk_rope_head_dim.",
)
@click.option("--window", type=click.IntRange(1, kv.MOST_TOKENS), help="Sliding window, in tokens.")
@click.option(
    "--full-every",
    type=click.IntRange(1, 100_000),
    metavar="N",
    help="Of N layers the last sees everything, the others the window.",
)
@click.option("--dtype", help="Of the model; default: the configuration's, else bfloat16.")
@click.option("--kv-dtype", help="Of the cache, default that of the model: fp8, int8, int4, q8_0.")
@click.option("--context", type=click.IntRange(1, kv.MOST_TOKENS), help="Tokens of a sequence.")
@click.option(
    "--block",
    type=click.IntRange(1, 1_000_000),
    default=16,
    show_default=True,
    help="Tokens a block (vLLM: 16 on GPUs, 128 on CPUs).",
)
@click.option(
    "--in-flight",
    type=click.IntRange(0, 10_000_000),
    default=kv.IN_FLIGHT,
    show_default=True,
    help="Tokens being computed, which sliding windows hold besides.",
)
@click.option("--memory", metavar="SIZE", help="Of the device: 24GiB, 80GB.")
@click.option("--weights", metavar="SIZE", help="Of the weights in it.")
@click.option("--params", metavar="N", help="Or their number, 8.03B, times the size of --dtype.")
@click.option(
    "--index",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Or a model.safetensors.index.json, which states the size.",
)
@click.option("--reserve", metavar="SIZE|N%", help="For activations and the rest. Default: 8%.")
@click.option(
    "--kv-memory", metavar="SIZE", help="Memory of the cache alone, in place of the four above."
)
@click.option("--json", "as_json", is_flag=True, help="latscope.kv/1 on one line.")
def kv_command(as_json: bool, **given: Any) -> None:
    """What the KV cache of a model takes, per token and for a context, and how many tokens and
    sequences of the context fit beside the weights.

    \b
      latscope kv --config config.json --context 4096
      latscope kv --layers 32 --kv-heads 8 --head-dim 128 --memory 24GiB --params 8.03B
    """
    model = _model(given)
    name, kept = kv.format_named(given["kv_dtype"] or model.dtype)
    kv.check(model, name)
    memory = _memory(given, model)
    block, in_flight = given["block"], given["in_flight"]
    context = given["context"] or (model.longest if memory else None)
    if memory is not None and context is None:
        raise UsageError("--memory needs --context: how long is a sequence?")
    found = None
    if memory is not None and context is not None:
        found = kv.fit(model, kept, context, block, memory.cache, in_flight)
    answer = kv.to_mapping(model, name, context, block, memory, found, in_flight)
    if as_json:
        json_line(answer)
        return
    out = screen()
    out.lines(lines(answer, width=out.width, colours=out.colours))


# ---- the model --------------------------------------------------------------------------------

OPTIONS: Mapping[str, str] = {
    "layers": "num_hidden_layers",
    "kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "latent": "kv_lora_rank",
    "window": "sliding_window",
    "full_every": "sliding_window_pattern",
    "dtype": "dtype",
}
"""Options, and the key of a configuration each stands for."""


def _model(given: Mapping[str, Any]) -> kv.Model:
    path: Path | None = given["config"]
    said = {key: given[name] for name, key in OPTIONS.items() if given[name] is not None}
    if given["latent"] is not None:
        said |= {"qk_rope_head_dim": 0}
    if given["dtype"] is not None:
        kv.format_named(given["dtype"])
    if path is not None:
        return kvconfig.read(_with(_object(path, "--config"), said), path.stem, str(path))
    heads = ("layers", "latent") if given["latent"] else ("layers", "kv_heads", "head_dim")
    missing = [f"--{name.replace('_', '-')}" for name in heads if given[name] is None]
    if missing:
        raise UsageError(f"kv needs --config FILE, or {', '.join(missing)}")
    return kvconfig.read(said, "a model of these options", "the options")


def _with(config: Mapping[str, Any], said: Mapping[str, Any]) -> Mapping[str, Any]:
    """A configuration with keys put in their place, which may be inside a multimodal one."""
    inner = language_part(config)
    if inner is config:
        return {**config, **said}
    return {**config, "text_config": {**inner, **said}}


def _object(path: Path, option: str) -> Mapping[str, Any]:
    """A JSON object from a file; InputError, one line, when it is none."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{option}: {path} cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{option}: {path} is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InputError(f"{option}: {path} holds no JSON object")
    return value


# ---- the memory -------------------------------------------------------------------------------


def _memory(given: Mapping[str, Any], model: kv.Model) -> kv.Memory | None:
    """What is there and what of it is taken; null when no memory is given."""
    names = ("memory", "weights", "params", "index", "reserve")
    used = [f"--{name}" for name in names if given[name] is not None]
    if given["kv_memory"] is not None:
        if used:
            raise UsageError(f"--kv-memory is the cache alone; leave out {', '.join(used)}")
        total = size(given["kv_memory"], "--kv-memory")
        return kv.Memory(
            total=total,
            weights=0,
            weights_source=ALONE,
            reserve=0,
            reserve_source=ALONE,
        )
    if given["memory"] is None:
        if used:
            raise UsageError(f"{used[0]} needs --memory: how much does the device have?")
        return None
    total = size(given["memory"], "--memory")
    reserve, source = _reserve(given["reserve"], total)
    weights, said = _weights(given, model)
    return kv.Memory(
        total=total,
        weights=weights,
        weights_source=said,
        reserve=reserve,
        reserve_source=source,
    )


def _weights(given: Mapping[str, Any], model: kv.Model) -> tuple[int, str]:
    """Bytes of the weights, from exactly one of the three ways to say it, and that way."""
    said = [name for name in ("weights", "params", "index") if given[name] is not None]
    if len(said) != 1:
        raise UsageError(
            "--memory needs one of --weights SIZE, --params N and --index FILE"
            " (--weights 0 where they lie elsewhere)"
        )
    if said == ["weights"]:
        return size(given["weights"], "--weights"), "--weights"
    if said == ["params"]:
        kept = kv.format_named(model.dtype)[1]
        each = Fraction(kept.group_bytes, kept.group)
        return int(_count(given["params"]) * each), f"{given['params']} parameters in {model.dtype}"
    metadata = _object(given["index"], "--index").get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, dict) else None
    if isinstance(total, bool) or not isinstance(total, int | float) or not 0 <= total < MOST_BYTES:
        raise InputError(f"--index: {given['index']} states no metadata.total_size")
    return int(total), f"total_size of {given['index']}"


def _reserve(said: str | None, total: int) -> tuple[int, str]:
    if said is None:
        return total * RESERVE_PERCENT // 100, RESERVE_SOURCE
    if found := re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%", said.strip()):
        share = Fraction(found[1])
        if share > 100:
            raise UsageError(f"--reserve {said}: more than all")
        return int(total * share / 100), "--reserve"
    return size(said, "--reserve"), "--reserve"


def size(said: str, option: str) -> int:
    """Bytes of `24GiB`, `80GB` or a plain number. `24G` is an error: it says not which."""
    found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([A-Za-z]*)", said.strip())
    if found is None or found[2].lower() not in UNITS:
        raise UsageError(f"{option} {said!r:.40}: write bytes, or a size such as 24GiB or 80GB")
    value = int(Fraction(found[1]) * UNITS[found[2].lower()])
    if value > MOST_BYTES:
        raise UsageError(f"{option} {said!r:.40} is more than 1 PiB")
    return value


def _count(said: str) -> Fraction:
    found = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([KMBT]?)", said.strip().upper())
    if found is None:
        raise UsageError(f"--params {said!r:.40}: write a number of parameters, such as 8.03B")
    return Fraction(found[1]) * COUNTS[found[2]]
