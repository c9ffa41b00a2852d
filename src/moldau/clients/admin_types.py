"""What administration asks with and is answered with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from moldau.clients.errors import ClientError, KafkaFailure
from moldau.clients.records import PartitionInfo, TopicPartition

ANY = "ANY"


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be created. None is the broker's default; `replicas` names the brokers of each partition instead."""

    name: str
    partitions: int | None = None
    replication_factor: int | None = None
    config: Mapping[str, object] = field(default_factory=dict)
    replicas: Sequence[Sequence[int]] = ()


class TopicInfo(NamedTuple):
    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionInfo, ...]


class ConfigEntry(NamedTuple):
    """A setting, its value (None where it is secret), and where that comes from."""

    name: str
    value: str | None
    source: str
    is_default: bool
    is_read_only: bool
    is_sensitive: bool


class GroupListing(NamedTuple):
    group: str
    state: str
    is_simple: bool
    """Only commits offsets, without members."""


class GroupMember(NamedTuple):
    member_id: str
    client_id: str
    host: str
    instance_id: str | None
    partitions: tuple[TopicPartition, ...]


class GroupInfo(NamedTuple):
    group: str
    state: str
    coordinator: int | None
    assignor: str
    members: tuple[GroupMember, ...]


class BrokerInfo(NamedTuple):
    broker: int
    host: str
    port: int
    rack: str | None


class ClusterInfo(NamedTuple):
    cluster_id: str
    controller: int | None
    brokers: tuple[BrokerInfo, ...]


class AclBinding(NamedTuple):
    """`principal` may (or, DENY, may not) do `operation` on a resource, from `host`."""

    resource_type: str
    """TOPIC, GROUP, BROKER (the cluster) or TRANSACTIONAL_ID."""
    name: str
    principal: str
    operation: str
    permission: str = "ALLOW"
    host: str = "*"
    pattern: str = "LITERAL"
    """LITERAL or PREFIXED."""

    def for_librdkafka(self) -> Any:
        import confluent_kafka.admin as calls

        return calls.AclBinding(*described(self))

    @classmethod
    def from_librdkafka(cls, found: Any) -> Self:
        return cls(
            found.restype.name,
            found.name,
            found.principal,
            found.operation.name,
            found.permission_type.name,
            found.host,
            found.resource_pattern_type.name,
        )


class AclFilter(NamedTuple):
    """Which ACLs are meant; what is left out matches all."""

    resource_type: str = ANY
    name: str | None = None
    principal: str | None = None
    operation: str = ANY
    permission: str = ANY
    host: str | None = None
    pattern: str = ANY

    def for_librdkafka(self) -> Any:
        import confluent_kafka.admin as calls

        return calls.AclBindingFilter(*described(self))


def described(acl: AclBinding | AclFilter) -> tuple[Any, ...]:
    import confluent_kafka.admin as calls

    return (
        calls.ResourceType[acl.resource_type],
        acl.name,
        calls.ResourcePatternType[acl.pattern],
        acl.principal,
        acl.host,
        calls.AclOperation[acl.operation],
        calls.AclPermissionType[acl.permission],
    )


class AdminFailed(ClientError):
    """Several things failed; `failures` says why, by name."""

    def __init__(self, failures: Mapping[str, KafkaFailure]) -> None:
        self.failures = dict(failures)
        super().__init__("\n".join(str(each) for each in failures.values()))
