"""Completion of names in the shell: what exists is asked from the cluster, briefly, and silence is an answer."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import typer

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

SECONDS_VARIABLE: Final = "MOLDAU_COMPLETION_SECONDS"
ASK_SECONDS: Final = 1.0


def patience() -> float:
    """How long a shell may wait for names."""
    try:
        return float(os.environ.get(SECONDS_VARIABLE, ASK_SECONDS))
    except ValueError:
        return ASK_SECONDS


def topics(context: typer.Context, incomplete: str) -> list[str]:
    def ask(connection: Connection) -> Iterable[str]:
        from moldau.cli.calls import topics

        return topics.names(connection, patience())

    return _asked(context, incomplete, ask)


def groups(context: typer.Context, incomplete: str) -> list[str]:
    def ask(connection: Connection) -> Iterable[str]:
        from moldau.cli.calls import groups

        return groups.names_told(connection, patience())

    return _asked(context, incomplete, ask)


def profile_names(incomplete: str) -> list[str]:
    from moldau.cli.output import CommandError
    from moldau.cli.profile import profiles

    try:
        return sorted(name for name in profiles.load(os.environ).known if name.startswith(incomplete))
    except CommandError:
        return []


def _asked(context: typer.Context, incomplete: str, ask: Callable[[Connection], Iterable[str]]) -> list[str]:
    """A shell that waits for a name must get a prompt back, whatever is wrong with the cluster."""
    from moldau.cli.connection import Connection, properties_from

    given = context.params
    try:
        properties = properties_from(
            given.get("bootstrap_server"), given.get("profile"), given.get("config") or (), given.get("command_config")
        )
        connection = Connection(properties, lenient=True, reach_seconds=patience())
        names = sorted(name for name in ask(connection) if name.startswith(incomplete))
    except Exception:  # nobody is there to read it
        return []
    # Internal topics are offered to those who begin to type their name.
    return [name for name in names if incomplete.startswith("_") or not name.startswith("__")]
