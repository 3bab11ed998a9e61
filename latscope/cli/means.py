"""The server's own means of a run beside what was seen from here, as lines."""

from collections.abc import Iterator, Sequence

from latscope.attribution.model import Attribution
from latscope.probe.metrics import Mean, Scraper
from latscope.report.figures import UNKNOWN, counted, duration
from latscope.units import US, Ns

PHASES = ("queue", "prefill", "decode")


def mean_lines(
    found: Sequence[Mean] | str, calls: Sequence[Attribution], scraper: Scraper
) -> Iterator[str]:
    """One line a phase: the server's mean and ours; or one line that says why there is none."""
    if scraper.missed:
        yield f"{scraper.source}: {counted(scraper.missed, 'reading')} failed during the run"
    if isinstance(found, str):
        yield f"the server's own means are not used: {found}"
        return
    done = [call for call in calls if call.status == "complete"]
    yield (
        f"means of {counted(len(done), 'call')}: the server's, reported in aggregate by"
        f" {scraper.source}, and the least and the most from here"
    )
    for mean in sorted(found, key=lambda mean: PHASES.index(mean.covers[0])):
        low, high = _seen(mean.covers, done)
        seen = f"{duration(low, US)} to {duration(high, US)}" if done else UNKNOWN
        name = " + ".join(mean.covers)
        yield f"  {name:<17} {duration(mean.ns, US):>10}   here {seen}   ({mean.source})"


def _seen(names: Sequence[str], calls: Sequence[Attribution]) -> tuple[Ns, Ns]:
    """The means of the hard bounds of these segments together."""
    low = high = 0
    for call in calls:
        bounds = [share.bounds_ns for share in call.segments if share.name in names]
        low += sum(least for least, _ in bounds)
        # What is unsplit between two of them stands in both maxima.
        high += min(call.wall_ns, sum(most for _, most in bounds))
    return low // max(1, len(calls)), high // max(1, len(calls))
