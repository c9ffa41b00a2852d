"""`moldau security quota`: how much users, client ids and addresses may do."""

from __future__ import annotations

from typing import Annotated

import typer

from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, Output, connected
from moldau.cli.output import Format

app = typer.Typer(help="How much users, client ids and addresses may do.", no_args_is_help=True)

DEFAULT = "'' (empty): whoever has none of their own."
User = Annotated[str | None, typer.Option("--user", metavar="NAME", help=DEFAULT)]
ClientId = Annotated[str | None, typer.Option("--client-id", metavar="ID", help=DEFAULT)]
Address = Annotated[str | None, typer.Option("--ip", metavar="ADDRESS", help=DEFAULT)]
KEYS = "producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate, connection_creation_rate"


@app.command("list")
@connected
def list_quotas(
    cluster: Connection,
    user: User = None,
    client_id: ClientId = None,
    ip: Address = None,
    output: Output = Format.table,
) -> None:
    """List quotas: all, or those of some user, client id or address, the strongest first."""
    from moldau.cli.security import actions

    actions.list_quotas(cluster, user, client_id, ip, output)


@app.command("set")
@connected
def set_quota(
    cluster: Connection,
    limits: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help=f"{KEYS}.")],
    user: User = None,
    client_id: ClientId = None,
    ip: Address = None,
    dry_run: DryRun = False,
) -> None:
    """Set limits for a user, a client id, both, or an address. They hold at once."""
    from moldau.cli.security import actions

    actions.set_quota(cluster, limits, user, client_id, ip, dry_run)


@app.command()
@connected
def remove(
    cluster: Connection,
    keys: Annotated[list[str] | None, typer.Argument(metavar="KEY...", help="All of them without one.")] = None,
    user: User = None,
    client_id: ClientId = None,
    ip: Address = None,
    dry_run: DryRun = False,
) -> None:
    """Take limits away."""
    from moldau.cli.security import actions

    actions.remove_quota(cluster, keys or [], user, client_id, ip, dry_run)
