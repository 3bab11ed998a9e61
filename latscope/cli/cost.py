"""`latscope sim cost`: the two-stage cost model, and its three scenarios as charts."""

import click

from latscope.cli.output import json_line, screen
from latscope.errors import UsageError
from latscope.report.cost import call_lines, sweep_lines
from latscope.sim.cost import (
    Axis,
    Constants,
    Sweep,
    compare,
    parse_sweep,
    parse_units,
    sweep,
    to_mapping,
)


@click.command("cost", short_help="prefill and decode of one call, with a KV cache and without")
@click.option("--prompt", type=int, default=200, show_default=True, help="Prompt tokens.")
@click.option("--output", type=int, default=40, show_default=True, help="Tokens to generate.")
@click.option(
    "--forward", default="12", show_default=True, help="Units to compute one token's forward pass."
)
@click.option(
    "--kv-read", default="1", show_default=True, help="Units to read one token from the KV cache."
)
@click.option(
    "--sweep",
    "sweeps",
    multiple=True,
    metavar="AXIS=RANGE",
    help="prompt=100..3200 (doubling), output=10..90/10 (steps), prompt=100,250; or both.",
)
@click.option("--json", "as_json", is_flag=True, help="latscope.cost/1 on one line.")
def cost_command(
    prompt: int, output: int, forward: str, kv_read: str, sweeps: tuple[str, ...], as_json: bool
) -> None:
    """What one call costs in abstract units: prefill once, then a decode step for every token, with
    a KV cache and without. A sweep is one of three scenarios: over the prompt, over the output, or
    over both.

    \b
      latscope sim cost
      latscope sim cost --sweep prompt=100..3200
      latscope sim cost --sweep output=10..1280
      latscope sim cost --sweep prompt=100..3200 --sweep output=10..320
    """
    constants = Constants(forward=parse_units(forward), kv_read=parse_units(kv_read))
    base = compare(prompt, output, constants)
    values: dict[Axis, tuple[int, ...]] = {}
    for text in sweeps:
        axis, found = parse_sweep(text)
        if axis in values:
            raise UsageError(f"--sweep {axis} is given twice")
        values[axis] = found
    swept: list[Sweep] = [sweep(base, values)] if values else []
    if as_json:
        json_line(to_mapping(base, swept))
        return
    out = screen()
    if not swept:
        out.lines(call_lines(base, width=out.width, colours=out.colours))
    for one in swept:
        out.lines(sweep_lines(one, width=out.width, colours=out.colours))
