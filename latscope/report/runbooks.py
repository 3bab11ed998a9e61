"""The runbooks there are, as text and as `latscope.runbooks/1`."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from textwrap import wrap
from typing import Any

from rich.text import Text

from latscope.report.findings import LOOKS
from latscope.rules.runbook import SEVERITIES, Severity

SCHEMA = "latscope.runbooks/1"
HEAD = f"{'severity':<10}fires  silent  "


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A runbook. fires, silent: how many of its cases make it open, and how many leave it alone."""

    id: str
    title: str
    severity: Severity
    fires: int
    silent: int


def document(rows: Sequence[Listed]) -> dict[str, Any]:
    return {"schema": SCHEMA, "runbooks": [asdict(row) for row in rows]}


def listed_lines(rows: Sequence[Listed], *, width: int, colours: bool) -> Iterator[Text]:
    """One a line, the most severe first."""
    if not rows:
        yield Text("no runbooks", "dim")
        return
    wide = max(len(row.id) for row in rows)
    left = len(HEAD) + wide + 2
    yield Text(f"{HEAD}{'id':<{wide}}  title", "dim")
    for row in sorted(rows, key=lambda row: (-SEVERITIES.index(row.severity), row.id)):
        for index, text in enumerate(wrap(row.title, max(20, width - left))):
            if index:
                yield Text(f"{'':{left}}{text}")
                continue
            yield Text.assemble(
                (f"{row.severity:<10}", LOOKS[row.severity] if colours else ""),
                (f"{row.fires:>5}  {row.silent:>6}  ", "dim"),
                (f"{row.id:<{wide}}", "bold"),
                f"  {text}",
            )
    yield Text(
        "fires, silent: of its cases, how many make it open and how many leave it alone", "dim"
    )
