"""`moldau security token`: delegation tokens, which stand for a user for a while."""

from __future__ import annotations

from typing import Annotated

import typer

from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, Output, Yes, connected
from moldau.cli.output import Format

app = typer.Typer(
    help="Tokens that stand for a user for a while, for jobs instead of a password.", no_args_is_help=True
)

TokenId = Annotated[str, typer.Argument(metavar="TOKEN", help="Its id, as `list` shows it.")]
Owners = Annotated[list[str] | None, typer.Option("--owner", metavar="PRINCIPAL", help="User:alice, or alice.")]


@app.command()
@connected
def create(
    cluster: Connection,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="PRINCIPAL", help="Whose it is to be; else your own.")
    ] = None,
    renewer: Annotated[
        list[str] | None, typer.Option("--renewer", metavar="PRINCIPAL", help="Who may renew it beside its owner.")
    ] = None,
    lifetime: Annotated[
        str | None, typer.Option("--lifetime", metavar="DURATION", help="Its longest life, renewed or not: 12h, 7d.")
    ] = None,
    output: Output = Format.table,
    dry_run: DryRun = False,
) -> None:
    """Make a token, and print its secret: the password of a SCRAM login whose user name is its id."""
    from moldau.cli.security import tokens

    tokens.create(cluster, owner, renewer or [], lifetime, output, dry_run)


@app.command()
@connected
def renew(
    cluster: Connection,
    token: TokenId,
    period: Annotated[
        str | None, typer.Option("--for", metavar="DURATION", help="From now on; else as long as the brokers give.")
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Let a token hold longer, up to the end of its life."""
    from moldau.cli.security import tokens

    tokens.renew(cluster, token, period, dry_run)


@app.command()
@connected
def expire(
    cluster: Connection,
    token: TokenId,
    period: Annotated[
        str | None, typer.Option("--in", metavar="DURATION", help="When it ends, from now on; at once without it.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """End a token, and the connections that were made with it."""
    from moldau.cli.security import tokens

    tokens.expire(cluster, token, period, dry_run, yes)


@app.command("list")
@connected
def list_tokens(
    cluster: Connection,
    owner: Owners = None,
    secrets: Annotated[bool, typer.Option("--secrets", help="With what they log in with.")] = False,
    output: Output = Format.table,
) -> None:
    """List the tokens that you may see: your own, those that you may renew, those that a rule lets you describe."""
    from moldau.cli.security import tokens

    tokens.list_tokens(cluster, owner or [], secrets, output)
