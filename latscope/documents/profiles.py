"""The only reading and writing of profile files: `latscope.profile/1`, one JSON object.

A file is trusted with nothing: types and signs are checked, unknown keys are ignored, messages name
file and field. A file is written whole or not at all.
"""

import contextlib
import json
import os
import secrets
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from latscope.attribution.profile import SCHEMA, Profile
from latscope.errors import InputError

_WANTED = f"a profile file holds one {SCHEMA} object, as `latscope calibrate -o FILE` writes it"
_adapter = TypeAdapter(Profile)


def read(path: str | os.PathLike[str]) -> Profile:
    """The profile in a file, or on standard input for `-`. InputError, one line, when it cannot be
    read or is none."""
    name = str(path)
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    return read_text(data, where="<stdin>" if name == "-" else name)


def read_text(data: bytes | str, *, where: str = "profile") -> Profile:
    """The profile in a JSON text; `where` names it in errors."""
    try:
        plain = from_json(data, allow_inf_nan=False)
    except ValueError as error:
        raise InputError(f"{where}: not JSON; {_WANTED}") from error
    if not isinstance(plain, dict) or "schema" not in plain:
        raise InputError(f"{where}: no profile; {_WANTED}")
    if plain["schema"] != SCHEMA:
        raise InputError(
            f"{where}: its schema is not {SCHEMA!r}: make it anew with `latscope calibrate`, or"
            " upgrade latscope to read it"
        )
    try:
        profile = _adapter.validate_json(json.dumps(plain))
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False)[0]
        field = ".".join(str(step) for step in found["loc"])
        raise InputError(f"{where}: {field}: {found['msg']}; {_WANTED}") from error
    _check(profile, where)
    return profile


def _check(profile: Profile, where: str) -> None:
    for name in ("made_at", "expires_at"):
        if _time(getattr(profile, name)) is None:
            raise InputError(f"{where}: {name} is no RFC 3339 time; {_WANTED}")
    for part in (profile.floor.terms if profile.floor else None, profile.step):
        for name, value in _numbers(part).items():
            if value < 0:
                raise InputError(f"{where}: {name} is negative; a floor's terms never are")


def _numbers(part: object) -> dict[str, float]:
    if part is None:
        return {}
    names = [name for name in getattr(part, "__slots__", ()) if name.endswith("_ns")]
    return {name: getattr(part, name) for name in names}


def expired(profile: Profile, now: datetime | None = None) -> str | None:
    """A sentence when the profile's time is over; null while it holds."""
    at = _time(profile.expires_at)
    if at is None or (now or datetime.now(UTC)) < at:
        return None
    return (
        f"the profile of {profile.model} at {profile.endpoint} expired at {profile.expires_at}: it"
        " may no longer hold; make it anew with `latscope calibrate`"
    )


def _time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def to_mapping(profile: Profile) -> dict[str, Any]:
    """The profile as JSON-ready values, `schema` first."""
    plain: Mapping[str, Any] = _adapter.dump_python(profile, mode="json")
    return {"schema": profile.schema, **{k: v for k, v in plain.items() if k != "schema"}}


def write(path: str | os.PathLike[str], profile: Profile) -> None:
    """The profile as a file, readable JSON; whole or not at all. InputError when it cannot be
    written."""
    target = Path(path)
    text = json.dumps(to_mapping(profile), indent=2, ensure_ascii=False) + "\n"
    draft = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        draft.write_text(text, encoding="utf-8")
        os.replace(draft, target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {error.strerror}") from error
    finally:
        with contextlib.suppress(OSError):
            draft.unlink()


def check_writable(path: str | os.PathLike[str]) -> None:
    """InputError now, rather than after an hour of probing, when the file could not be written."""
    target = Path(path)
    folder = target.parent
    if target.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        raise InputError(f"{target}: cannot be written: give a file in a folder that is there")
