"""Consumer groups and what they have committed.

Through librdkafka, but for two things: `group_states` describes what librdkafka does not show (epochs, targets), and
offsets of a group are deleted over our own client.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls.answers import SECONDS, demanded, for_client, is_refusal, outcome, outcomes, place_of
from moldau.client.asking.answers import refuse
from moldau.client.asking.groups import delete_offsets as delete_offsets
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError as Refusal

    from moldau.cli.connection import Connection

# A cluster makes its coordinators when the first group asks for one.
NOT_YET: Final = ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")
SETTLE_SECONDS: Final = 15.0
PAUSE_SECONDS: Final = 0.2


@dataclass(frozen=True, slots=True)
class Committed:
    offset: int
    metadata: str
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class AnyGroup:
    name: str
    protocol: str
    state: str
    kind: str
    """classic, consumer, share or streams; classic where a broker does not say."""


def list_all(cluster: Connection) -> list[AnyGroup]:
    """Groups of every type, which librdkafka leaves out: broker by broker, over our own client."""
    from moldau.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse

    wire = cluster.wire()
    found = []
    for broker in wire.broker_ids():
        answer = wire.to_broker(broker, ListGroupsRequest(), ListGroupsResponse)
        refuse(answer.error_code)
        found += [
            AnyGroup(each.group_id, each.protocol_type, each.group_state, each.group_type.lower() or "classic")
            for each in answer.groups
        ]
    return found


def settled(ask: Callable[[], Any | Refusal]) -> Any | Refusal:
    """Ask again while the group's coordinator is not there yet."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        answer = ask()
        if not _not_yet(answer) or time.monotonic() > deadline:
            return answer
        threading.Event().wait(PAUSE_SECONDS)


def _not_yet(answer: Any | Refusal) -> bool:
    return is_refusal(answer) and answer.name() in NOT_YET


def state_name(state: Any) -> str:
    """Kafka's own spelling; librdkafka writes PREPARING_REBALANCING."""
    return "Unknown" if state is None else _camel(state.name).replace("Rebalancing", "Rebalance")


def type_name(kind: Any) -> str:
    return "Unknown" if kind is None else _camel(kind.name)


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def states_by_name() -> dict[str, Any]:
    """What librdkafka can ask for, under Kafka's names in small letters."""
    from confluent_kafka import ConsumerGroupState

    return {state_name(state).lower(): state for state in ConsumerGroupState}


def list_groups(cluster: Connection, states: Iterable[Any] = (), types: Iterable[str] = ()) -> list[Any]:
    """ConsumerGroupListing of every consumer group, by name; types are classic and consumer."""
    from confluent_kafka import ConsumerGroupType

    wanted: dict[str, Any] = {"request_timeout": SECONDS}
    if found_states := set(states):
        wanted["states"] = found_states
    if found_types := {getattr(ConsumerGroupType, name.upper()) for name in types}:
        wanted["types"] = found_types
    found = demanded(outcome(cluster.admin().list_consumer_groups(**wanted)))
    if found.errors:
        raise found.errors[0]
    return sorted(found.valid, key=lambda listing: str(listing.group_id))


def names(cluster: Connection) -> list[str]:
    return [str(listing.group_id) for listing in list_groups(cluster)]


def names_told(cluster: Connection, seconds: float) -> list[str]:
    """Of the brokers that answer in that time; those that do not are left out."""
    found: Any = cluster.admin().list_consumer_groups(request_timeout=seconds).result(seconds)
    return [str(listing.group_id) for listing in found.valid]


def describe(cluster: Connection, wanted: Sequence[str]) -> dict[str, Any | Refusal]:
    """ConsumerGroupDescription by name. A group that nobody knows is described as dead, by Kafka and by us."""
    if not wanted:
        return {}
    asked = outcomes(cluster.admin().describe_consumer_groups(list(wanted), request_timeout=SECONDS))
    return {
        name: settled(partial(_describe_one, cluster, name)) if _not_yet(first) else first
        for name, first in asked.items()
    }


def _describe_one(cluster: Connection, name: str) -> Any | Refusal:
    return outcome(cluster.admin().describe_consumer_groups([name], request_timeout=SECONDS)[name])


def delete(cluster: Connection, wanted: Sequence[str]) -> dict[str, Refusal | None]:
    if not wanted:
        return {}
    return outcomes(cluster.admin().delete_consumer_groups(list(wanted), request_timeout=SECONDS))


# -- offsets -------------------------------------------------------------------------------------------------------


def committed(cluster: Connection, group: str) -> dict[TopicPartition, Committed]:
    """What the group has committed; partitions without a commit are left out."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    request = [ConsumerGroupTopicPartitions(group)]

    def ask() -> Any | Refusal:
        asked = cluster.admin().list_consumer_group_offsets(request, request_timeout=SECONDS, require_stable=False)
        return outcome(asked[group])

    result = {}
    for each in demanded(settled(ask)).topic_partitions:
        demanded(each.error)
        if each.offset >= 0:
            epoch = each.leader_epoch
            known = None if epoch is None or epoch < 0 else epoch
            result[place_of(each)] = Committed(int(each.offset), each.metadata or "", known)
    return dict(sorted(result.items()))


def commit(cluster: Connection, group: str, wanted: Mapping[TopicPartition, int]) -> None:
    """Set the offsets of a group without members; the first refusal is raised."""
    from confluent_kafka import ConsumerGroupTopicPartitions

    places = [for_client(place, offset) for place, offset in wanted.items()]
    if not places:
        return
    request = [ConsumerGroupTopicPartitions(group, places)]

    def ask() -> Any | Refusal:
        return outcome(cluster.admin().alter_consumer_group_offsets(request, request_timeout=SECONDS)[group])

    for each in demanded(settled(ask)).topic_partitions:
        demanded(each.error)
