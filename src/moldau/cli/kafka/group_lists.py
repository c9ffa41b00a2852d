"""The groups of a cluster, as kafka-consumer-groups --list prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moldau.cli.connect import Connection

NARROWEST = 15


def all_groups(
    connection: Connection, states: Sequence[str] | None = None, types: Sequence[str] | None = None
) -> list[Any]:
    from confluent_kafka import ConsumerGroupState, ConsumerGroupType

    wanted: dict[str, Any] = {}
    if types:
        wanted["types"] = {getattr(ConsumerGroupType, name.upper()) for name in types}
    if states:
        # librdkafka does not know every state; what it cannot ask for is picked out here.
        known = {plain(state.name): state for state in ConsumerGroupState}
        if all(plain(name) in known for name in states):
            wanted["states"] = {known[plain(name)] for name in states}
    found = connection.admin().list_consumer_groups(request_timeout=30, **wanted).result()
    if found.errors:
        raise found.errors[0]
    return sorted(found.valid, key=lambda group: str(group.group_id))


def list_groups(connection: Connection, states: list[str] | None, types: list[str] | None) -> None:
    groups = all_groups(connection, states, types)
    if states is None and types is None:
        for group in groups:
            print(group.group_id)
        return
    width = 10 + max([NARROWEST, *(len(group.group_id) for group in groups)])
    rows = [("GROUP", "TYPE", "STATE"), *((group.group_id, type_name(group), state_name(group)) for group in groups)]
    for group_id, kind, state in rows:
        text = f"{group_id:<{width}}"
        if types is not None:
            text += f" {kind:<20}"
        if states is not None:
            text += f" {state:<20}"
        print(text)


def plain(name: str) -> str:
    return name.replace("_", "").lower()


def camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def type_name(group: Any) -> str:
    return camel(group.type.name)


def state_name(group: Any) -> str:
    """PREPARING_REBALANCING and COMPLETING_REBALANCING are librdkafka's spellings."""
    return camel(group.state.name).replace("Rebalancing", "Rebalance")
