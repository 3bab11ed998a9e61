"""`latscope sim serve`: the simulated server, in the foreground."""

from pathlib import Path

import click

from latscope.cli.cost import cost_command
from latscope.cli.fleet import fleet_command
from latscope.cli.output import say


@click.group("sim", short_help="the simulated server, fleet and cost model")
def sim_group() -> None:
    """The simulated server: scenarios in, timed streams and their truth out."""


sim_group.add_command(cost_command)
sim_group.add_command(fleet_command)


@sim_group.command("serve")
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="[FILE...]")
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address.")
@click.option("--port", type=click.IntRange(0, 65535), default=8123, show_default=True)
@click.option("--list", "listing", is_flag=True, help="The shipped scenarios and what they show.")
def serve_command(files: tuple[Path, ...], host: str, port: int, listing: bool) -> None:
    """Serves scenario FILEs (TOML), or all the shipped ones; the model's name selects one.

    \b
      latscope sim serve
      latscope probe http://127.0.0.1:8123 --model loaded-queue
    """
    from latscope.documents import scenarios

    if listing:
        for scenario in scenarios.shipped().values():
            click.echo(f"{scenario.name:<16} {scenario.title or scenario.story}")
        return
    from latscope.sim.server import serve

    chosen = [scenarios.read(path) for path in files] or list(scenarios.shipped().values())
    models = ", ".join(scenario.name for scenario in chosen)

    def ready(url: str) -> None:
        click.echo(url)
        say(f"serving {models}; stop with Ctrl-C")

    serve(host, port, chosen, ready, None)
