"""`moldau security user`: SCRAM credentials."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, Output, Yes, connected
from moldau.cli.output import Format

app = typer.Typer(help="Users that log in with SCRAM.", no_args_is_help=True)


class Mechanism(StrEnum):
    sha256 = "SCRAM-SHA-256"
    sha512 = "SCRAM-SHA-512"


Name = Annotated[str, typer.Argument(metavar="USER")]
Mechanisms = Annotated[list[Mechanism] | None, typer.Option("--mechanism", help="Both without it.")]


@app.command("list")
@connected
def list_users(
    cluster: Connection,
    names: Annotated[list[str] | None, typer.Argument(metavar="USER...", help="All without one.")] = None,
    output: Output = Format.table,
) -> None:
    """List users with their mechanisms; nobody can be told passwords."""
    from moldau.cli.security import actions

    actions.list_users(cluster, names or [], output)


@app.command("set")
@connected
def set_user(
    cluster: Connection,
    name: Name,
    mechanism: Mechanisms = None,
    iterations: Annotated[int, typer.Option(min=4096, max=16384, help="How often the password is hashed.")] = 8192,
    dry_run: DryRun = False,
) -> None:
    """Make a user or change the password, which is asked for, or read from stdin: process lists show arguments."""
    from moldau.cli.security import actions

    actions.set_user(cluster, name, [each.value for each in mechanism or Mechanism], iterations, dry_run)


@app.command()
@connected
def remove(
    cluster: Connection, name: Name, mechanism: Mechanisms = None, dry_run: DryRun = False, yes: Yes = False
) -> None:
    """Take a user's credentials away. Connections that are open stay so, unless sessions end."""
    from moldau.cli.security import actions

    actions.remove_user(cluster, name, [each.value for each in mechanism or ()], dry_run, yes)
