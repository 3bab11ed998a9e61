"""Make the tiny models the real engines serve: `python models.py hf FOLDER` or `gguf FILE`.

Nothing can be downloaded where these tests run, so the weights are random and the tokenizer is
trained here, on the topics of Python's own help. What the engines do around the model (queues,
prefill, decode, streaming, usage, timings) is real; only the words are nonsense.

Tests want outputs of a known length, and random weights end an output at any token. So every
token carries one constant that no layer reads, and the last matrix turns it against the end
token: the model ends only where a grammar leaves it no other choice, or at a stop string. The
think marks are held back less, so that a `logit_bias` brings them in.

Run it with the Python of an engine's own virtual environment, which has numpy, `tokenizers` and
`gguf`; elsewhere those packages may be missing.
"""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

HIDDEN = 512
LAYERS = 8
HEADS = 8
KV_HEADS = 2
HEAD_DIM = HIDDEN // HEADS
FEED_FORWARD = 1408
VOCABULARY = 4096
CONTEXT = 4096
NORM_EPSILON = 1e-5
ROPE_BASE = 10000.0

BEGIN, END = 0, 1
SPECIAL = ["<s>", "</s>"]
THINK, THINK_END = VOCABULARY - 2, VOCABULARY - 1
THINK_WORDS = ["<think>", "</think>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] + ': ' + (message['content'] or '') + '\\n' }}"
    "{% endfor %}{{ 'assistant:' }}"
)

CONSTANT = 8.0  # what every token carries in dimension 0; about 7 after the last norm
HELD_BACK = {END: -4.0, THINK: -1.0, THINK_END: -1.0}  # weights on it: logits of -28 and -7
HF_NAMES = {
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
    "output": "lm_head",
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def train_tokenizer() -> Any:
    """Train a byte-level BPE tokenizer; the same Python gives the same tokenizer."""
    tokenizers: Any = import_module("tokenizers")
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=THINK,
        special_tokens=SPECIAL,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([text for _, text in sorted(topics.items())], trainer)
    tokenizer.add_tokens([tokenizers.AddedToken(word, normalized=False) for word in THINK_WORDS])
    return tokenizer


def weights() -> Iterator[tuple[str, Any]]:
    """Give every matrix and norm under its GGUF name, float32, without the suffix `.weight`."""
    numpy: Any = import_module("numpy")
    dice = numpy.random.default_rng(20)

    def matrix(rows: int, columns: int = HIDDEN) -> Any:
        return dice.standard_normal((rows, columns), dtype=numpy.float32) * 0.02

    def adding(columns: int) -> Any:
        """Make a matrix whose result is added to the stream; it leaves the constant alone."""
        values = matrix(HIDDEN, columns)
        values[0] = 0.0
        return values

    blind = numpy.full(HIDDEN, 16.0, dtype=numpy.float32)  # undoes what the constant shrinks
    blind[0] = 0.0
    embedding = matrix(VOCABULARY)
    embedding[:, 0] = CONSTANT
    yield "token_embd", embedding
    for layer in range(LAYERS):
        block = f"blk.{layer}"
        yield f"{block}.attn_norm", blind
        yield f"{block}.attn_q", matrix(HIDDEN)
        yield f"{block}.attn_k", matrix(KV_HEADS * HEAD_DIM)
        yield f"{block}.attn_v", matrix(KV_HEADS * HEAD_DIM)
        yield f"{block}.attn_output", adding(HIDDEN)
        yield f"{block}.ffn_norm", blind
        yield f"{block}.ffn_gate", matrix(FEED_FORWARD)
        yield f"{block}.ffn_up", matrix(FEED_FORWARD)
        yield f"{block}.ffn_down", adding(FEED_FORWARD)
    yield "output_norm", numpy.ones(HIDDEN, dtype=numpy.float32)
    last = matrix(VOCABULARY) * 4
    last[:, 0] = 0.0
    for token, weight in HELD_BACK.items():
        last[token] = 0.0
        last[token, 0] = weight
    yield "output", last


def write_hf(folder: Path) -> None:
    """Write a model folder: configuration, tokenizer and weights in bfloat16."""
    folder.mkdir(parents=True, exist_ok=True)
    train_tokenizer().save(str(folder / "tokenizer.json"))
    for name, content in {
        "config.json": hf_config(),
        "generation_config.json": {"bos_token_id": BEGIN, "eos_token_id": END, "do_sample": True},
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": SPECIAL[BEGIN],
            "eos_token": SPECIAL[END],
            "clean_up_tokenization_spaces": False,
            "model_max_length": CONTEXT,
            "chat_template": CHAT_TEMPLATE,
        },
    }.items():
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    write_safetensors(folder / "model.safetensors")


def hf_config() -> dict[str, object]:
    """Describe the model as the `transformers` package reads it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "hidden_act": "silu",
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": NORM_EPSILON,
        "rope_theta": ROPE_BASE,
        "tie_word_embeddings": False,
        "vocab_size": VOCABULARY,
        "bos_token_id": BEGIN,
        "eos_token_id": END,
        "torch_dtype": "bfloat16",
    }


def write_safetensors(file: Path) -> None:
    """Write the weights: a length, a JSON head with offsets, then the values one after another."""
    numpy: Any = import_module("numpy")
    head: dict[str, object] = {"__metadata__": {"format": "pt"}}
    body = bytearray()
    for name, values in weights():
        begin = len(body)
        body += (values.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()  # bfloat16
        head[hf_name(name)] = {
            "dtype": "BF16",
            "shape": values.shape,
            "data_offsets": [begin, len(body)],
        }
    text = json.dumps(head).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + body)


def hf_name(name: str) -> str:
    """Translate a GGUF name: `blk.3.attn_q` is `model.layers.3.self_attn.q_proj.weight`."""
    block, _, part = name.rpartition(".")
    where = block.replace("blk.", "model.layers.") + "." if block else ""
    return f"{where}{HF_NAMES[part]}.weight"


def write_gguf(file: Path) -> None:
    """Write the same model as one GGUF file, matrices in float16."""
    gguf: Any = import_module("gguf")
    numpy: Any = import_module("numpy")
    file.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(str(file), "llama")
    describe_architecture(writer, gguf)
    describe_tokenizer(writer, gguf)
    for name, values in weights():
        writer.add_tensor(
            f"{name}.weight", values if values.ndim == 1 else values.astype(numpy.float16)
        )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def describe_architecture(writer: Any, gguf: Any) -> None:
    """Put the sizes into the file's head."""
    writer.add_name("tiny")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(NORM_EPSILON)
    writer.add_vocab_size(VOCABULARY)


def describe_tokenizer(writer: Any, gguf: Any) -> None:
    """Put the tokenizer into the file's head, in the form the engine knows as `gpt2`."""
    tokenizer = train_tokenizer()
    vocabulary = tokenizer.get_vocab(with_added_tokens=True)
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    kinds = [gguf.TokenType.NORMAL] * len(tokens)
    kinds[BEGIN] = kinds[END] = gguf.TokenType.CONTROL
    kinds[THINK] = kinds[THINK_END] = gguf.TokenType.USER_DEFINED
    merges = json.loads(tokenizer.to_str())["model"]["merges"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in merges])
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)


def main() -> None:
    """Write what the first argument names to where the second says."""
    writers = {"hf": write_hf, "gguf": write_gguf}
    if len(sys.argv) != 3 or sys.argv[1] not in writers:
        raise SystemExit("usage: models.py hf FOLDER | gguf FILE")
    writers[sys.argv[1]](Path(sys.argv[2]))


if __name__ == "__main__":
    main()
