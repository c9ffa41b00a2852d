"""Short forms of confluent-kafka's admin calls, which answer with futures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.support.waiting import wait_until

SECONDS = 30.0
T = TypeVar("T")


def admin_client(address: str) -> AdminClient:
    """An admin client that does not print each connection a restarting broker refuses, and outlives the restart.

    When librdkafka 2.16 bootstraps again, its cache of coordinators keeps the broker it has just thrown away (its issue
    5511): every question to a coordinator then waits for ever, however long the broker has been back.
    """
    return AdminClient({"bootstrap.servers": address, "log_level": 0, "metadata.recovery.strategy": "none"})


def create_topic(
    admin: AdminClient,
    name: str,
    partitions: int = 1,
    configs: Mapping[str, object] | None = None,
    replication: int = 1,
    validate_only: bool = False,
) -> None:
    texts = {key: str(value) for key, value in (configs or {}).items()}
    new = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=texts)
    admin.create_topics([new], validate_only=validate_only)[name].result(SECONDS)
    if not validate_only:
        # The answer may come before every broker's metadata shows the topic.
        wait_until(lambda: len(partitions_of(admin, name)) == partitions, f"{name} is in the metadata")


def delete_topic(admin: AdminClient, name: str) -> None:
    admin.delete_topics([name])[name].result(SECONDS)
    wait_until(lambda: name not in topic_names(admin), f"{name} is gone from the metadata")


def add_partitions(admin: AdminClient, name: str, total: int) -> None:
    admin.create_partitions([NewPartitions(name, total)])[name].result(SECONDS)


def topic_names(admin: AdminClient) -> set[str]:
    return set(admin.list_topics(timeout=SECONDS).topics)


def partitions_of(admin: AdminClient, name: str) -> set[int]:
    """Without asking for the topic by name, since that would create it."""
    found = admin.list_topics(timeout=SECONDS).topics.get(name)
    return set() if found is None else set(found.partitions)


def broker_id(admin: AdminClient) -> int:
    (only,) = admin.list_topics(timeout=SECONDS).brokers
    return int(only)


def configs_of(admin: AdminClient, kind: str, name: str) -> dict[str, ConfigEntry]:
    resource = ConfigResource(kind, name)
    found: dict[str, ConfigEntry] = admin.describe_configs([resource])[resource].result(SECONDS)
    return found


def change_config(
    admin: AdminClient, kind: str, name: str, key: str, value: str | None, operation: str = "SET"
) -> None:
    """One incremental change; `operation` is SET, DELETE, APPEND or SUBTRACT."""
    entry = ConfigEntry(key, value, incremental_operation=AlterConfigOpType[operation])
    resource = ConfigResource(kind, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)


def list_offset(admin: AdminClient, topic: str, spec: OffsetSpec, partition: int = 0) -> tuple[int, int]:
    """Offset and timestamp as ListOffsets answers them."""
    place = TopicPartition(topic, partition)
    found = admin.list_offsets({place: spec})[place].result(SECONDS)
    return found.offset, found.timestamp


def log_range(admin: AdminClient, topic: str, partition: int = 0) -> tuple[int, int]:
    """First and next offset of a partition."""
    return (
        list_offset(admin, topic, OffsetSpec.earliest(), partition)[0],
        list_offset(admin, topic, OffsetSpec.latest(), partition)[0],
    )


def settled_log_range(admin: AdminClient, topic: str, partition: int = 0) -> tuple[int, int]:
    """The same right after a start, when metadata may name a leader epoch that its leader has not taken up yet."""

    def look() -> tuple[int, int] | None:
        try:
            return log_range(admin, topic, partition)
        except KafkaException as error:
            if error.args[0].retriable() or error.args[0].name() == "UNKNOWN_LEADER_EPOCH":
                return None
            raise

    return wait_until(look, f"{topic}-{partition} has a leader that answers", seconds=120.0)


def delete_records(admin: AdminClient, topic: str, before: int, partition: int = 0) -> int:
    place = TopicPartition(topic, partition, before)
    done = admin.delete_records([place])[TopicPartition(topic, partition)].result(SECONDS)
    return int(done.low_watermark)


def error_code(call: Callable[[], object]) -> str:
    """The Kafka error that the call ends with, by name; 'NO_ERROR' when it succeeds."""
    try:
        call()
    except KafkaException as error:
        kafka_error = error.args[0]
        assert isinstance(kafka_error, KafkaError)
        return str(kafka_error.name())
    return "NO_ERROR"


def error_text(call: Callable[[], object]) -> str:
    """The message that comes with the call's error."""
    try:
        call()
    except KafkaException as error:
        return str(error.args[0].str())
    return ""
