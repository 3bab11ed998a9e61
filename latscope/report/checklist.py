"""The checklist as text, as `latscope.checklist/1` and as annotations."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from rich.text import Text

from latscope.report.findings import MET
from latscope.report.pipelines import command
from latscope.rules.checklist import Item

SCHEMA = "latscope.checklist/1"


def document(items: Sequence[Item]) -> dict[str, Any]:
    return {"schema": SCHEMA, "items": [asdict(item) for item in items]}


def checklist_lines(items: Sequence[Item], *, width: int, colours: bool) -> Iterator[Text]:
    """A mark and the item; under it why, where it is not met or cannot be told."""
    for item in items:
        mark, style = MET[item.met]
        if item.met is False and not item.warns:
            style = "yellow"
        for index, text in enumerate(wrap(item.text, width - 2)):
            head = (f"{mark} ", style if colours else "bold") if index == 0 else "  "
            yield Text.assemble(head, (text, "bold" if item.met is False else ""))
        for text in wrap(item.why, width - 4):
            yield Text(f"    {text}", "dim")
    met = sum(item.met is True for item in items)
    unsure = sum(item.met is None for item in items)
    said = f"{met} of {len(items)} met"
    yield Text()
    yield Text(f"{said} · {unsure} cannot be told" if unsure else said, "dim")


def annotations(items: Sequence[Item]) -> Iterator[str]:
    """GitHub workflow commands for what is not met."""
    for item in items:
        if item.met is False:
            yield command("warning" if item.warns else "notice", item.text, item.why or item.text)
