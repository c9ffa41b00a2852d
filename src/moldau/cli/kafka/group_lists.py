"""The groups of a cluster, as kafka-consumer-groups --list prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from moldau.cli.calls import groups

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

NARROWEST = 15


def all_groups(
    connection: Connection, states: Sequence[str] | None = None, types: Sequence[str] | None = None
) -> list[Any]:
    known = groups.states_by_name()
    # librdkafka does not know every state; what it cannot ask for is picked out by the caller.
    asked = [known[plain(name)] for name in states or ()] if all(plain(name) in known for name in states or ()) else []
    return groups.list_groups(connection, asked, types or ())


def list_groups(connection: Connection, states: list[str] | None, types: list[str] | None) -> None:
    found = all_groups(connection, states, types)
    if states is None and types is None:
        for group in found:
            print(group.group_id)
        return
    width = 10 + max([NARROWEST, *(len(group.group_id) for group in found)])
    rows = [
        ("GROUP", "TYPE", "STATE"),
        *((group.group_id, groups.type_name(group.type), groups.state_name(group.state)) for group in found),
    ]
    for group_id, kind, state in rows:
        text = f"{group_id:<{width}}"
        if types is not None:
            text += f" {kind:<20}"
        if states is not None:
            text += f" {state:<20}"
        print(text)


def plain(name: str) -> str:
    return name.replace("_", "").lower()
