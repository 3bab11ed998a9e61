"""One server for the whole folder: the shipped scenarios, told twenty times as fast."""

from collections.abc import Iterator

import pytest

from latscope.documents.scenarios import Scenario, shipped
from latscope.sim.process import Running, start
from tests.sim.client import quick

BUSY = {"frontend_ms": 0, "queue_ms": 0, "prefill_base_ms": 0, "prefill_us_per_token": 0}
"""Nothing but decode, so that a call runs for as long as its client listens."""

EXTRA = (
    Scenario.model_validate(
        {"name": "one-slot", **BUSY, "slots": 1, "output_tokens": 5, "decode_step_ms": 4}
    ),
    *(
        Scenario.model_validate(
            {
                "name": f"endless-{policy}",
                **BUSY,
                "slots": 1,
                "header_policy": policy,
                "output_tokens": 2_000,
                "decode_step_ms": 50,
            }
        )
        for policy in ("early", "slot", "token")
    ),
    Scenario.model_validate({"name": "no-first-token", **BUSY, "prefill_base_ms": 600_000}),
    Scenario.model_validate(
        {
            "name": "no-first-token-slot",
            **BUSY,
            "header_policy": "slot",
            "prefill_base_ms": 600_000,
        }
    ),
    Scenario.model_validate(
        {"name": "cached", **BUSY, "prefill_us_per_token": 500, "output_tokens": 1}
    ),
    Scenario.model_validate({"name": "uncached", **BUSY, "prefix_cache": False}),
    Scenario.model_validate({"name": "cut-at-once", "cut_after_token": 0, "queue_ms": 0}),
    Scenario.model_validate(
        {
            "name": "held",
            "decode_step_ms": 3,
            "stalls": [{"after_token": 5, "ms": 60, "kind": "hold"}],
        }
    ),
)


@pytest.fixture(scope="session")
def running() -> Iterator[Running]:
    with start([*(quick(scenario) for scenario in shipped().values()), *EXTRA]) as server:
        yield server
