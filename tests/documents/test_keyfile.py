"""The key of prefix hashes: made once, kept private, found where the user says."""

import os
import stat
from pathlib import Path

import pytest

from latscope.documents.keyfile import default_path, key, load_key
from latscope.errors import InputError


def test_the_key_is_made_once_and_private(tmp_path: Path) -> None:
    """32 random bytes in a file only its owner may read; nothing else is left beside it."""
    path = tmp_path / "deep" / "prefix.key"
    made = load_key(path)
    assert len(made) == 32
    assert load_key(str(path)) == made
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["prefix.key"]
    assert load_key(tmp_path / "other.key") != made


def test_of_two_makers_one_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that finds the file made meanwhile reads that key instead of replacing it."""
    path = tmp_path / "prefix.key"
    first = load_key(path)
    monkeypatch.setattr(Path, "exists", lambda self: False)
    assert load_key(path) == first


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        ({"LATSCOPE_PREFIX_KEY": "/keys/k"}, "/keys/k"),
        ({"XDG_CONFIG_HOME": "/conf", "LATSCOPE_PREFIX_KEY": ""}, "/conf/latscope/prefix.key"),
        ({"HOME": "/home/u"}, "/home/u/.config/latscope/prefix.key"),
    ],
)
def test_where_the_key_lies(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], found: str
) -> None:
    """The variable names a file; without it the user's config folder holds one."""
    for name in ("LATSCOPE_PREFIX_KEY", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert default_path() == Path(found)


def test_the_users_own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`key` reads the file `default_path` names."""
    monkeypatch.setenv("LATSCOPE_PREFIX_KEY", str(tmp_path / "k"))
    assert key() == load_key(tmp_path / "k")


@pytest.mark.parametrize("text", ["", "zz", "00" * 31])
def test_a_file_without_a_key_is_refused(tmp_path: Path, text: str) -> None:
    """It is not overwritten: it may be something else."""
    path = tmp_path / "prefix.key"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(InputError, match="holds no prefix key"):
        load_key(path)
    assert path.read_text() == text


def test_a_key_others_may_read_is_refused(tmp_path: Path) -> None:
    """The message says what to do."""
    path = tmp_path / "prefix.key"
    load_key(path)
    path.chmod(0o640)
    with pytest.raises(InputError, match=f"chmod 600 {path}"):
        load_key(path)


def test_a_place_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    """A file where a folder is needed."""
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="the prefix key cannot be used: File exists"):
        load_key(tmp_path / "file" / "prefix.key")
