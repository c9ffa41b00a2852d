"""Administration: topics, partitions, settings, groups, offsets, ACLs, credentials, the cluster.

Calls wait for the answer. One that concerns several things does all it can and then raises AdminFailed with what
failed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from moldau.client.librdkafka import make_client, uuid_of
from moldau.clients import properties
from moldau.clients.admin_types import (
    AclBinding,
    AclFilter,
    AdminFailed,
    BrokerInfo,
    ClusterInfo,
    ConfigEntry,
    GroupInfo,
    GroupListing,
    GroupMember,
    NewTopic,
    TopicInfo,
)
from moldau.clients.cluster_admin import ClusterAdmin
from moldau.clients.elections import elect_leaders
from moldau.clients.errors import KafkaFailure, failure
from moldau.clients.offsets import OffsetLookup
from moldau.clients.records import OffsetAndMetadata, OffsetAndTimestamp, PartitionInfo, TopicPartition
from moldau.types.uuid_text import encode_uuid

if TYPE_CHECKING:
    import confluent_kafka

T = TypeVar("T")


class Admin(ClusterAdmin):
    """Administers a Kafka cluster. `properties` have Java's names; keywords are the same with `_` for `.`."""

    def __init__(self, properties_: Mapping[str, object] | None = None, /, **more: object) -> None:
        from confluent_kafka.admin import AdminClient

        given = properties.merged(properties_, more)
        self._seconds = properties.seconds(given, "default.api.timeout.ms", 60_000)
        settings = properties.librdkafka(given, {})
        self._client: Any = make_client(AdminClient, settings, properties.texts(given))
        self._lookup = OffsetLookup(settings, self._seconds)
        self._properties = properties.texts(given)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """There is nothing to wait for; connections end with the object."""

    # -- topics --------------------------------------------------------------------------------------------------

    def create_topic(
        self,
        name: str,
        partitions: int | None = None,
        replication_factor: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Creates one topic; what is not given is the broker's default."""
        self.create_topics([NewTopic(name, partitions, replication_factor, config or {})])

    def create_topics(self, topics: Iterable[NewTopic], *, validate_only: bool = False) -> None:
        import confluent_kafka.admin as calls

        wanted = [
            calls.NewTopic(
                topic.name,
                config={name: properties.text(value) for name, value in topic.config.items()},
                **layout(topic),
            )
            for topic in topics
        ]
        if wanted:
            self._each(
                lambda: self._client.create_topics(
                    wanted, operation_timeout=self._seconds, request_timeout=self._seconds, validate_only=validate_only
                ),
                "topic not created",
            )

    def delete_topics(self, *names: str) -> None:
        if names:
            self._each(
                lambda: self._client.delete_topics(
                    list(names), operation_timeout=self._seconds, request_timeout=self._seconds
                ),
                "topic not deleted",
            )

    def list_topics(self, *, internal: bool = False) -> list[str]:
        """Names; Kafka's own topics (those that begin with two underscores) only if asked for."""
        found = self._call(lambda: self._client.list_topics(timeout=self._seconds), "cannot list the topics")
        return sorted(name for name in found.topics if internal or not name.startswith("__"))

    def describe_topics(self, *names: str) -> dict[str, TopicInfo]:
        """Partitions with leaders and replicas; without names, of all topics that are not Kafka's own."""
        import confluent_kafka

        wanted = list(names) or self.list_topics()
        if not wanted:
            return {}
        collection = confluent_kafka.TopicCollection(wanted)
        found = self._each(
            lambda: self._client.describe_topics(collection, request_timeout=self._seconds), "topic not described"
        )
        return {name: topic_info(each) for name, each in found.items()}

    def create_partitions(self, counts: Mapping[str, int]) -> None:
        """Raises the number of partitions of topics to these totals."""
        import confluent_kafka.admin as calls

        self._each(
            lambda: self._client.create_partitions(
                [calls.NewPartitions(name, count) for name, count in counts.items()],
                operation_timeout=self._seconds,
                request_timeout=self._seconds,
            ),
            "partitions not added",
        )

    def delete_records(self, before: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Deletes all records before these offsets; returns where the partitions begin now."""
        import confluent_kafka

        found = self._each(
            lambda: self._client.delete_records(
                [confluent_kafka.TopicPartition(*place, offset) for place, offset in before.items()],
                request_timeout=self._seconds,
            ),
            "records not deleted",
        )
        return {TopicPartition(place.topic, place.partition): each.low_watermark for place, each in found.items()}

    def beginning_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._lookup.beginnings(places)

    def end_offsets(self, places: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        return self._lookup.ends(places)

    def offsets_for_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        return self._lookup.at_times(times)

    def elect_leaders(self, places: Collection[TopicPartition] | None = None, *, unclean: bool = False) -> None:
        """Elects the preferred leaders (or, unclean, any replica) of these partitions, or of all."""
        elect_leaders(self._properties, places, unclean=unclean)

    # -- settings ------------------------------------------------------------------------------------------------

    def describe_topic_config(self, topic: str) -> dict[str, ConfigEntry]:
        return self._config("TOPIC", topic)

    def describe_broker_config(self, broker: int) -> dict[str, ConfigEntry]:
        return self._config("BROKER", str(broker))

    def alter_topic_config(self, topic: str, changes: Mapping[str, object]) -> None:
        """Sets these settings; None puts one back to its default. Others stay as they are."""
        self._alter("TOPIC", topic, changes)

    def alter_broker_config(self, broker: int | None, changes: Mapping[str, object]) -> None:
        """The same for a broker, or with None for all of them."""
        if broker is None:
            texts = {name: None if value is None else properties.text(value) for name, value in changes.items()}
            self._alter_all_brokers(texts)
        else:
            self._alter("BROKER", str(broker), changes)

    def _config(self, kind: str, name: str) -> dict[str, ConfigEntry]:
        import confluent_kafka.admin as calls

        resource = calls.ConfigResource(calls.ResourceType[kind], name)
        found = self._each(
            lambda: self._client.describe_configs([resource], request_timeout=self._seconds), "settings not described"
        )
        (entries,) = found.values()
        return {
            key: ConfigEntry(
                key,
                entry.value,
                calls.ConfigSource(entry.source).name,
                is_default=bool(entry.is_default),
                is_read_only=bool(entry.is_read_only),
                is_sensitive=bool(entry.is_sensitive),
            )
            for key, entry in entries.items()
        }

    def _alter(self, kind: str, name: str, changes: Mapping[str, object]) -> None:
        import confluent_kafka.admin as calls

        entries = [
            calls.ConfigEntry(
                key,
                None if value is None else properties.text(value),
                incremental_operation=calls.AlterConfigOpType.DELETE if value is None else calls.AlterConfigOpType.SET,
            )
            for key, value in changes.items()
        ]
        resource = calls.ConfigResource(calls.ResourceType[kind], name, incremental_configs=entries)
        self._each(
            lambda: self._client.incremental_alter_configs([resource], request_timeout=self._seconds),
            "settings not changed",
        )

    # -- groups --------------------------------------------------------------------------------------------------

    def list_consumer_groups(self) -> list[GroupListing]:
        found = self._call(
            lambda: self._client.list_consumer_groups(request_timeout=self._seconds).result(), "groups not listed"
        )
        if found.errors:
            raise failure(found.errors[0], "groups not listed")
        return sorted(
            GroupListing(each.group_id, each.state.name, each.is_simple_consumer_group) for each in found.valid
        )

    def describe_consumer_groups(self, *names: str) -> dict[str, GroupInfo]:
        """State, coordinator, and members with their partitions."""
        found = self._each(
            lambda: self._client.describe_consumer_groups(list(names), request_timeout=self._seconds),
            "group not described",
        )
        return {name: group_info(each) for name, each in found.items()}

    def delete_consumer_groups(self, *names: str) -> None:
        self._each(
            lambda: self._client.delete_consumer_groups(list(names), request_timeout=self._seconds), "group not deleted"
        )

    def list_consumer_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        """What a group has committed."""
        import confluent_kafka

        wanted = [confluent_kafka.ConsumerGroupTopicPartitions(group)]
        found = self._each(
            lambda: self._client.list_consumer_group_offsets(wanted, request_timeout=self._seconds),
            "offsets not listed",
        )
        (answer,) = found.values()
        return {
            TopicPartition(each.topic, each.partition): OffsetAndMetadata(each.offset, each.metadata or "")
            for each in answer.topic_partitions
            if each.offset >= 0
        }

    def alter_consumer_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | OffsetAndMetadata]
    ) -> None:
        """Sets what a group without members has committed."""
        import confluent_kafka

        wanted = []
        for place, given in offsets.items():
            offset, note = given if isinstance(given, OffsetAndMetadata) else (given, "")
            wanted.append(confluent_kafka.TopicPartition(*place, offset, note))
        request = [confluent_kafka.ConsumerGroupTopicPartitions(group, wanted)]
        found = self._each(
            lambda: self._client.alter_consumer_group_offsets(request, request_timeout=self._seconds),
            "offsets not changed",
        )
        (answer,) = found.values()
        failed = {
            f"{each.topic}-{each.partition}": failure(
                each.error, f"offset of group {group} not changed", topic=each.topic, partition=each.partition
            )
            for each in answer.topic_partitions
            if each.error is not None
        }
        if failed:
            raise AdminFailed(failed)

    # -- security ------------------------------------------------------------------------------------------------

    def create_acls(self, *bindings: AclBinding) -> None:
        self._each(
            lambda: self._client.create_acls(
                [binding.for_librdkafka() for binding in bindings], request_timeout=self._seconds
            ),
            "ACL not created",
        )

    def describe_acls(self, wanted: AclFilter | None = None) -> list[AclBinding]:
        """Those that match, or all."""
        asked = (wanted or AclFilter()).for_librdkafka()
        found = self._call(
            lambda: self._client.describe_acls(asked, request_timeout=self._seconds).result(), "ACLs not listed"
        )
        return sorted(AclBinding.from_librdkafka(each) for each in found)

    def delete_acls(self, *wanted: AclFilter) -> list[AclBinding]:
        """Deletes those that match, and returns them."""
        found = self._each(
            lambda: self._client.delete_acls([each.for_librdkafka() for each in wanted], request_timeout=self._seconds),
            "ACLs not deleted",
        )
        return sorted(AclBinding.from_librdkafka(each) for deleted in found.values() for each in deleted)

    def set_password(self, user: str, password: str, mechanism: str = "SCRAM-SHA-512", iterations: int = 8192) -> None:
        """Gives a user a SCRAM credential, or another one."""
        import confluent_kafka.admin as calls

        kind = calls.ScramMechanism[mechanism.replace("-", "_")]
        change = calls.UserScramCredentialUpsertion(
            user, calls.ScramCredentialInfo(kind, iterations), password.encode()
        )
        self._each(lambda: self._client.alter_user_scram_credentials([change]), "credential not changed")

    def delete_password(self, user: str, mechanism: str = "SCRAM-SHA-512") -> None:
        import confluent_kafka.admin as calls

        change = calls.UserScramCredentialDeletion(user, calls.ScramMechanism[mechanism.replace("-", "_")])
        self._each(lambda: self._client.alter_user_scram_credentials([change]), "credential not deleted")

    def list_passwords(self, *users: str) -> dict[str, list[str]]:
        """Users with the SCRAM mechanisms they have credentials for; without names, all."""
        if users:
            found = self._each(
                lambda: self._client.describe_user_scram_credentials(list(users)), "credentials not listed"
            )
        else:
            found = self._call(
                lambda: self._client.describe_user_scram_credentials().result(), "credentials not listed"
            )
        return {
            user: [info.mechanism.name.replace("_", "-") for info in each.scram_credential_infos]
            for user, each in found.items()
        }

    # -- the cluster ---------------------------------------------------------------------------------------------

    def describe_cluster(self) -> ClusterInfo:
        found = self._call(
            lambda: self._client.describe_cluster(request_timeout=self._seconds).result(), "cluster not described"
        )
        brokers = tuple(BrokerInfo(node.id, node.host, node.port, node.rack) for node in found.nodes)
        return ClusterInfo(found.cluster_id, found.controller.id if found.controller else None, brokers)

    # -- asking --------------------------------------------------------------------------------------------------

    def _call(self, action: Callable[[], T], what: str) -> T:
        import confluent_kafka

        try:
            return action()
        except confluent_kafka.KafkaException as error:
            raise failure(error, what) from None

    def _each(self, action: Callable[[], Mapping[Any, Any]], what: str) -> dict[Any, Any]:
        """Waits for the answer about each thing; those that failed are raised together."""
        import confluent_kafka

        found: dict[Any, Any] = {}
        failed: dict[str, KafkaFailure] = {}
        for name, future in self._call(action, what).items():
            try:
                found[name] = future.result()
            except confluent_kafka.KafkaException as error:
                shown = shown_name(name)
                failed[shown] = failure(error, f"{what}: {shown}")
        if failed:
            raise next(iter(failed.values())) if len(failed) == 1 else AdminFailed(failed)
        return found


def layout(topic: NewTopic) -> dict[str, Any]:
    """Partitions and replicas: named one by one, counted, or left to the broker."""
    if topic.replicas:
        return {"num_partitions": len(topic.replicas), "replica_assignment": [list(each) for each in topic.replicas]}
    return {
        "num_partitions": -1 if topic.partitions is None else topic.partitions,
        "replication_factor": -1 if topic.replication_factor is None else topic.replication_factor,
    }


def shown_name(name: object) -> str:
    for field in ("topic", "name"):
        found = getattr(name, field, None)
        if isinstance(found, str):
            return found
    return str(name)


def topic_info(described: confluent_kafka.admin.TopicDescription) -> TopicInfo:
    partitions = tuple(
        PartitionInfo(
            described.name,
            each.id,
            each.leader.id if each.leader is not None else None,
            tuple(node.id for node in each.replicas),
            tuple(node.id for node in each.isr),
        )
        for each in described.partitions
    )
    return TopicInfo(described.name, encode_uuid(uuid_of(described.topic_id)), bool(described.is_internal), partitions)


def group_info(described: Any) -> GroupInfo:
    members = tuple(
        GroupMember(
            each.member_id,
            each.client_id,
            each.host,
            each.group_instance_id,
            tuple(sorted(TopicPartition(place.topic, place.partition) for place in each.assignment.topic_partitions)),
        )
        for each in described.members
    )
    coordinator = described.coordinator.id if described.coordinator is not None else None
    return GroupInfo(described.group_id, described.state.name, coordinator, described.partition_assignor, members)
