"""`moldau security role`: named sets of permissions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, Output, Yes, connected
from moldau.cli.output import Format
from moldau.cli.security.options import Hosts, OperationNames, Place, concerned

app = typer.Typer(help="Named sets of permissions, given to users; a rule can still deny.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="ROLE")]
Members = Annotated[list[str] | None, typer.Option("--member", "-m", metavar="PRINCIPAL", help="User:alice, or alice.")]


def _changing(action: str) -> Callable[..., None]:
    """A command that gives permissions and members, or takes them: all that differs is which of Kafka's actions."""

    @connected
    @concerned
    def change(
        cluster: Connection,
        name: Name,
        *,
        member: Members = None,
        operation: OperationNames = None,
        about: list[Place],
        host: Hosts = None,
        dry_run: DryRun = False,
    ) -> None:
        from moldau.cli.security import roles
        from moldau.metadata.controller.roles import RoleAction

        given = roles.permissions(about, operation, host)
        roles.change(cluster, RoleAction[action], name, given, member or [], dry_run)

    return change


app.command("create", help="Make a role, with its first permissions and members.")(_changing("CREATE"))
app.command("grant", help="Give a role to users, or more permissions to a role.")(_changing("GRANT"))
app.command("revoke", help="Take a role from users, or permissions from a role, each as it was given.")(
    _changing("REVOKE")
)


@app.command()
@connected
def delete(cluster: Connection, name: Name, dry_run: DryRun = False, yes: Yes = False) -> None:
    """Delete a role; its members keep what rules and other roles allow them."""
    from moldau.cli.security import roles

    roles.delete(cluster, name, dry_run, yes)


@app.command("list")
@connected
def list_roles(
    cluster: Connection,
    name: Annotated[str | None, typer.Argument(metavar="ROLE", help="All without one.")] = None,
    member: Annotated[
        str | None, typer.Option("--member", "-m", metavar="PRINCIPAL", help="Only roles of this.")
    ] = None,
    output: Output = Format.table,
) -> None:
    """List roles with their permissions and members."""
    from moldau.cli.security import roles

    roles.show_roles(cluster, name, member, output)
