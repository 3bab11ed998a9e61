import pytest

from latscope.attribution.jsonview import KEYS
from latscope.rules.fields import Kind, check_field, check_plain, kind_of


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("wall", "number"),
        ("ttft", "number"),
        ("queue", "number"),
        ("itl.p95_ns", "number"),
        ("tokens_per_chunk", "number"),
        ("model", "text"),
        ("mode", "text"),
        ("error.phase", "text"),
        ("tags.app.version", "text"),
        ("streamed", "truth"),
        ("connection.reused", "truth"),
        ("connection", "group"),
        ("load_excess", "group"),
        ("tags", "names"),
        ("segments", "list"),
        ("flags", "list"),
    ],
)
def test_a_field_has_one_kind(path: str, kind: Kind) -> None:
    """Null or not, through groups and aliases."""
    assert check_field(path) is None
    assert kind_of(path) == kind
    assert (check_plain(path) is None) is (kind in ("number", "text", "truth"))


@pytest.mark.parametrize("path", KEYS)
def test_every_key_of_the_contract_is_a_field(path: str) -> None:
    assert check_field(path) is None
    assert kind_of(path)


@pytest.mark.parametrize(
    "path", ["nope", "wall.ns", "segments.0", "itl.p99_ns", "itl.p95_ns.x", "ttft.x", "queue.ns"]
)
def test_what_is_no_field_is_told(path: str) -> None:
    """At any depth."""
    assert f"no field {path!r}" in str(check_field(path))
