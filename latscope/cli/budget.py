"""`latscope budget`: what prompt and output keep a target, from a profile."""

from math import isfinite

import click

from latscope.attribution.budget import Targets
from latscope.cli.output import json_line, say, screen
from latscope.documents import profiles
from latscope.errors import UsageError
from latscope.units import Ns, ns_from_ms

INSUFFICIENT = 4

_tokens = click.IntRange(1, 10_000_000)


@click.command("budget", short_help="what prompt and output keep a target")
@click.argument("profile", metavar="PROFILE")
@click.option("--ttft", type=float, metavar="MS", help="Most time to the first token.")
@click.option("--e2e", type=float, metavar="MS", help="Most time to the end.")
@click.option("--prompt", type=_tokens, metavar="N", help="Prompt tokens of a planned call.")
@click.option("--output", type=_tokens, metavar="N", help="Output tokens of a planned call.")
@click.option(
    "--cached", type=click.IntRange(0, 10_000_000), default=0, metavar="N", help="Of the prompt."
)
@click.option("--json", "as_json", is_flag=True, help="latscope.budget/1 on one line.")
def budget_command(
    profile: str,
    ttft: float | None,
    e2e: float | None,
    prompt: int | None,
    output: int | None,
    cached: int,
    as_json: bool,
) -> int:
    """The largest prompt and output that keep --ttft and --e2e at p50 and p95, by the PROFILE that
    `latscope calibrate` wrote; and where the time of a planned call (--prompt, --output) goes.

    \b
      latscope budget tiny.profile.json --ttft 300 --e2e 2000
      latscope budget tiny.profile.json --prompt 1200 --output 200 --ttft 300

    Exit code 4: the profile knows no floor.
    """
    if ttft is None and e2e is None and prompt is None:
        raise UsageError("give a target (--ttft, --e2e), or a planned call (--prompt, --output)")
    if prompt is not None and cached > prompt:
        raise UsageError("--cached is more than --prompt: it counts tokens of the prompt")
    targets = Targets(ttft_ns=_ns(ttft, "--ttft"), e2e_ns=_ns(e2e, "--e2e"))
    found = profiles.read(profile)
    stale = profiles.expired(found)
    if stale is not None:
        say(stale)
    if found.floor is None:
        say(f"{profile}: it knows no floor to plan with ({found.refused or 'it was not probed'})")
        return INSUFFICIENT
    if targets.e2e_ns is not None and found.step is None:
        say(f"{profile}: it knows no decode step, so --e2e cannot be planned for")
        return INSUFFICIENT
    from latscope.report.budget import budget_lines, document

    told = document(found, found.floor, targets, prompt=prompt, output=output, cached=cached)
    if as_json:
        json_line(told)
        return 0
    out = screen()
    out.lines(budget_lines(told, width=out.width, colours=out.colours))
    return 0


def _ns(ms: float | None, option: str) -> Ns | None:
    if ms is None:
        return None
    if not isfinite(ms) or ms <= 0:
        raise UsageError(f"{option} needs a number of milliseconds above 0")
    return ns_from_ms(ms)
