"""`moldau mirror`: keep topics of one cluster up in another."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.options import Output, Yes
from moldau.cli.output import Format

app = typer.Typer(help="Copy topics, groups and settings between clusters, exactly once.", no_args_is_help=True)

Config = Annotated[
    Path, typer.Argument(help="MirrorMaker 2's property file.", exists=True, dir_okay=False, metavar="MM2.PROPERTIES")
]
Clusters = Annotated[
    list[str] | None, typer.Option("--clusters", metavar="ALIAS", help="Only flows into this cluster; repeat for more.")
]
FlowName = Annotated[str | None, typer.Option("--flow", metavar="A->B", help="One flow; all without it.")]


@app.command()
def start(
    config: Config,
    clusters: Clusters = None,
    progress: Annotated[bool, typer.Option("--progress", help="Print how far it is, every second.")] = False,
    until_current: Annotated[
        bool, typer.Option("--until-current", help="End when everything that was there at the start is copied.")
    ] = False,
    listen: Annotated[
        str | None, typer.Option("--listen", metavar="URL", help="Flows and metrics over HTTP: http://127.0.0.1:8085.")
    ] = None,
    output: Output = Format.table,
) -> None:
    """Run one worker in the foreground until SIGTERM. Several with the same file share the partitions."""
    from moldau.cli.mirror import actions

    actions.start(config, clusters, progress=progress, until_current=until_current, listen=listen, output=output)


@app.command()
def check(config: Config, clusters: Clusters = None, output: Output = Format.table) -> None:
    """Read the file, ask both sides, and say what would be copied; nothing is changed."""
    from moldau.cli.mirror import actions

    actions.check(config, clusters, output)


@app.command()
def status(config: Config, flow: FlowName = None, output: Output = Format.table) -> None:
    """How far each partition is, from what the clusters say; wherever the workers run."""
    from moldau.cli.mirror import actions

    actions.status(config, flow, output)


@app.command()
def reset(
    config: Config,
    flow: Annotated[str, typer.Argument(metavar="A->B", help="The flow.")],
    topic: Annotated[list[str] | None, typer.Option("--topic", help="In the source; repeat for more.")] = None,
    yes: Yes = False,
) -> None:
    """Take stored positions away: partitions are copied again from their beginning. Workers may run on."""
    from moldau.cli.mirror import actions

    actions.reset(config, flow, topic or [], yes=yes)


@app.command("go-back")
def go_back(
    config: Config,
    flow: Annotated[str, typer.Argument(metavar="B->A", help="The flow from the standby to the cluster that failed.")],
    yes: Yes = False,
    output: Output = Format.table,
) -> None:
    """Where names are kept: let the way back begin behind the copies, with what the standby wrote itself."""
    from moldau.cli.mirror import actions

    actions.go_back(config, flow, yes=yes, output=output)
