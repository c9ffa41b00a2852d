"""`moldau profile`: clusters with a name."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from moldau.cli import completion
from moldau.cli.connection import DEFAULT_SERVERS, PROFILE_VARIABLE, SERVERS, Connection, pairs, properties_from
from moldau.cli.options import Output
from moldau.cli.output import Column, Format, Table, note, show
from moldau.cli.profile import profiles

app = typer.Typer(help="Save how clusters are reached, and choose one.", no_args_is_help=True)

ProfileName = Annotated[str, typer.Argument(metavar="NAME", autocompletion=completion.profile_names)]
Secrets = Annotated[bool, typer.Option("--show-secrets", help="Passwords too.")]


@app.command("list")
def list_profiles(output: Output = Format.table) -> None:
    """List the profiles; the one in use is marked."""
    known = profiles.load(os.environ)
    rows = [
        {"name": name, "current": name == in_use(known), SERVERS: properties.get(SERVERS, "")}
        for name, properties in sorted(known.known.items())
    ]

    def tables() -> list[Table]:
        table = Table([Column(""), Column("profile"), Column("servers")])
        for row in rows:
            table.add("*" if row["current"] else " ", row["name"], row[SERVERS])
        return [table]

    show(output, rows, tables, empty=f"no profiles in {known.path}; `moldau profile set NAME {SERVERS}=…` makes one")


@app.command("show")
def show_profile(
    name: Annotated[str | None, typer.Argument(metavar="NAME", autocompletion=completion.profile_names)] = None,
    show_secrets: Secrets = False,
    output: Output = Format.table,
) -> None:
    """Show the properties of a profile, or those that a command without options would use."""
    properties = dict(profiles.load(os.environ).get(name)) if name else properties_from()
    shown = properties if show_secrets else profiles.without_secrets(properties)

    def tables() -> list[Table]:
        table = Table([Column("property"), Column("value")])
        for key, value in sorted(shown.items()):
            table.add(key, value)
        return [table]

    show(output, shown, tables)


@app.command("set")
def set_properties(
    name: ProfileName,
    settings: Annotated[
        list[str], typer.Argument(metavar="KEY=VALUE...", help="Client properties; an empty value removes one.")
    ],
) -> None:
    """Make a profile, or change some of its properties. The first one made is in use at once."""
    known = profiles.load(os.environ)
    changed = known.known.setdefault(name, {SERVERS: DEFAULT_SERVERS})
    for key, value in pairs(settings, "KEY=VALUE").items():
        if value:
            changed[key] = value
        else:
            changed.pop(key, None)
    Connection(changed).check()
    known.current = known.current or name
    known.save()
    print(f"saved profile {name} in {known.path}")


@app.command()
def use(name: ProfileName) -> None:
    """Let commands use this profile from now on."""
    known = profiles.load(os.environ)
    known.get(name)
    known.current = name
    known.save()
    print(f"using profile {name}")
    if os.environ.get(PROFILE_VARIABLE, name) != name:
        note(f"warning: {PROFILE_VARIABLE}={os.environ[PROFILE_VARIABLE]} is set and wins")


@app.command()
def delete(name: ProfileName) -> None:
    """Forget a profile."""
    known = profiles.load(os.environ)
    known.get(name)
    del known.known[name]
    if known.current == name:
        known.current = None
    known.save()
    print(f"deleted profile {name}")


def in_use(known: profiles.Profiles) -> str | None:
    return os.environ.get(PROFILE_VARIABLE) or known.current
