import json
from dataclasses import fields
from typing import Any

import pytest

from latscope.attribution.jsonview import KEYS, to_mapping
from latscope.attribution.model import Attribution
from tests.report import samples

CALLS = [samples.reported_call(), samples.blind_call(), samples.failed_call()]


@pytest.mark.parametrize("call", CALLS)
def test_every_key_is_there(call: Attribution) -> None:
    """A reader may rely on each key of the contract; unknown is null, never absent."""
    assert tuple(to_mapping(call)) == KEYS


def test_the_contract_is_the_whole_record() -> None:
    """No field of an attribution is forgotten, except the pieces the segments follow from."""
    names = {field.name for field in fields(Attribution)}
    assert names - set(KEYS) == {"pieces", "ttft_pieces"}


def test_nested_values_have_the_contracts_shape() -> None:
    """Six segments in order, bounds as pairs, parts with all four keys; JSON can carry it."""
    mapping = json.loads(json.dumps(to_mapping(samples.with_truth(samples.reported_call()))))
    names = ["queue", "prefill", "decode", "network", "client", "unattributed"]
    assert [segment["name"] for segment in mapping["segments"]] == names
    queue = mapping["segments"][0]
    assert list(queue) == [
        "name",
        "ns",
        "ttft_ns",
        "low_ns",
        "high_ns",
        "bounds_ns",
        "provenance",
        "evidence",
        "parts",
        "owner",
        "lever",
        "ttft_low_ns",
        "ttft_high_ns",
    ]
    engine = {"name": "engine", "ns": 180_200_000, "bounds_ns": [180_200_000] * 2}
    assert queue["parts"][1] == {**engine, "provenance": "reported"}
    assert _keys(mapping["stalls"][0]) == ["at_ns", "cause", "confidence", "ns"]
    assert _keys(mapping["truth"]) == ["segments", "source", "ttft"]
    assert mapping["schema"] == "latscope.attribution/1"


def test_what_failed_says_so() -> None:
    """A failed call is a line like any other: error with type and phase, no token times."""
    mapping = to_mapping(samples.failed_call())
    assert mapping["error"] == {"type": "httpx2.ReadTimeout", "phase": "first_token"}
    assert mapping["first_token_ns"] is None
    assert mapping["unsplit"][0]["candidates"] == ["queue", "prefill", "network"]


def _keys(value: Any) -> list[str]:
    return sorted(value)
