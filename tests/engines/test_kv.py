"""`latscope kv` against vLLM: what a running server reports, and what its own code makes of layers.

The server says its cache's size in its log and in /metrics; the other models are too large to
serve, so vLLM's planning code is asked alone, in its own environment.
"""

import json
import os
import re
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from latscope.cli.main import run
from latscope.sim import kv, kvconfig
from tests.engines import install, servers
from tests.engines.conftest import need

CONFIGS = Path(__file__).parents[2] / "fixtures" / "configs"
CONTEXT = 8192
CACHE = 40 * 1024**3


@pytest.mark.smoke
def test_a_server_reports_the_size_that_latscope_computes(
    vllm_server: servers.Server, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bytes, blocks, tokens and concurrency of the tiny model at 2 GiB."""
    with urllib.request.urlopen(f"{vllm_server.base_url}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    line = next(line for line in text.splitlines() if line.startswith("vllm:cache_config_info{"))
    labels = dict(re.findall(r'(\w+)="([^"]*)"', line))
    config = str(CONFIGS / "tiny.json")
    memory = ["--kv-memory", labels["kv_cache_memory_bytes"], "--block", labels["block_size"]]
    assert run(["kv", "--config", config, "--context", "4096", *memory, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["bytes_per_token"] == 4096
    assert said["fit"]["blocks"] == int(labels["num_gpu_blocks"])
    assert said["fit"]["tokens"] == int(labels["kv_cache_size_tokens"]) == 524_288
    assert said["fit"]["at_once"] == float(labels["kv_cache_max_concurrency"])
    log = vllm_server.log_path.read_text(encoding="utf-8", errors="replace")
    assert f"CPU KV cache size: {said['fit']['tokens']:,} tokens" in log


ASK = """
import vllm.config  # first: the rest imports itself in a circle otherwise
import json, shutil, sys, tempfile
from pathlib import Path

import torch
from transformers import AutoConfig
from vllm.config import CacheConfig, DeviceConfig, ModelConfig, SchedulerConfig, VllmConfig
from vllm.transformers_utils.model_arch_config_convertor import ModelArchConfigConvertorBase
from vllm.v1.attention.backends.triton_attn import TritonAttentionBackend
from vllm.v1.core.kv_cache_utils import get_kv_cache_capacity, get_kv_cache_configs
from vllm.v1.kv_cache_interface import (
    FullAttentionSpec, MLAAttentionSpec, SlidingWindowSpec, get_kv_quant_mode,
)

QUANTISED = {
    "fp8": torch.uint8, "int8_per_token_head": torch.int8, "int4_per_token_head": torch.uint8,
}

def folder(source):
    found = tempfile.mkdtemp()
    shutil.copy(source, Path(found) / "config.json")
    return found

def ask(source, base, context, cache):
    config = AutoConfig.from_pretrained(folder(source))
    text = config.get_text_config()
    sizes = ModelArchConfigConvertorBase(config, text)
    mla, window = sizes.is_deepseek_mla(), getattr(text, "sliding_window", None)
    other = "sliding_attention" if window else "full_attention"
    types = getattr(text, "layer_types", None) or [other] * sizes.get_num_hidden_layers()
    shape = dict(
        block_size=16,
        num_kv_heads=1 if mla else sizes.get_total_num_kv_heads(),
        head_size=sizes.get_head_size(),
    )
    full = MLAAttentionSpec if mla else FullAttentionSpec
    found = {"types": types, "layer": full(**shape, dtype=torch.bfloat16).page_size_bytes / 16}
    for name, dtype in {} if mla else QUANTISED.items():
        spec = full(**shape, dtype=dtype, kv_quant_mode=get_kv_quant_mode(name))
        found[name] = TritonAttentionBackend.customize_spec(spec).page_size_bytes / 16
    if "linear_attention" in types:
        return found
    shape["dtype"] = torch.bfloat16
    specs = {
        f"model.layers.{at}.self_attn": SlidingWindowSpec(**shape, sliding_window=window)
        if kind == "sliding_attention" else full(**shape)
        for at, kind in enumerate(types)
    }
    (plan,) = get_kv_cache_configs(base, [specs], [cache])
    found["blocks"] = plan.num_blocks
    found["tokens"], found["at_once"] = get_kv_cache_capacity(base, plan)
    return found

context, cache, *sources = sys.argv[1:]
where = folder(next(source for source in sources if "llama" in source))
base = VllmConfig(
    model_config=ModelConfig(
        model=where, tokenizer=where, skip_tokenizer_init=True, dtype="bfloat16",
        max_model_len=int(context),
    ),
    scheduler_config=SchedulerConfig(
        max_model_len=int(context), is_encoder_decoder=False, max_num_batched_tokens=2048,
        max_num_seqs=64,
    ),
    cache_config=CacheConfig(block_size=16),
    device_config=DeviceConfig("cpu"),
)
base.cache_config.kv_cache_layout = "LBNHC"
found = {Path(source).stem: ask(source, base, int(context), int(cache)) for source in sources}
print(json.dumps(found))
"""
NAMES = {"full": "full_attention", "sliding": "sliding_attention", "state": "linear_attention"}


@pytest.fixture(scope="session")
def asked() -> dict[str, Any]:
    """What vLLM's code says of every configuration."""
    need("vllm")
    python = install.folder("vllm") / "bin" / "python"
    files = [str(file) for file in sorted(CONFIGS.glob("*.json"))]
    done = subprocess.run(
        [str(python), "-c", ASK, str(CONTEXT), str(CACHE), *files],
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, servers.tail(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", sorted(file.stem for file in CONFIGS.glob("*.json")))
def test_vllm_s_own_code_finds_the_same(name: str, asked: dict[str, Any]) -> None:
    """Kinds of layers, bytes a layer and token in each format, blocks, tokens, concurrency."""
    said = asked[name]
    model = kvconfig.read(json.loads((CONFIGS / f"{name}.json").read_text()), name, name)
    counted = {
        NAMES.get(group.kind, "full_attention"): group.count
        for group in model.layers
        if group.kind != "none"
    }
    assert counted == {kind: said["types"].count(kind) for kind in set(said["types"])}
    kept = next(group for group in model.layers if group.widths)
    for label in ("layer", "fp8", "int8_per_token_head", "int4_per_token_head"):
        if label in said:
            _, form = kv.format_named("bfloat16" if label == "layer" else label)
            assert kept.token_bytes(form) == said[label], label
    if "tokens" in said:
        fit = kv.fit(model, kv.FORMATS["bfloat16"], CONTEXT, 16, CACHE)
        assert (fit.blocks, fit.tokens) == (said["blocks"], said["tokens"])
        assert float(fit.at_once) == pytest.approx(said["at_once"], rel=1e-12)
