"""`moldau broker`: run a broker in the foreground."""

import typer

from moldau.cli import broker_start

app = typer.Typer(help="Run a broker.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keeps `start` a command of its own while it is the only one."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def start(context: typer.Context) -> None:
    """Run a broker until SIGTERM or Ctrl-C."""
    raise typer.Exit(broker_start.main(context.args))
