"""Profile files: what is written is read again, what is wrong is one clear line."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from latscope.attribution.probed import About, profile_from_arms
from latscope.attribution.profile import Profile
from latscope.documents import profiles
from latscope.errors import InputError
from tests.attribution.arms import World, run


@pytest.fixture(scope="module")
def made() -> Profile:
    about = About(
        endpoint="http://127.0.0.1:8000/v1/chat/completions",
        model="tiny",
        api="chat",
        made_at="2026-11-29T12:00:00Z",
        expires_at="2026-12-06T12:00:00Z",
        skipped=("cache: 3 of 20 repeated prompts were served from a cache",),
        spent={"requests": 60, "input_tokens": 30_000, "output_tokens": 400},
    )
    return profile_from_arms(run(World()), about)


def plain(made: Profile, **changed: Any) -> str:
    return json.dumps({**profiles.to_mapping(made), **changed})


def test_what_is_written_is_read_again(made: Profile, tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    profiles.write(path, made)
    assert profiles.read(path) == made
    assert [entry.name for entry in tmp_path.iterdir()] == ["tiny.json"]
    assert next(iter(json.loads(path.read_text()))) == "schema"


def test_writing_again_replaces_it(made: Profile, tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    path.write_text("older")
    profiles.write(path, made)
    assert profiles.read(path).model == "tiny"


def test_a_profile_comes_from_a_pipe_too(
    made: Profile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "p.json"
    profiles.write(path, made)
    with path.open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert profiles.read("-") == made


def test_unknown_keys_are_ignored(made: Profile) -> None:
    assert profiles.read_text(plain(made, later={"a": 1})) == made


BAD: dict[str, tuple[str | dict[str, Any], str]] = {
    "not json": ("{", "not JSON"),
    "no number": ('{"schema": "latscope.profile/1", "n": NaN}', "not JSON"),
    "a list": ("[]", "no profile"),
    "a recording": ('{"schema": "latscope.recording/1"}', "schema is not 'latscope.profile/1'"),
    "no schema": ("{}", "no profile"),
    "a text for a number": ({"n": "many"}, "n: "),
    "unknown policy": ({"headers": "late"}, "headers: "),
    "no time": ({"expires_at": "soon"}, "expires_at is no RFC 3339 time"),
    "negative step": (
        {"step": {"base_ns": -1.0, "per_context_ns": 0.0, "n": 3, "noise_ns": 1}},
        "base_ns is negative",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_profile_is_told_in_one_line(name: str, made: Profile) -> None:
    text, said = BAD[name]
    with pytest.raises(InputError) as caught:
        profiles.read_text(text if isinstance(text, str) else plain(made, **text), where="p.json")
    assert str(caught.value).startswith("p.json: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_a_field_holds_is_not_repeated(made: Profile) -> None:
    with pytest.raises(InputError) as caught:
        profiles.read_text(plain(made, n="sk-secret-key"))
    assert "sk-secret" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        profiles.read(tmp_path / "none.json")


def test_a_file_that_cannot_be_written(made: Profile, tmp_path: Path) -> None:
    """Told before anything is spent, and again when it comes to it; no draft stays."""
    for path in (tmp_path / "no" / "p.json", tmp_path):
        with pytest.raises(InputError, match="cannot be written"):
            profiles.check_writable(path)
    with pytest.raises(InputError, match="cannot be written"):
        profiles.write(tmp_path / "no" / "p.json", made)
    (tmp_path / "taken").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        profiles.write(tmp_path / "taken", made)
    assert [entry.name for entry in tmp_path.iterdir()] == ["taken"]
    profiles.check_writable(tmp_path / "p.json")


def test_an_expired_profile_says_so(made: Profile) -> None:
    before = datetime(2026, 12, 6, 11, 59, tzinfo=UTC)
    after = datetime(2026, 12, 6, 12, 0, tzinfo=UTC)
    assert profiles.expired(made, before) is None
    said = profiles.expired(made, after)
    assert said is not None
    assert "expired at 2026-12-06T12:00:00Z" in said


def test_a_time_without_a_zone_is_utc(made: Profile) -> None:
    naive = profiles.read_text(plain(made, expires_at="2026-12-06T12:00:00"))
    assert profiles.expired(naive, datetime(2026, 12, 6, 12, 1, tzinfo=UTC)) is not None
    assert profiles.expired(naive, datetime(2026, 12, 6, 11, 0, tzinfo=UTC)) is None
