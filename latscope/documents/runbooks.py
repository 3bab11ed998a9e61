"""Runbooks: `runbooks/NAME.md`, YAML front matter (`latscope.runbook/1`) and a page for people.

The front matter is data: it is composed, never constructed, so that every value keeps its line and
no tag of YAML makes an object. Every fault is one line, `file:line: what; what to do`. Those that
latscope ships lie in `latscope/runbooks` of the wheel, `runbooks` of a checkout.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.resources import files
from importlib.resources.abc import Traversable
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast, get_args

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from latscope.documents import runbook_form
from latscope.documents.runbook_build import Loc, Wrong, build, counts, wanting
from latscope.documents.runbook_form import PageForm
from latscope.errors import InputError
from latscope.rules.runbook import SCHEMA, Runbook

__all__ = [
    "Source",
    "counts",
    "every_one_once",
    "folder",
    "made",
    "opened",
    "parsed",
    "read",
    "read_text",
    "schema",
    "shipped",
    "shipped_sources",
    "understood",
    "wanting",
]

FENCE = re.compile(r"---[ \t]*")
_WANTED = f"a runbook is a Markdown page that begins with --- and states schema: {SCHEMA}"
MOST_BYTES = 1_000_000
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INT = re.compile(r"[-+]?(0|[1-9]\d{0,17})")
_FLOAT = re.compile(r"[-+]?\d+\.\d+(e[-+]?\d{1,3})?", re.IGNORECASE)
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}
_NAMES = {"README.MD"}
"""Markdown of a folder that is no page."""

Line: TypeAlias = int


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A page as it was written: its front matter as plain data, each value's line kept aside."""

    path: str
    plain: Mapping[str, Any]
    node: yaml.Node
    body: str

    @property
    def id(self) -> str:
        return str(self.plain.get("id"))

    def line(self, loc: Sequence[str | int]) -> Line:
        """The line of the value at `loc`, or of the nearest thing around it that is there."""
        node = self.node
        line: Line = node.start_mark.line
        for step in loc:
            if isinstance(node, yaml.MappingNode):
                pair = next((pair for pair in node.value if pair[0].value == step), None)
                if pair is None:
                    continue  # a form's own word, which the page does not hold
                line, node = pair[0].start_mark.line, pair[1]
            elif isinstance(node, yaml.SequenceNode) and isinstance(step, int):
                if step >= len(node.value):
                    break
                node = node.value[step]
                line = node.start_mark.line
        return line + 2  # the fence is line 1


def read(path: str | PathLike[str]) -> Runbook:
    """The runbook in a page. InputError, one line, when it cannot be read or is none."""
    return made(opened(path))


def read_text(text: str, *, where: str = "page") -> Runbook:
    """The runbook in a page's text; `where` names it in errors."""
    return made(parsed(text, where))


def shipped() -> tuple[Runbook, ...]:
    """The runbooks latscope comes with, by id."""
    return tuple(made(source) for source in shipped_sources())


def folder(path: str | PathLike[str]) -> tuple[Source, ...]:
    """The pages of a user's folder, by name. InputError when it is none, or holds no page."""
    place = Path(path)
    try:
        names = sorted(entry for entry in place.iterdir() if _is_page(entry.name))
    except OSError as error:
        raise InputError(f"{place}: no folder of runbooks: {error.strerror}") from error
    if not names:
        raise InputError(f"{place}: holds no runbook; {_WANTED}")
    return tuple(opened(name) for name in names)


def shipped_sources() -> tuple[Source, ...]:
    """The pages latscope comes with, as they were written."""
    home = _home()
    if not home.is_dir():
        return ()
    pages = sorted((entry for entry in home.iterdir() if _is_page(entry.name)), key=_name)
    return tuple(parsed(entry.read_text(encoding="utf-8"), str(entry)) for entry in pages)


def every_one_once(sources: Iterable[Source]) -> None:
    """InputError where two pages have one id."""
    seen: dict[str, str] = {}
    for source in sources:
        if source.id in seen:
            raise InputError(
                f"{source.path}:{source.line(('id',))}: a second page with the id {source.id!r},"
                f" beside {seen[source.id]}; rename one, or switch that of latscope off in"
                " latscope.toml"
            )
        seen[source.id] = source.path


def opened(path: str | PathLike[str]) -> Source:
    """The page in a file, its front matter read but not yet understood."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8; save the page as UTF-8") from error
    if len(data) > MOST_BYTES:
        raise InputError(f"{path}: {len(data):,} bytes is no page; {_WANTED}")
    return parsed(text, str(path))


def parsed(text: str, where: str) -> Source:
    """The same of a page's text."""
    lines = text.splitlines()
    if not lines or not FENCE.fullmatch(lines[0]):
        raise InputError(f"{where}:1: no front matter; {_WANTED}")
    end = next((at for at, line in enumerate(lines[1:], 1) if FENCE.fullmatch(line)), None)
    if end is None:
        raise InputError(f"{where}:{len(lines)}: the front matter has no end; close it with ---")
    node = _composed("\n".join(lines[1:end]) + "\n", where)
    plain = _plain(node, where)
    body = "\n".join(lines[end + 1 :]).strip() + "\n"
    return Source(path=where, plain=plain, node=node, body=body)


def made(source: Source) -> Runbook:
    """The runbook a page states. InputError, with the line, where it makes no sense."""
    found = understood(source, source.plain)
    if isinstance(found, Runbook):
        return found
    loc, what = found
    raise InputError(f"{source.path}:{source.line(loc)}: {what}")


def understood(source: Source, plain: Mapping[str, Any]) -> Runbook | tuple[Loc, str]:
    """The runbook of a page whose front matter is `plain`: its own, or as a user retuned it; or the
    first thing that is wrong with it, with its place."""
    try:
        return build(PageForm.model_validate(plain), body=source.body, path=source.path)
    except ValidationError as error:
        found = sorted(error.errors(include_url=False), key=_typos_first)
        loc, what = _complaint(found[0])
        if len(found) > 1:
            what += f" (and {len(found) - 1} more)"
        return loc, what
    except Wrong as error:
        return error.loc, f"{_spoken(error.loc)}: {error.what}"


def schema() -> dict[str, Any]:
    """JSON Schema of a page's front matter, `latscope.runbook/1`."""
    return runbook_form.schema()


# -- YAML, kept with its lines ---------------------------------------------------------------------


def _composed(text: str, where: str) -> yaml.MappingNode:
    try:
        node = yaml.compose(text, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 2 if mark is None else mark.line + 2
        what = " ".join((error.problem or error.context or "broken").split())
        raise InputError(f"{where}:{line}: not YAML: {what}; mend that line") from error
    except yaml.YAMLError as error:
        what = "a character that YAML does not allow"
        raise InputError(f"{where}:2: not YAML: {what}; remove it") from error
    if not isinstance(node, yaml.MappingNode):
        raise InputError(f"{where}:2: the front matter is no mapping; {_WANTED}")
    return node


def _plain(node: yaml.MappingNode, where: str, depth: int = 0) -> dict[str, Any]:
    """The node as plain data; a key twice, or one that is no word, is told."""
    found: dict[str, Any] = {}
    for key, value in node.value:
        line = key.start_mark.line + 2
        if not isinstance(key, yaml.ScalarNode):
            raise InputError(f"{where}:{line}: a key that is no word; write NAME: VALUE")
        if key.value in found:
            raise InputError(f"{where}:{line}: {key.value} a second time; keep one of them")
        found[key.value] = _value(value, where, depth + 1)
    return found


DEEPEST = 12
"""Levels of a front matter; the format has seven. An alias that holds itself has no end."""


def _value(node: yaml.Node, where: str, depth: int) -> Any:
    if depth > DEEPEST:
        line = node.start_mark.line + 2
        raise InputError(f"{where}:{line}: more than {DEEPEST} levels deep; {_WANTED}")
    if isinstance(node, yaml.MappingNode):
        return _plain(node, where, depth)
    if isinstance(node, yaml.SequenceNode):
        return [_value(item, where, depth + 1) for item in node.value]
    scalar = cast(yaml.ScalarNode, node)
    return scalar.value if scalar.style in ("'", '"', "|", ">") else _scalar(scalar.value)


def _scalar(text: str) -> Any:
    """YAML 1.2's words and numbers only: `no`, `off` and `1:30` are texts."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


# -- what is wrong, in words -----------------------------------------------------------------------


def _complaint(error: ErrorDetails) -> tuple[Loc, str]:
    """The place of a validation error, and `place: what is wrong; what to do`."""
    loc = tuple(step for step in error["loc"] if step not in ("plain", "table"))
    at = _spoken(loc)
    if error["type"] == "extra_forbidden":
        known = _keys(loc[:-1])
        near = get_close_matches(str(loc[-1]), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"
        return loc, f"{at}: no such key; {hint}"
    if error["type"] == "missing":
        return loc, f"{at}: is missing; add it"
    if error["type"] == "string_pattern_mismatch":
        return loc, f"{at}: {error['input']!r:.60} is no id; write words like slow-first-token"
    said = error["msg"].removeprefix("Value error, ")
    said = said.replace("Input should be", "must be").replace("Field required", "is missing")
    given = error["input"]
    shown = f" (found {given!r:.60})" if isinstance(given, str | int | float | None) else ""
    return loc, f"{at}: {said[0].lower()}{said[1:]}{shown}"


def _typos_first(error: ErrorDetails) -> bool:
    """A key mistyped is missing too; the typing is what to mend."""
    return error["type"] != "extra_forbidden"


def _spoken(loc: Loc) -> str:
    """`evidence 2, if 1, metric`: counted as people count."""
    words: list[str] = []
    for step in loc:
        if isinstance(step, int) and words:
            words[-1] += f" {step + 1}"
        else:
            words.append(str(step))
    return ", ".join(words) or "page"


def _keys(loc: Loc) -> list[str]:
    """The keys a form knows at a place."""
    form: type[BaseModel] = PageForm
    for step in loc:
        if isinstance(step, int):
            continue
        field = next(
            (field for name, field in form.model_fields.items() if step in (field.alias, name)),
            None,
        )
        inner = None if field is None else _form_in(field.annotation)
        if inner is None:
            return []
        form = inner
    return [field.alias or name for name, field in form.model_fields.items()]


def _form_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _form_in(part))), None)


# -- where pages lie -------------------------------------------------------------------------------


def _home() -> Traversable:
    inside = files("latscope") / "runbooks"
    if inside.is_dir():
        return inside
    return Path(__file__).resolve().parents[2] / "runbooks"


def _is_page(name: str) -> bool:
    return name.lower().endswith(".md") and name.upper() not in _NAMES


def _name(entry: Traversable) -> str:
    return entry.name
