"""Thin functions over confluent-kafka's admin client for consumer groups, shared by `moldau` and the kafka-* names."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from confluent_kafka import ConsumerGroupState, ConsumerGroupTopicPartitions, ConsumerGroupType, TopicPartition
from confluent_kafka import KafkaError as Refusal
from confluent_kafka.admin import AdminClient

from moldau.cli.admin import SECONDS, Place, failure, outcome, outcomes, required
from moldau.cli.output import NOT_FOUND, CommandError, nearest

STATES = {
    ConsumerGroupState.PREPARING_REBALANCING: "PreparingRebalance",
    ConsumerGroupState.COMPLETING_REBALANCING: "CompletingRebalance",
    ConsumerGroupState.STABLE: "Stable",
    ConsumerGroupState.DEAD: "Dead",
    ConsumerGroupState.EMPTY: "Empty",
    **{
        state: state.name.title().replace("_", "")
        for state in ConsumerGroupState
        if state.name in ("ASSIGNING", "RECONCILING", "NOT_READY")
    },
}
"""Kafka's own spelling."""


# A cluster makes its coordinators when the first group asks for one.
NOT_YET: Final = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
SETTLE_SECONDS: Final = 15.0
PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    metadata: str


def settled(ask: Callable[[], Any | Refusal]) -> Any | Refusal:
    """Ask again while the group's coordinator is not there yet."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        answer = ask()
        if not _not_yet(answer) or time.monotonic() > deadline:
            return answer
        threading.Event().wait(PAUSE_SECONDS)


def _not_yet(answer: Any | Refusal) -> bool:
    return isinstance(answer, Refusal) and answer.name() in NOT_YET


def state_name(state: Any) -> str:
    return STATES.get(state, "Unknown")


def type_name(kind: Any) -> str:
    return {ConsumerGroupType.CLASSIC: "classic", ConsumerGroupType.CONSUMER: "consumer"}.get(kind, "unknown")


def list_groups(admin: AdminClient, states: Iterable[Any] = (), types: Iterable[Any] = ()) -> list[Any]:
    """ConsumerGroupListing of every consumer group, by name."""
    wanted: dict[str, Any] = {"request_timeout": SECONDS}
    if found_states := set(states):
        wanted["states"] = found_states
    if found_types := set(types):
        wanted["types"] = found_types
    found: Any = required("cannot list the groups", outcome(admin.list_consumer_groups(**wanted)))
    if found.errors:
        raise failure("cannot list all groups", found.errors[0].args[0])
    return sorted(found.valid, key=lambda listing: str(listing.group_id))


def group_names(admin: AdminClient) -> list[str]:
    return [str(listing.group_id) for listing in list_groups(admin)]


def unknown_group(admin: AdminClient, name: str) -> CommandError:
    hint = nearest(name, group_names(admin)) or "`moldau group list` shows what there is"
    return CommandError(f"group {name!r} does not exist", hint, NOT_FOUND)


def describe_groups(admin: AdminClient, names: Sequence[str]) -> dict[str, Any]:
    """ConsumerGroupDescription by name. A group that nobody knows is described as dead, by Kafka and by us."""
    found: dict[str, Any] = {}
    asked = outcomes(admin.describe_consumer_groups(list(names), request_timeout=SECONDS))
    for name, first in asked.items():
        described = settled(partial(_describe_one, admin, name)) if _not_yet(first) else first
        if isinstance(described, Refusal) and described.name() == "GROUP_ID_NOT_FOUND":
            raise unknown_group(admin, name)
        found[name] = required(f"cannot describe group {name!r}", described)
    return found


def _describe_one(admin: AdminClient, name: str) -> Any | Refusal:
    return outcome(admin.describe_consumer_groups([name], request_timeout=SECONDS)[name])


def require_groups(admin: AdminClient, names: Sequence[str]) -> dict[str, Any]:
    """The same, for groups that must exist."""
    found = describe_groups(admin, names)
    for name, described in found.items():
        if described.state == ConsumerGroupState.DEAD:
            raise unknown_group(admin, name)
    return found


def committed(admin: AdminClient, group: str, places: Iterable[Place] | None = None) -> dict[Place, Committed]:
    """What the group has committed, everywhere or at these places; places without a commit are left out."""
    wanted = None if places is None else [TopicPartition(place.topic, place.partition) for place in places]
    request = [ConsumerGroupTopicPartitions(group, wanted)]

    def ask() -> Any | Refusal:
        asked = admin.list_consumer_group_offsets(request, request_timeout=SECONDS, require_stable=False)
        return outcome(asked[group])

    found = required(f"cannot read the offsets of group {group!r}", settled(ask))
    result = {}
    for each in found.topic_partitions:
        if each.error is not None:
            raise failure(f"offset of group {group!r} for {each.topic}-{each.partition}", each.error)
        if each.offset >= 0:
            result[Place(each.topic, each.partition)] = Committed(int(each.offset), each.metadata or "")
    return dict(sorted(result.items()))


def commit(admin: AdminClient, group: str, wanted: Mapping[Place, int]) -> dict[Place, Refusal | None]:
    """Set the offsets of a group without members."""
    places = [TopicPartition(place.topic, place.partition, offset) for place, offset in wanted.items()]
    if not places:
        return {}
    request = [ConsumerGroupTopicPartitions(group, places)]

    def ask() -> Any | Refusal:
        return outcome(admin.alter_consumer_group_offsets(request, request_timeout=SECONDS)[group])

    found = required(f"cannot change the offsets of group {group!r}", settled(ask))
    return {Place(each.topic, each.partition): each.error for each in found.topic_partitions}


def delete_groups(admin: AdminClient, names: Sequence[str]) -> dict[str, Refusal | None]:
    return outcomes(admin.delete_consumer_groups(list(names), request_timeout=SECONDS))
