"""What came of the stories: a row a story, and the lines of docs/accuracy.md."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]
"""One story of one seed: `right` (the right runbook's verdict), `wrong` (open ones that are not
true), `resolved`, `third`, `third_wrong`, `fixed_wrong`, `group` (the segment named)."""

RIGHT, WRONG = 0.95, 0.05
COLUMNS = (
    "story",
    "seeds",
    "right",
    "wrong",
    "resolved",
    "wrong after",
    "a third: right, insufficient, not seen, wrong",
    "named",
)


def summary(rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """By story, what share of its seeds did what."""
    found: dict[str, dict[str, Any]] = {}
    for story in dict.fromkeys(row["story"] for row in rows):
        found[story] = _one([row for row in rows if row["story"] == story])
    return found


def _one(rows: Sequence[Row]) -> dict[str, Any]:
    n = len(rows)
    was_open = [row for row in rows if row["right"] == "open"]
    return {
        "seeds": n,
        "open": _share(row["right"] == "open" for row in rows),
        "verdicts": _counts(row["right"] for row in rows),
        "wrong": _share(bool(row["wrong"]) for row in rows),
        "wrong_names": _counts(name for row in rows for name in row["wrong"]),
        "resolved": _share(row["fixed"] == "resolved" for row in was_open),
        "fixed_verdicts": _counts(row["fixed"] for row in was_open),
        "fixed_wrong": _share(bool(row["fixed_wrong"]) for row in rows),
        "fixed_wrong_names": _counts(name for row in rows for name in row["fixed_wrong"]),
        "third": _counts(row["third"] for row in rows),
        "third_wrong": _share(bool(row["third_wrong"]) for row in rows),
        "third_wrong_names": _counts(name for row in rows for name in row["third_wrong"]),
        "segments": _counts(row["segment"] for row in rows if row["segment"]),
    }


def _share(values: Iterable[bool]) -> float | None:
    told = [*values]
    return round(sum(told) / len(told), 4) if told else None


def _counts(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def met(found: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether every story keeps the targets."""
    return all(
        one["open"] >= RIGHT and one["wrong"] <= WRONG and not one["third_wrong"]
        for one in found.values()
    )


def table(found: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A row a story, in Markdown."""
    yield f"| {' | '.join(COLUMNS)} |"
    yield "|---" * len(COLUMNS) + "|"
    for story, one in found.items():
        third = one["third"]
        cells = [
            story,
            str(one["seeds"]),
            _percent(one["open"]),
            _percent(one["wrong"]),
            _percent(one["resolved"]),
            _percent(one["fixed_wrong"]),
            ", ".join(
                [
                    str(third.get("open", 0)),
                    str(third.get("insufficient evidence", 0)),
                    str(third.get("not seen", 0)),
                    str(round(one["third_wrong"] * one["seeds"])),
                ]
            ),
            ", ".join(f"{name} {n}" for name, n in one["segments"].items()) or "-",
        ]
        yield "| " + " | ".join(cell.replace(" | ", "/") for cell in cells) + " |"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"
