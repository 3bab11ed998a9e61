"""`latscope kv`: sizes of the cache, what fits, what is assumed, errors of one line."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from latscope.cli.kv import size as parsed
from latscope.cli.main import run
from latscope.errors import UsageError
from latscope.report.kv import lines, size
from latscope.sim import kv, kvconfig

CONFIGS = Path(__file__).parents[2] / "fixtures" / "configs"
NAMES = sorted(file.stem for file in CONFIGS.glob("*.json"))
Capture = pytest.CaptureFixture[str]
TINY = ["--config", str(CONFIGS / "tiny.json")]
LLAMA = ["--layers", "32", "--kv-heads", "8", "--head-dim", "128"]
IN_24 = [*LLAMA, "--context", "4096", "--memory", "24GiB"]


def printed(capsys: Capture, *arguments: str) -> str:
    assert run(["kv", *arguments]) == 0
    found = capsys.readouterr()
    assert not found.err
    return found.out


def answered(capsys: Capture, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed(capsys, *arguments, "--json"))
    return found


def test_the_tiny_model_s_context(capsys: Capture) -> None:
    """4,096 bytes a token; 16 MiB for 4,096 tokens, of which vLLM fits 128 in its 2 GiB."""
    said = " ".join(printed(capsys, *TINY, "--context", "4096").split())
    assert "4,096 bytes = 2 × 8 layers × 2 KV heads × 64 × 2 bytes" in said
    assert "4,096 tokens 16 MiB 16,777,216 bytes" in said
    memory = ["--kv-memory", "2GiB", "--block", "128"]
    found = answered(capsys, *TINY, "--context", "4096", *memory)
    assert found["schema"] == "latscope.kv/1"
    assert found["fit"] == {
        "cache": 2 * 1024**3,
        "blocks": 4096,
        "tokens": 524_288,
        "sequences": 128,
        "at_once": 128.0,
    }


def test_options_stand_for_a_configuration(capsys: Capture) -> None:
    """Llama 3.1 8B by its numbers is Llama 3.1 8B by its file, but for what is assumed."""
    by_file = answered(capsys, "--config", str(CONFIGS / "llama-3.1-8b.json"), "--context", "100")
    by_hand = answered(capsys, *LLAMA, "--dtype", "bf16", "--context", "100")
    assert by_hand["layers"] == by_file["layers"]
    assert by_hand["context"] == by_file["context"]
    assert by_file["assumed"] == by_hand["assumed"] == []
    assert answered(capsys, *LLAMA)["assumed"] == ["no dtype: bfloat16, 2 bytes a value"]


def test_options_go_before_the_file(capsys: Capture) -> None:
    """Inside a multimodal model too."""
    found = answered(capsys, *TINY, "--kv-heads", "1", "--dtype", "fp32")
    assert (found["bytes_per_token"], found["dtype"]) == (2 * 8 * 64 * 4, "float32")
    gemma = ["--config", str(CONFIGS / "gemma-3-27b.json")]
    assert answered(capsys, *gemma, "--window", "7")["layers"][0]["window"] == 7


def test_windows_and_latents_can_be_given_by_hand(capsys: Capture) -> None:
    mixed = answered(capsys, *LLAMA, "--window", "128", "--full-every", "2")
    assert {group["kind"]: group["count"] for group in mixed["layers"]} == {
        "sliding": 16,
        "full": 16,
    }
    latent = answered(capsys, "--layers", "61", "--latent", "576")
    assert latent["bytes_per_token"] == 70_272


def test_a_quantised_cache_names_its_layout(capsys: Capture) -> None:
    said = printed(capsys, *LLAMA, "--kv-dtype", "int8")
    assert "int8 as vLLM 0.32: one fp32 scale for the keys" in " ".join(said.split())
    assert answered(capsys, *LLAMA, "--kv-dtype", "int8")["bytes_per_token"] == 32 * 2112


def test_weights_and_reserve_leave_the_rest_to_the_cache(capsys: Capture) -> None:
    """24 GiB less 8.03 billion parameters of two bytes, less 8 %."""
    memory = answered(capsys, *IN_24, "--params", "8.03B")["memory"]
    assert memory["weights"] == 16_060_000_000
    assert memory["reserve"] == 24 * 1024**3 * 8 // 100
    assert memory["cache"] == 24 * 1024**3 - memory["weights"] - memory["reserve"]
    assert "gpu_memory_utilization 0.92" in memory["reserve_source"]
    said = printed(capsys, *IN_24, "--params", "8.03B")
    assert "8.03B parameters in bfloat16" in said
    assert "gpu_memory_utilization 0.92" in " ".join(said.split())
    assert "✓ 58,336 tokens fit: 14 sequences of 4,096 tokens" in said


@pytest.mark.parametrize(("reserve", "size"), [("0", 0), ("10%", 2_576_980_377), ("1GB", 10**9)])
def test_the_reserve_is_a_size_or_a_share(reserve: str, size: int, capsys: Capture) -> None:
    memory = answered(capsys, *IN_24, "--weights", "1GiB", "--reserve", reserve)["memory"]
    assert (memory["reserve"], memory["reserve_source"]) == (size, "--reserve")


def test_an_index_states_the_weights(tmp_path: Path, capsys: Capture) -> None:
    file = tmp_path / "model.safetensors.index.json"
    file.write_text('{"metadata": {"total_size": 16060522496}, "weight_map": {}}')
    assert answered(capsys, *IN_24, "--index", str(file))["memory"]["weights"] == 16_060_522_496


def test_the_context_defaults_to_the_model_s_longest(capsys: Capture) -> None:
    """Only where something has to fit."""
    assert answered(capsys, *TINY)["context"] is None
    assert answered(capsys, *TINY, "--kv-memory", "1GiB")["context"]["tokens"] == 4096


@pytest.mark.parametrize(
    ("weights", "said"),
    [("30GiB", "weights and reserve leave nothing for the cache"), ("22GiB", "✗ not one sequence")],
)
def test_what_does_not_fit_is_said(weights: str, said: str, capsys: Capture) -> None:
    found = printed(capsys, *IN_24, "--weights", weights)
    assert said in found
    assert "✓" not in found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "kv needs --config FILE, or --layers, --kv-heads, --head-dim"),
        (["--layers", "1", "--latent", "5", "--kv-dtype", "int3"], "no format 'int3'"),
        ([*LLAMA, "--dtype", "int3"], "no format 'int3'"),
        ([*LLAMA, "--layers", "0"], "0 is not in the range"),
        ([*LLAMA, "--context", "-1"], "-1 is not in the range"),
        ([*LLAMA, "--memory", "24GiB", "--weights", "0"], "--memory needs --context"),
        ([*IN_24], "--memory needs one of --weights"),
        ([*IN_24, "--weights", "1GB", "--params", "1B"], "--memory needs one of --weights"),
        ([*IN_24, "--weights", "24G"], "write bytes, or a size such as 24GiB or 80GB"),
        ([*IN_24, "--weights", "-1"], "write bytes"),
        ([*IN_24, "--weights", "9999TiB"], "more than 1 PiB"),
        ([*IN_24, "--params", "8.03Q"], "a number of parameters"),
        ([*IN_24, "--weights", "0", "--reserve", "101%"], "more than all"),
        ([*IN_24, "--kv-memory", "1GiB"], "leave out --memory"),
        ([*LLAMA, "--weights", "1GiB"], "--weights needs --memory"),
        (
            ["--layers", "1", "--kv-heads", "1", "--head-dim", "80", "--kv-dtype", "q4_0"],
            "multiple",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_two(arguments: list[str], said: str, capsys: Capture) -> None:
    assert run(["kv", *arguments]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    assert said in found.err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "cannot be read"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "cannot be read"),
        (b"[" * 100_000, "is not JSON"),
        (b"[1]", "holds no JSON object"),
        (b"{}", "no num_hidden_layers"),
        (b'{"num_hidden_layers": 1e3}', "num_hidden_layers is 1000.0"),
        (b'{"num_hidden_layers": ' + b"9" * 5000 + b"}", "is not JSON"),
    ],
)
def test_an_unusable_file_is_one_line_and_three(
    content: bytes | None, said: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "config.json"
    if content is not None:
        file.write_bytes(content)
    assert run(["kv", "--config", str(file)]) == 3
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.count("\n") == 1
    assert said in found.err
    assert str(file) in found.err


@pytest.mark.parametrize(
    "content", ["{}", '{"metadata": 3}', '{"metadata": {"total_size": true}}',
                '{"metadata": {"total_size": -1}}', '{"metadata": {"total_size": NaN}}'],
)  # fmt: skip
def test_an_index_without_a_size_is_one_line_and_three(
    content: str, tmp_path: Path, capsys: Capture
) -> None:
    file = tmp_path / "index.json"
    file.write_text(content)
    assert run(["kv", *IN_24, "--index", str(file)]) == 3
    assert "states no metadata.total_size" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "count"),
    [("2147483648", 2**31), ("24GiB", 24 * 2**30), ("80 gb", 80 * 10**9), ("1.5KiB", 1536)],
)
def test_sizes_are_read_exactly(said: str, count: int) -> None:
    assert parsed(said, "--memory") == count


def test_a_size_in_another_script_is_none() -> None:
    with pytest.raises(UsageError, match="write bytes"):
        parsed("٣GiB", "--memory")


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (70_272, "68.62 KiB"),
        (805_700_000, "768.4 MiB"),
        (24 * 2**30, "24 GiB"),
        (2**50 * 1100, "1100 PiB"),
        (2**80, "1.1e+09 PiB"),
    ],
)
def test_sizes_are_said_in_four_digits(count: int, said: str) -> None:
    assert size(count) == said


def picture(name: str, context: int, cache: int, kept: str, width: int, colours: bool) -> str:
    config = json.loads((CONFIGS / f"{name}.json").read_text())
    model = kvconfig.read(config, name * 9, name)
    _, form = kv.format_named(kept)
    memory = kv.Memory(total=cache * 2, weights=cache // 2, weights_source="--weights",
                       reserve=cache // 2, reserve_source="words " * 30)  # fmt: skip
    answer = kv.to_mapping(
        model, kept, context, 16, memory, kv.fit(model, form, context, 16, memory.cache)
    )
    file = io.StringIO()
    console = Console(file=file, width=width, color_system="truecolor" if colours else None,
                      force_terminal=colours, highlight=False)  # fmt: skip
    for text in lines(answer, width=width, colours=colours):
        text.rstrip()
        console.print(text, soft_wrap=True)
    return file.getvalue()


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize(("context", "cache"), [(1, 0), (4096, 2**34), (10**9, 2**50)])
@pytest.mark.parametrize("name", NAMES)
def test_every_line_fits_its_width(name: str, context: int, cache: int, width: int) -> None:
    """Whatever the sizes; colours change bars and nothing else."""
    for kept in ("bfloat16", "int4"):
        plain = picture(name, context, cache, kept, width, False)
        assert all(len(line) <= width for line in plain.splitlines()), plain
        assert "\x1b" not in plain
    assert "\x1b" in picture(name, context, cache, "bfloat16", width, True)


def test_a_mixed_model_shows_where_growth_bends(capsys: Capture) -> None:
    """The windows fill up, the full layers go on."""
    said = printed(capsys, "--config", str(CONFIGS / "gemma-3-27b.json"), "--context", "8192")
    grown = [line for line in said.splitlines() if "tokens ▓" in line]
    assert len(grown) == 6
    windows = [line.count("▓") for line in grown]
    full = [line.count("█") for line in grown]
    assert windows[2] == windows[-1] > windows[0]
    assert full == sorted(full)
    assert full[-1] > full[2]
    assert "81,920 bytes once every window is full" in said


def test_unknown_states_are_said_to_be_unknown(tmp_path: Path, capsys: Capture) -> None:
    """Not 0."""
    file = tmp_path / "config.json"
    file.write_text(json.dumps({
        "num_hidden_layers": 2, "num_key_value_heads": 1, "head_dim": 64, "dtype": "bfloat16",
        "layer_types": ["mamba", "attention"], "v_head_dim": 32,
    }))  # fmt: skip
    said = printed(capsys, "--config", str(file))
    assert "   1 state          unknown  no token: a fixed state" in said
    assert "every token: 1 × (64 + 32) values" in said
    assert answered(capsys, "--config", str(file))["state_bytes"] is None
