"""The scoreboard on paper: a table a run, appended to docs/accuracy.md."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.attribution.score import Score

HEAD = (
    f"{'cell':32}{'E2E right':>11}{'of':>5}{'TTFT right':>12}{'abstained':>11}"
    f"{'error points':>14}{'covered':>9}{'width':>7}{'hard':>6}"
)


def table(scores: Sequence[Score], *, head: bool) -> str:
    """One line a cell."""
    return "\n".join([*([HEAD] if head else []), *(_row(one) for one in scores)])


def _row(one: Score) -> str:
    hard = f"{one.hard / one.n:6.0%}" if one.n else ""
    if one.refused is not None:
        return f"{one.name:32} refused: {one.refused[:80]} {hard}"
    abstained = one.ttft.abstained / one.ttft.n if one.ttft.n else None
    error = median(one.errors) if one.errors else None
    right = one.e2e.right / one.e2e.n if one.e2e.n else None
    return (
        f"{one.name:32}{_share(right):>11}{one.e2e.n:>5}{_share(one.ttft.answered):>12}"
        f"{_share(abstained):>11}{'' if error is None else f'{error:.2f}':>14}"
        f"{_share(one.coverage):>9}{_share(one.width):>7}{hard}"
    )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.1%}"


def written(path: Path, line: Mapping[str, Any], scores: Sequence[Score]) -> None:
    """Appends the run: its figures, every cell, the refused ones with their reason."""
    rules = "\n".join(
        f"| {name} | {figures.get('median_points', '-')} |"
        f" {figures.get('worst_cell_ours_above', '-')} | {figures.get('worst_cell_upper', '-')} |"
        for name, figures in line["baselines"].items()
    )
    keys = (
        "dominant_e2e", "dominant_e2e_answered", "abstained_e2e", "dominant_ttft", "abstained",
        "share_error_points", "share_error_worst", "coverage_pooled", "coverage_worst",
        "coverage_worst_cell", "width_of_trivial", "hard_bounds_held",
    )  # fmt: skip
    figures = "\n".join(f"| {key} | {_figure(line[key])} |" for key in keys)
    calls = f"{line['cells']} cells, {line['guarded']} with an identifiable floor; {line['calls']}"
    text = f"""
## Run of {line["at"]}, commit {line["commit"]}, seed {line["seed"]}

{calls} calls. {line["machine"]}.

| figure | value |
|---|---|
{figures}

| rule | median TTFT share error, points | ours above it in our worst cell | 95 % at most |
|---|---|---|---|
{rules}

```
{table(scores, head=True)}
```
"""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)


def _figure(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
