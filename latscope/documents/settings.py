"""latscope.toml: which runbooks are in use, and which of their numbers are the user's own.

    [runbooks]
    dirs = ["ops/runbooks"]                 # more pages; a path is from this file's folder
    off = ["cold-start"]

    [runbooks.slow-first-token]
    severity = "warning"
    symptom.1.above.baseline = "1.5x"       # the first condition; by its metric works too
    evidence.queue.if.1.above.by = "80ms"   # a cause by its id

`[[prices]]` beside it are those of `documents.prices`. Only numbers a page has can be changed,
never what is compared. Errors name the file and the key.
"""

import copy
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, get_args

from latscope.documents import runbooks
from latscope.documents.prices import Prices, of_table
from latscope.documents.runbooks import Source
from latscope.errors import InputError
from latscope.rules.runbook import Runbook, Severity

NAME = "latscope.toml"
COMPARED = ("above", "below", "near", "apart", "is")
NUMBERS = ("value", "baseline", "floor", "times", "by")
OWN = ("sure", "least")
PLACES = ("severity", "symptom", "opens_if", "evidence", "done_when")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """path: the file, for messages; empty when there is none. dirs: folders of more pages. off: ids
    of pages not in use. pages: by id, what is changed of a page. prices: of `[[prices]]`."""

    path: str = ""
    dirs: tuple[Path, ...] = ()
    off: tuple[str, ...] = ()
    pages: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    prices: Prices = field(default_factory=Prices)


def found(start: Path) -> Path | None:
    """The nearest latscope.toml in a folder or one above it."""
    start = start.resolve()
    return next(
        (place / NAME for place in (start, *start.parents) if (place / NAME).is_file()), None
    )


def read(path: str | PathLike[str]) -> Settings:
    """The settings in a file. InputError, with the key, for what cannot be meant."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: not TOML: {error}") from error
    for key in table:
        _known(key, ("runbooks", "prices"), str(path))
    given = table.get("runbooks", {})
    if not isinstance(given, dict):
        raise InputError(f"{path}: runbooks: must be a table: [runbooks]")
    pages = {key: value for key, value in given.items() if key not in ("dirs", "off")}
    for key, value in pages.items():
        if not isinstance(value, dict):
            raise InputError(
                f"{path}: runbooks.{key}: no such key; known: dirs, off, or a table [runbooks.ID]"
            )
    home = Path(path).resolve().parent
    dirs = tuple(home / name for name in _texts(given, "dirs", str(path)))
    return Settings(
        path=str(path),
        dirs=dirs,
        off=_texts(given, "off", str(path)),
        pages=pages,
        prices=of_table(table["prices"], str(path)) if "prices" in table else Prices(),
    )


def pages(settings: Settings, folders: Sequence[str | PathLike[str]] = ()) -> tuple[Runbook, ...]:
    """The runbooks in use: latscope's own, then those of the settings' folders and of `folders`,
    without those switched off, with the user's numbers. InputError for a broken page, two pages
    with one id, or a setting that names nothing."""
    own = runbooks.shipped_sources()
    others = [page for place in (*settings.dirs, *folders) for page in runbooks.folder(place)]
    known = [source.id for source in (*own, *others)]
    for name in settings.off:
        _known(name, known, f"{settings.path}: runbooks.off")
    # A shipped page that is switched off leaves its id to a page of the user's.
    shipped = {source.id for source in own}
    used = [source for source in own if source.id not in settings.off]
    used += [page for page in others if page.id in shipped or page.id not in settings.off]
    runbooks.every_one_once(used)
    for name in settings.pages:
        _known(name, known, f"{settings.path}: runbooks.{name}")
    return tuple(_made(source, settings) for source in used)


def _made(source: Source, settings: Settings) -> Runbook:
    page = runbooks.made(source)
    changes = settings.pages.get(source.id)
    if not changes:
        return page
    at = f"{settings.path}: runbooks.{source.id}"
    plain = copy.deepcopy(dict(source.plain))
    _retune(plain, changes, at)
    tuned = runbooks.understood(source, plain)
    if isinstance(tuned, Runbook):
        return tuned
    raise InputError(f"{at}: {tuned[1]}")


def _retune(plain: dict[str, Any], changes: Mapping[str, Any], at: str) -> None:
    """Puts the user's numbers where the page's stand."""
    for key, change in changes.items():
        here = f"{at}.{key}"
        _known(key, PLACES, here)
        if key == "severity":
            if change not in get_args(Severity):
                raise InputError(f"{here}: must be one of {', '.join(get_args(Severity))}")
            plain[key] = change
        elif key in ("symptom", "opens_if"):
            _conditions(plain.get(key, []), change, here)
        else:
            for item, inner, there in _chosen(plain.get(key, []), change, here, "id"):
                for word, conditions in _table(inner, there).items():
                    _known(word, ("if",), f"{there}.{word}")
                    _conditions(item["if"], conditions, f"{there}.if")


def _conditions(conditions: list[dict[str, Any]], changes: Any, at: str) -> None:
    for condition, change, here in _chosen(conditions, changes, at, "metric"):
        for key, value in _table(change, here).items():
            there = f"{here}.{key}"
            if key in OWN:
                condition[key] = value
                continue
            _known(key, [word for word in (*COMPARED, *OWN) if word in (*condition, *OWN)], there)
            condition[key] = _comparison(condition[key], value, there)


def _comparison(stated: Any, value: Any, at: str) -> Any:
    """A comparison with its numbers changed; what it compares with stays."""
    if not isinstance(stated, dict):
        if isinstance(value, dict):
            raise InputError(f"{at}: the page gives one number here; write {at.split('.')[-1]} = N")
        return value
    numbers = [key for key in NUMBERS if key in stated or key == "by"]
    if not isinstance(value, dict):
        raise InputError(f"{at}: the page gives several; change {' or '.join(numbers)} under it")
    for key in value:
        _known(key, numbers, f"{at}.{key}")
    return {**stated, **value}


def _chosen(
    items: Sequence[dict[str, Any]], changes: Any, at: str, name: str
) -> Iterator[tuple[dict[str, Any], Any, str]]:
    """Items of a page that changes name, by number (from 1) or by what `name` holds in them."""
    names = [item.get(name) for item in items]
    for key, change in _table(changes, at).items():
        here = f"{at}.{key}"
        if key.isdecimal() and 1 <= int(key) <= len(items):
            yield items[int(key) - 1], change, here
        elif names.count(key) == 1:
            yield items[names.index(key)], change, here
        elif key in names:
            raise InputError(f"{here}: {names.count(key)} of them; say which by its number")
        else:
            said = [str(word) for word in names if word is not None]
            numbers = f"1 to {len(items)}" if len(items) > 1 else "1"
            there = [f"a number {numbers}", *dict.fromkeys(said)] if items else ["none"]
            raise InputError(f"{here}: names nothing of the page; there is: {', '.join(there)}")


def _table(value: Any, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InputError(f"{at}: must say which number, such as {at.split('.')[-1]}.1.above = 2")
    return value


def _texts(table: Mapping[str, Any], key: str, path: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InputError(f'{path}: runbooks.{key}: must be a list of texts: {key} = ["..."]')
    return tuple(value)


def _known(name: str, known: Sequence[str], at: str) -> None:
    if name in known:
        return
    near = get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are: {', '.join(known) or 'none'}"
    raise InputError(f"{at}: no {name!r}; {hint}")
