"""`moldau security acl`: access rules."""

from __future__ import annotations

from typing import Annotated

import typer

from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, Output, Yes, connected
from moldau.cli.output import Format
from moldau.cli.security.options import Hosts, OperationNames, Place, concerned, required

app = typer.Typer(help="Access rules: who is allowed or denied what.", no_args_is_help=True)

Principals = Annotated[
    list[str], typer.Argument(metavar="PRINCIPAL...", help="User:alice, or alice; User:'*' is everybody.")
]
Whose = Annotated[
    list[str] | None, typer.Option("--principal", metavar="PRINCIPAL", help="Only rules that name this principal.")
]


@app.command()
@connected
@concerned
def allow(
    cluster: Connection,
    principals: Principals,
    *,
    operation: OperationNames = None,
    about: list[Place],
    host: Hosts = None,
    dry_run: DryRun = False,
) -> None:
    """Allow users what they may do. Who may read, write, delete or alter may describe as well."""
    from moldau.cli.security import actions
    from moldau.types.acls import Permission

    actions.add_rules(cluster, Permission.ALLOW, principals, required(about), operation, host, dry_run)


@app.command()
@connected
@concerned
def deny(
    cluster: Connection,
    principals: Principals,
    *,
    operation: OperationNames = None,
    about: list[Place],
    host: Hosts = None,
    dry_run: DryRun = False,
) -> None:
    """Deny users what they may not do, whatever else allows it."""
    from moldau.cli.security import actions
    from moldau.types.acls import Permission

    actions.add_rules(cluster, Permission.DENY, principals, required(about), operation, host, dry_run)


@app.command("list")
@connected
@concerned
def list_rules(
    cluster: Connection,
    *,
    principal: Whose = None,
    about: list[Place],
    covering: Annotated[
        bool, typer.Option("--covering", help="All that count for these names: prefixes and '*' too.")
    ] = False,
    output: Output = Format.table,
) -> None:
    """List rules: all, or those about some resources or principals."""
    from moldau.cli.security import actions

    actions.list_rules(cluster, principal or [], about, covering, output)


@app.command()
@connected
@concerned
def remove(
    cluster: Connection,
    *,
    principal: Whose = None,
    operation: OperationNames = None,
    about: list[Place],
    host: Hosts = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Remove rules that fit, allowing and denying ones."""
    from moldau.cli.security import actions

    if not principal:
        required(about)
    actions.remove_rules(cluster, principal or [], about, operation, host, dry_run, yes)
