"""Calls as a client might see them, by a formula whose constants the claims should find again."""

from dataclasses import replace
from random import Random
from typing import Any

from latscope.claims.calls import Observed
from latscope.units import MS, S

BASE = Observed(
    model=("http://127.0.0.1:8000/v1/chat/completions", "tiny"),
    started_ns=0,
    first_token_ns=100 * MS,
    server_ns=98 * MS,
    wall_ns=400 * MS,
    sure_ns=98 * MS,
    maybe_ns=98 * MS,
    input=100,
    uncached=100,
    output=31,
    tpot_ns=10 * MS,
    step_ns=10.0 * MS,
    queue_ns=None,
    prefill_ns=None,
    in_flight=0,
    load=1,
    crowd=False,
)


def call(**fields: Any) -> Observed:
    return replace(BASE, **fields)


def server(
    prompt: int,
    output: int,
    *,
    per_prompt: float = 0.2,
    per_context: float = 0.002,
    per_output: float = 0.0,
    noise: float = 0.0,
    **more: Any,
) -> Observed:
    """A call to a server with these constants, ms a token; noise: of TTFT and step, as a share."""
    dice = Random(f"{prompt}:{output}:{more}")

    def about(ms: float) -> float:
        return ms * MS * (1 + dice.uniform(-noise, noise))

    ttft = about(20 + per_prompt * prompt + per_output * output)
    step = about(5 + per_context * (prompt + output / 2))
    made = {
        "input": prompt,
        "uncached": prompt,
        "output": output,
        "first_token_ns": round(ttft + 2 * MS),
        "server_ns": round(ttft),
        "sure_ns": round(ttft),
        "maybe_ns": round(ttft),
        "tpot_ns": round(step),
        "step_ns": step,
        "wall_ns": round(ttft + 2 * MS + (output - 1) * step),
        "started_ns": dice.randrange(S),
    }
    return call(**{**made, **more})


def served(**constants: Any) -> list[Observed]:
    """Four prompts, two lengths of answer, six times each, one call at a time."""
    return [
        server(prompt + repeat, output, **constants)
        for prompt in (100, 400, 1000, 2000)
        for output in (8, 40)
        for repeat in range(6)
    ]


def crowd(ttft: dict[int, float], step: dict[int, float], **more: Any) -> list[Observed]:
    """Calls sent 1, 2, 4 ... at a time: ms to the first token and a step, by size; ten a size."""
    found = []
    for size, ms in ttft.items():
        for repeat in range(10):
            first = round(ms * MS * (1 + 0.002 * repeat))
            wall = round(first + 30 * step[size] * MS)
            fields = {name: value[size] for name, value in more.items()}
            found.append(
                call(
                    first_token_ns=first,
                    server_ns=first,
                    sure_ns=first,
                    wall_ns=wall,
                    tpot_ns=round(step[size] * MS),
                    step_ns=step[size] * MS,
                    load=size,
                    crowd=True,
                    **fields,
                )
            )
    return found
