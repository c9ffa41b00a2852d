"""`moldau security`: who may log in, who may do what and how much, and certificates for development."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.security import acl, quota, role, token, user

app = typer.Typer(
    help="Users, access rules, roles, quotas, tokens, and certificates for development.", no_args_is_help=True
)
PARTS = (
    ("acl", acl),
    ("role", role),
    ("user", user),
    ("quota", quota),
    ("token", token),
)
for name, part in PARTS:
    app.add_typer(part.app, name=name)


@app.command()
def certificates(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Where ca.pem and the others lie.")],
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Brokers and users; <NAME>.pem each.")],
    host: Annotated[
        list[str] | None,
        typer.Option("--host", metavar="HOST", help="Host names and addresses that a broker is reached under."),
    ] = None,
    days: Annotated[int, typer.Option(min=1, help="How long they count.")] = 365,
) -> None:
    """Make certificates that an authority of one's own signs; it is made too where there is none. For development."""
    from moldau.cli.security import actions

    actions.make_certificates(folder, names, host or [], days)
