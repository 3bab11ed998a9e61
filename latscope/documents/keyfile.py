"""The user's key for prefix hashes: one file, readable by its owner alone, made on first use.

Hashes of two machines compare only under the same key: copy the file, or point both at one with the
environment variable LATSCOPE_PREFIX_KEY (a path). The key is in no recording.
"""

import contextlib
import os
import secrets
import stat
from pathlib import Path

from latscope.errors import InputError

VARIABLE = "LATSCOPE_PREFIX_KEY"
KEY_BYTES = 32


def key() -> bytes:
    """The key of the user's own file (see `default_path`)."""
    return load_key(default_path())


def default_path() -> Path:
    """The file LATSCOPE_PREFIX_KEY names, else `latscope/prefix.key` in the XDG config folder."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    config = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(config).expanduser() / "latscope" / "prefix.key"


def load_key(path: Path | str) -> bytes:
    """The 32-byte key in `path` (64 hex digits), which is made with mode 0600 when it is absent.

    InputError when it cannot be read or made, when others may read it, or when it holds no key.
    """
    path = Path(path)
    try:
        if not path.exists():
            _create(path)
        mode = stat.S_IMODE(path.stat().st_mode)
        text = path.read_text("ascii", "replace")
    except OSError as error:
        raise InputError(f"{path}: the prefix key cannot be used: {error.strerror}") from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise InputError(f"{path}: others may read the prefix key; run: chmod 600 {path}")
    try:
        found = bytes.fromhex(text.strip())
    except ValueError:
        found = b""
    if len(found) != KEY_BYTES:
        raise InputError(
            f"{path}: holds no prefix key (64 hex digits); remove the file to get a new one"
        )
    return found


def _create(path: Path) -> None:
    """Makes the file whole or not at all: of two processes that start at once one wins, and both
    then read its key."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    opened = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(opened, "w") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
