"""Record what vLLM's scheduler decides, step by step: `python golden_scheduler.py [FOLDER]`.

Run it with the Python of vLLM's own virtual environment. The scheduler is vLLM's; there is no
model: a batch's outcome is made by hand, one token for every call whose known tokens are all
computed. Each case gives one JSON file (fixtures/scheduler), which the tests of the simulator's
scheduler replay without vLLM. `golden_scheduler.py FOLDER SEED STOP` records drawn cases instead:
more of them than anyone wants to keep.

A turn is one round of the engine's loop: calls that arrive in it, `schedule()`, and, when as many
batches are under way as the engine plans ahead (or there was nothing to schedule), the oldest
batch's outcome. Of each turn: rows [call, tokens] in the batch's order; the calls admitted in it,
each with the tokens it found in memory; those preempted; those that got a token from the outcome;
those that ended; the free blocks after it.
"""

import json
import sys
import tempfile
from collections import deque
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve()
FOLDER = HERE.parents[2] / "fixtures" / "scheduler"
TURNS = 4000
CONTEXT = 4096
STOP_TOKEN = 7
STREAM = 1 << 20
"""Token values to a stream of tokens: calls with a prefix in common have those values in common."""

Case = dict[str, Any]


def call(turn: int, prompt: int, output: int, **rest: Any) -> dict[str, Any]:
    return {"turn": turn, "prompt": prompt, "output": output, **rest}


CASES: dict[str, Case] = {
    "chunked": {
        "what": "prompts longer than the budget, cut to what the decodes leave of it",
        "limits": {"max_num_batched_tokens": 32, "max_num_seqs": 8},
        "calls": [call(0, 20, 6), call(0, 50, 4), call(2, 70, 3), call(3, 5, 8), call(9, 33, 2)],
    },
    "seats": {
        "what": "more calls than may run at once: a place is filled in the step after it is free",
        "limits": {"max_num_batched_tokens": 64, "max_num_seqs": 2},
        "calls": [call(0, 10, 5), call(0, 12, 2), call(0, 9, 4), call(1, 40, 1), call(2, 30, 3)],
    },
    "memory": {
        "what": "memory runs out while calls decode: the last admitted starts over, output and all",
        "limits": {"max_num_batched_tokens": 64, "max_num_seqs": 8, "blocks": 9},
        "calls": [call(0, 40, 30), call(0, 40, 30), call(1, 30, 20), call(3, 20, 40)],
    },
    "memory-uncached": {
        "what": "the same without a prefix cache: a call that starts over finds nothing",
        "limits": {
            "max_num_batched_tokens": 64,
            "max_num_seqs": 8,
            "blocks": 9,
            "caching": False,
        },
        "calls": [call(0, 40, 30), call(0, 40, 30), call(1, 30, 20), call(3, 20, 40)],
    },
    "prefix": {
        "what": "a shared prefix, found by block; a prompt that is all there; the oldest forgotten",
        "limits": {"max_num_batched_tokens": 64, "max_num_seqs": 4, "blocks": 14},
        "calls": [
            call(0, 70, 4, prefix="a", shared=64),
            call(0, 70, 4, prefix="a", shared=64),
            call(8, 64, 3, prefix="a", shared=64),
            call(8, 64, 3, prefix="a", shared=64),
            call(14, 100, 20, prefix="b", shared=48),
            call(15, 60, 9, prefix="b", shared=48),
            call(40, 90, 4, prefix="a", shared=64),
            call(44, 64, 2, prefix="b", shared=48),
        ],
    },
    "session": {
        "what": "later turns of a conversation find the earlier ones, answers included",
        "limits": {"max_num_batched_tokens": 64, "max_num_seqs": 4, "blocks": 40},
        "calls": [
            call(0, 50, 30, prefix="system", shared=32, session="s"),
            call(3, 48, 8, prefix="system", shared=32, session="t"),
            call(45, 100, 20, prefix="system", shared=32, session="s"),
            call(46, 70, 20, prefix="system", shared=32, session="t"),
            call(90, 140, 5, prefix="system", shared=32, session="s"),
        ],
    },
    "priority": {
        "what": "urgent calls first; a threshold keeps a long prompt from taking the whole step",
        "limits": {
            "max_num_batched_tokens": 48,
            "max_num_seqs": 4,
            "long_prefill": 16,
            "policy": "priority",
            "blocks": 12,
        },
        "calls": [
            call(0, 90, 12, priority=5),
            call(1, 20, 10, priority=0),
            call(1, 60, 6, priority=2),
            call(2, 15, 25, priority=1),
            call(4, 40, 4, priority=9),
            call(20, 30, 4, priority=0),
        ],
    },
    "async-chunked": {
        "what": "two batches deep: the next chunk is planned while this one runs",
        "limits": {"max_num_batched_tokens": 32, "max_num_seqs": 8, "depth": 2},
        "calls": [call(0, 20, 6), call(0, 50, 4), call(2, 70, 3), call(3, 5, 8), call(9, 33, 2)],
    },
    "async-seats": {
        "what": "two batches deep, more calls than may run: a place is filled one step later; calls"
        " that end by a stop token are computed once too often",
        "limits": {"max_num_batched_tokens": 64, "max_num_seqs": 2, "depth": 2},
        "calls": [
            call(0, 10, 5),
            call(0, 12, 2, cap=9),
            call(0, 9, 4),
            call(1, 40, 1),
            call(2, 30, 3, cap=50),
            call(2, 20, 1, cap=2),
        ],
    },
    "async-memory": {
        "what": "two batches deep: a preempted call still gets the token that was under way",
        "limits": {"max_num_batched_tokens": 64, "max_num_seqs": 8, "blocks": 9, "depth": 2},
        "calls": [call(0, 40, 30), call(0, 40, 30), call(1, 30, 20), call(3, 20, 40, cap=60)],
    },
}


DRAWN = (41, 51, 76, 191, 202)
"""Drawn cases worth keeping: many preemptions, both depths, both policies."""


def drawn(seed: int) -> Case:
    """A case nobody thought of: tight limits, a few prefixes, every setting now and then."""
    dice = Random(seed)
    size = dice.choice((4, 16))
    limits: dict[str, Any] = {
        "max_num_batched_tokens": dice.choice((24, 40, 64, 200)),
        "max_num_seqs": dice.choice((2, 4, 7, 20)),
        "block_size": size,
        "blocks": dice.choice((8, 12, 20, 60)) * (16 // size),
        "policy": dice.choice(("fcfs", "fcfs", "priority")),
        "caching": dice.random() < 0.8,
        "depth": dice.choice((1, 2)),
        "long_prefill": dice.choice((0, 0, 0, 10, 16)),
    }
    room = limits["blocks"] * size
    calls, turn = [], 0
    for _ in range(dice.choice((5, 12, 30))):
        turn += dice.choice((0, 0, 1, 3, 10))
        prompt, output = dice.randint(1, room * 2 // 3), dice.randint(1, room // 4)
        one = call(turn, prompt, output, priority=dice.randint(0, 2))
        if dice.random() < 0.3:
            one["cap"] = output + dice.randint(1, 9)
        if dice.random() < 0.6:
            one["prefix"] = dice.choice("ab")
            one["shared"] = min(prompt, dice.choice((16, 40, 64)))
        calls.append(one)
    return {"what": f"drawn with seed {seed}", "limits": limits, "calls": calls}


DEFAULTS: dict[str, Any] = {
    "max_num_batched_tokens": 64,
    "max_num_seqs": 8,
    "long_prefill": 0,
    "chunked": True,
    "blocks": 64,
    "block_size": 16,
    "caching": True,
    "policy": "fcfs",
    "depth": 1,
}


def whole(case: Case) -> Case:
    """The case with every limit spelled out."""
    return {**case, "limits": DEFAULTS | case["limits"]}


def record(case: Case) -> list[dict[str, Any]]:
    """The turns of the case, as vLLM's scheduler takes them."""
    limits = case["limits"]
    scheduler = scheduler_for(limits)
    arrivals = deque(enumerate(case["calls"]))
    under_way: deque[tuple[Any, dict[str, bool]]] = deque()
    turns: list[dict[str, Any]] = []
    for turn in range(TURNS):
        while arrivals and arrivals[0][1]["turn"] <= turn:
            number, one = arrivals.popleft()
            scheduler.add_request(request_for(number, one, limits))
        if not (arrivals or under_way or scheduler.get_num_unfinished_requests()):
            return turns
        preempted = {name: one.num_preemptions for name, one in scheduler.requests.items()}
        output = scheduler.schedule()
        row = planned(output)
        row["preempted"] = sorted(
            int(name)
            for name, one in scheduler.requests.items()
            if one.num_preemptions > preempted[name]
        )
        if output.num_scheduled_tokens:
            samples = {
                name: not scheduler.requests[name].is_prefill_chunk
                for name in output.num_scheduled_tokens
            }
            under_way.append((output, samples))
        if len(under_way) == limits["depth"] or (under_way and not output.num_scheduled_tokens):
            row |= settled(scheduler, case, *under_way.popleft())
        row["free"] = scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        turns.append(row)
    raise SystemExit(f"{case['what']}: not done after {TURNS} turns")


def planned(output: Any) -> dict[str, Any]:
    found = {new.req_id: new.num_computed_tokens for new in output.scheduled_new_reqs}
    cached = output.scheduled_cached_reqs
    computed = dict(zip(cached.req_ids, cached.num_computed_tokens, strict=True))
    found |= {name: computed[name] for name in cached.req_ids if name in cached.resumed_req_ids}
    rows = output.num_scheduled_tokens
    return {
        "rows": [[int(name), tokens] for name, tokens in rows.items()],
        "admitted": [[int(name), found[name]] for name in rows if name in found],
    }


def settled(scheduler: Any, case: Case, output: Any, samples: dict[str, bool]) -> dict[str, Any]:
    """Hands the scheduler the batch's outcome, and says what came of it."""
    outputs = import_module("vllm.v1.outputs")
    names = list(output.num_scheduled_tokens)
    tokens = [[sampled(scheduler, case, name)] if samples[name] else [] for name in names]
    places = {name: place for place, name in enumerate(names)}
    made = outputs.ModelRunnerOutput(
        req_ids=names, req_id_to_index=places, sampled_token_ids=tokens
    )
    got, ended = [], []
    for batch in scheduler.update_from_output(output, made).values():
        for one in batch.outputs:
            got.append(int(one.request_id))
            if one.finish_reason is not None:
                ended.append(int(one.request_id))
    return {"got": got, "ended": ended}


def sampled(scheduler: Any, case: Case, name: str) -> int:
    """The call's next token: the stop token when it is the last of one that ends by it."""
    request = scheduler.requests.get(name)
    if request is None:
        return 0
    one = case["calls"][int(name)]
    made: int = request.num_output_tokens
    if made + 1 == one["output"] < one.get("cap", one["output"]):
        return STOP_TOKEN
    return token(int(name), one, one["prompt"] + made)


def token(number: int, one: dict[str, Any], place: int) -> int:
    """What stands at `place` of the call: its prefix, then its session's or its own text."""
    if place < one.get("shared", 0):
        return STREAM * sum(str(one["prefix"]).encode()) + place
    session = one.get("session")
    own = 5000 + number if session is None else 3000 + sum(str(session).encode())
    return STREAM * int(own) + place


def request_for(number: int, one: dict[str, Any], limits: dict[str, Any]) -> Any:
    vllm = import_module("vllm")
    request = import_module("vllm.v1.request")
    blocks = import_module("vllm.v1.core.kv_cache_utils")
    hashing = import_module("vllm.utils.hashing")
    blocks.init_none_hash(hashing.sha256)
    return request.Request(
        request_id=str(number),
        prompt_token_ids=[token(number, one, place) for place in range(one["prompt"])],
        sampling_params=vllm.SamplingParams(
            max_tokens=one.get("cap", one["output"]), stop_token_ids=[STOP_TOKEN]
        ),
        pooling_params=None,
        arrival_time=float(number),
        priority=one.get("priority", 0),
        block_hasher=blocks.get_request_block_hasher(limits["block_size"], hashing.sha256),
    )


def scheduler_for(limits: dict[str, Any]) -> Any:
    kv = import_module("vllm.v1.kv_cache_interface")
    structured = import_module("vllm.v1.structured_output")
    torch = import_module("torch")
    config = config_for(limits)
    blocks = limits["blocks"] + 1  # the pool reserves block 0
    config.cache_config.num_gpu_blocks = blocks
    spec = kv.FullAttentionSpec(
        block_size=limits["block_size"], num_kv_heads=1, head_size=1, dtype=torch.float32
    )
    kind = ("async_scheduler", "AsyncScheduler"), ("scheduler", "Scheduler")
    module, name = kind[0] if limits["depth"] > 1 else kind[1]
    return getattr(import_module(f"vllm.v1.core.sched.{module}"), name)(
        vllm_config=config,
        kv_cache_config=kv.KVCacheConfig(
            num_blocks=blocks,
            kv_cache_tensors=[],
            kv_cache_groups=[kv.KVCacheGroupSpec(["layer"], spec)],
        ),
        structured_output_manager=structured.StructuredOutputManager(config),
        block_size=limits["block_size"],
        log_stats=False,
    )


def config_for(limits: dict[str, Any]) -> Any:
    config = import_module("vllm.config")
    return config.VllmConfig(
        model_config=config.ModelConfig(
            model=model_folder(), dtype="bfloat16", skip_tokenizer_init=True, max_model_len=CONTEXT
        ),
        scheduler_config=config.SchedulerConfig(
            max_num_seqs=limits["max_num_seqs"],
            max_num_batched_tokens=limits["max_num_batched_tokens"],
            max_model_len=CONTEXT,
            is_encoder_decoder=False,
            enable_chunked_prefill=limits["chunked"],
            long_prefill_token_threshold=limits["long_prefill"],
            policy=limits["policy"],
            async_scheduling=limits["depth"] > 1,
        ),
        cache_config=config.CacheConfig(
            block_size=limits["block_size"], enable_prefix_caching=limits["caching"]
        ),
        device_config=config.DeviceConfig("cpu"),
    )


def model_folder() -> str:
    """A folder with nothing but the configuration of the tests' tiny model."""
    folder = Path(tempfile.gettempdir()) / "latscope-golden-model"
    folder.mkdir(exist_ok=True)
    sys.path.insert(0, str(HERE.parent))
    content = import_module("models").hf_config()
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    return str(folder)


def write(folder: Path, name: str, case: Case) -> None:
    """One line a call and a turn, so that a difference can be read."""
    case = whole(case)
    version = import_module("vllm").__version__
    head = {"name": name, "what": case["what"], "vllm": version, "limits": case["limits"]}
    lines = [f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    for key, rows in (("calls", case["calls"]), ("turns", record(case))):
        body = ",\n".join(f"    {json.dumps(row)}" for row in rows)
        lines.append(f'  "{key}": [\n{body}\n  ]')
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (folder / f"{name}.json").write_text(text, encoding="utf-8")


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    asked = len(sys.argv) == 4
    seeds = range(int(sys.argv[2]), int(sys.argv[3])) if asked else DRAWN
    cases = ({} if asked else CASES) | {f"drawn-{seed}": drawn(seed) for seed in seeds}
    for name, case in cases.items():
        write(folder, name, case)
        print(name)


if __name__ == "__main__":
    main()
