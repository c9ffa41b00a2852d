"""The `moldau` command: its groups. The process enters through `moldau.cli.entry`."""

from typing import Annotated

import typer

from moldau.cli import broker, demo, log
from moldau.version import VERSION

app = typer.Typer(
    name="moldau",
    help="A streaming platform for Python data teams: a broker that speaks the Kafka protocol.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(broker.app, name="broker")
app.add_typer(log.app, name="log")
app.command("demo")(demo.demo)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"moldau {VERSION}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Options that stand before a command."""
