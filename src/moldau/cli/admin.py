"""Thin functions over confluent-kafka's admin client, shared by `moldau` and the kafka-* names.

A call for many things answers for each of them: with its value, or with the KafkaError it was refused with. What a
command cannot go on without is asked for with `required`, which ends it with one line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from moldau.cli.output import FAILED, NOT_FOUND, UNREACHABLE, WRONG_USAGE, CommandError, nearest

SECONDS: Final = 30.0
# librdkafka's own timers end a call; the future is only watched a little longer.
GRACE_SECONDS: Final = 5.0

K = TypeVar("K")
V = TypeVar("V")

HINTS: Final = {
    "TOPIC_ALREADY_EXISTS": "use `topic alter` to change it, or --if-not-exists",
    "INVALID_REPLICATION_FACTOR": "there are not that many brokers; `moldau cluster describe` lists them",
    "NON_EMPTY_GROUP": "stop its members first; `moldau group describe` lists them",
    "UNKNOWN_MEMBER_ID": "the group has members; stop them first",
    "TOPIC_AUTHORIZATION_FAILED": "the user of this profile may not do this",
    "GROUP_AUTHORIZATION_FAILED": "the user of this profile may not do this",
    "CLUSTER_AUTHORIZATION_FAILED": "the user of this profile may not do this",
    "POLICY_VIOLATION": "records can be deleted only where cleanup.policy has `delete`",
    "_TIMED_OUT": "the broker did not answer in time; `moldau cluster health` shows whether it is well",
}
EXIT_CODES: Final = {
    "UNKNOWN_TOPIC_OR_PART": NOT_FOUND,
    "UNKNOWN_TOPIC_ID": NOT_FOUND,
    "GROUP_ID_NOT_FOUND": NOT_FOUND,
    "TOPIC_EXCEPTION": WRONG_USAGE,
    "_TRANSPORT": UNREACHABLE,
    "_ALL_BROKERS_DOWN": UNREACHABLE,
}


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def failure(doing: str, error: KafkaError) -> CommandError:
    """An error of the cluster as the end of a command."""
    name = str(error.name())
    cause = str(error.str()).removeprefix("Broker: ").removeprefix("Local: ")
    return CommandError(f"{doing}: {cause}", HINTS.get(name, ""), EXIT_CODES.get(name, FAILED))


def outcome(future: Future[Any]) -> Any | KafkaError:
    try:
        return future.result(SECONDS + GRACE_SECONDS)
    except KafkaException as error:
        refused: KafkaError = error.args[0]
        return refused


def outcomes(futures: Mapping[K, Future[V]]) -> dict[K, V | KafkaError]:
    return {key: outcome(future) for key, future in futures.items()}


def required(doing: str, value: V | KafkaError) -> V:
    if isinstance(value, KafkaError):
        raise failure(doing, value)
    return value


# -- cluster -----------------------------------------------------------------------------------------------------


def metadata(admin: AdminClient, seconds: float = SECONDS) -> Any:
    """Brokers and every topic with its partitions (confluent_kafka.admin.ClusterMetadata)."""
    try:
        return admin.list_topics(timeout=seconds)
    except KafkaException as error:
        raise failure("cannot read the cluster's metadata", error.args[0]) from None


def describe_cluster(admin: AdminClient) -> Any:
    """Cluster id, controller and brokers (confluent_kafka.admin.DescribeClusterResult)."""
    return required("cannot describe the cluster", outcome(admin.describe_cluster(request_timeout=SECONDS)))


# -- topics ------------------------------------------------------------------------------------------------------


def topic_names(admin: AdminClient) -> list[str]:
    return sorted(metadata(admin).topics)


def unknown_topic(admin: AdminClient, name: str) -> CommandError:
    """With the name that was probably meant."""
    hint = nearest(name, topic_names(admin)) or "`moldau topic list` shows what there is"
    return CommandError(f"topic {name!r} does not exist", hint, NOT_FOUND)


def describe_topics(admin: AdminClient, names: Sequence[str]) -> dict[str, Any]:
    """TopicDescription by name; a topic that does not exist ends the command."""
    if not names:
        return {}
    try:
        asked = admin.describe_topics(TopicCollection(list(names)), request_timeout=SECONDS)
    except (KafkaException, ValueError) as error:
        raise CommandError(f"cannot describe {', '.join(names)!r}: {error}", exit_code=WRONG_USAGE) from None
    found = outcomes(asked)
    for name in names:
        problem = found[name]
        if isinstance(problem, KafkaError):
            if problem.name() == "UNKNOWN_TOPIC_OR_PART":
                raise unknown_topic(admin, name)
            raise failure(f"topic {name!r}", problem)
    return found


def partitions_of(admin: AdminClient, name: str) -> list[int]:
    return sorted(partition.id for partition in describe_topics(admin, [name])[name].partitions)


def create_topics(
    admin: AdminClient, topics: Sequence[NewTopic], validate_only: bool = False
) -> dict[str, KafkaError | None]:
    """The name decides about each: None where it was created."""
    found = admin.create_topics(
        list(topics), validate_only=validate_only, request_timeout=SECONDS, operation_timeout=SECONDS
    )
    return outcomes(found)


def delete_topics(admin: AdminClient, names: Sequence[str]) -> dict[str, KafkaError | None]:
    return outcomes(admin.delete_topics(list(names), request_timeout=SECONDS, operation_timeout=SECONDS))


def add_partitions(
    admin: AdminClient,
    name: str,
    total: int,
    replicas: Sequence[Sequence[int]] | None = None,
    validate_only: bool = False,
) -> KafkaError | None:
    wanted = (
        NewPartitions(name, total, replica_assignment=[list(each) for each in replicas])
        if replicas
        else NewPartitions(name, total)
    )
    asked = admin.create_partitions(
        [wanted], validate_only=validate_only, request_timeout=SECONDS, operation_timeout=SECONDS
    )
    return outcome(asked[name])


def offsets(
    admin: AdminClient, wanted: Mapping[Place, OffsetSpec], read_committed: bool = False
) -> dict[Place, Any | KafkaError]:
    """Offset and timestamp (ListOffsetsResultInfo) for each place; -1 where nothing is that late."""
    if not wanted:
        return {}
    level = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
    asked = {TopicPartition(place.topic, place.partition): spec for place, spec in wanted.items()}
    found = admin.list_offsets(asked, isolation_level=level, request_timeout=SECONDS)
    return {Place(key.topic, key.partition): value for key, value in outcomes(found).items()}


def log_ranges(admin: AdminClient, places: Iterable[Place]) -> dict[Place, tuple[int | None, int | None]]:
    """First and next offset of each partition; None where its leader does not answer."""
    wanted = list(places)
    first = offsets(admin, {place: OffsetSpec.earliest() for place in wanted})
    following = offsets(admin, {place: OffsetSpec.latest() for place in wanted})
    return {place: (_offset(first[place]), _offset(following[place])) for place in wanted}


def _offset(found: Any | KafkaError) -> int | None:
    return None if isinstance(found, KafkaError) else int(found.offset)


def delete_records(admin: AdminClient, before: Mapping[Place, int]) -> dict[Place, int | KafkaError]:
    """Delete what stands before each offset (-1: everything committed); answers with the new first offsets."""
    asked = [TopicPartition(place.topic, place.partition, offset) for place, offset in before.items()]
    if not asked:
        return {}
    found = outcomes(admin.delete_records(asked, request_timeout=SECONDS, operation_timeout=SECONDS))
    return {
        Place(key.topic, key.partition): done if isinstance(done, KafkaError) else int(done.low_watermark)
        for key, done in found.items()
    }


# -- configs -----------------------------------------------------------------------------------------------------


def configs(admin: AdminClient, kind: str, names: Sequence[str]) -> dict[str, dict[str, ConfigEntry] | KafkaError]:
    """The settings of topics, brokers or groups (`kind` as in confluent-kafka: topic, broker, group)."""
    found: dict[str, dict[str, ConfigEntry] | KafkaError] = {}
    asked: list[ConfigResource] = [ConfigResource(kind, name) for name in names]
    # librdkafka asks a broker about its own settings, so one call cannot carry two brokers.
    turns = [[resource] for resource in asked] if kind.lower() == "broker" else [asked]
    for turn in turns:
        if turn:
            answered = outcomes(admin.describe_configs(turn, request_timeout=SECONDS))
            found |= {resource.name: value for resource, value in answered.items()}
    return found


def source_of(entry: ConfigEntry) -> ConfigSource:
    """The client gives the bare number."""
    return ConfigSource(entry.source)


def alter_configs(
    admin: AdminClient,
    kind: str,
    name: str,
    changes: Sequence[tuple[AlterConfigOpType, str, str | None]],
    validate_only: bool = False,
) -> KafkaError | None:
    """Incremental changes: (SET, DELETE, APPEND or SUBTRACT; key; value)."""
    entries = [ConfigEntry(key, value, incremental_operation=operation) for operation, key, value in changes]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    asked = admin.incremental_alter_configs([resource], validate_only=validate_only, request_timeout=SECONDS)
    refused: Any = outcome(asked[resource])
    return refused if isinstance(refused, KafkaError) else None
