"""Records of consumer groups in `__consumer_offsets`, as Apache Kafka 4.3 writes them. All values are flexible, version
0; the framing is in `record_codec`.

    kind  3  GroupMetadata             key: group               value: int32 epoch, tag 0: int64 hash of the topics
    kind  4  PartitionMetadata         key: group               value: of releases before 4.1; only removed here
    kind  5  MemberMetadata            key: group, member       value: identity, subscription, time-out, assignor
    kind  6  TargetAssignmentMetadata  key: group               value: int32 epoch, tag 0: int64 time
    kind  7  TargetAssignmentMember    key: group, member       value: partitions by topic id
    kind  8  CurrentMemberAssignment   key: group, member       value: epochs, state, partitions held and revoked
    kind 16  RegularExpression         key: group, regex        value: topics, int64 version of the image, int64 time
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from moldau.coordinators.groups.records import LATEST, RecordKind
from moldau.wire.schema import NEVER, ZERO_UUID, Buffer, Field, Message, Struct


class ConsumerGroupKey(Message):
    """Of kinds 3, 4 and 6."""

    __slots__ = ("group_id",)
    API_KEY = RecordKind.CONSUMER_GROUP_METADATA
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = NEVER
    FIELDS = (Field("group_id", "string", 0, LATEST),)

    def __init__(self, *, group_id: str = "") -> None:
        self.group_id = group_id


class ConsumerGroupMemberKey(Message):
    """Of kinds 5, 7 and 8."""

    __slots__ = ("group_id", "member_id")
    API_KEY = RecordKind.CONSUMER_GROUP_MEMBER_METADATA
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = NEVER
    FIELDS = (Field("group_id", "string", 0, LATEST), Field("member_id", "string", 0, LATEST))

    def __init__(self, *, group_id: str = "", member_id: str = "") -> None:
        self.group_id = group_id
        self.member_id = member_id


class ConsumerGroupRegexKey(Message):
    __slots__ = ("group_id", "regular_expression")
    API_KEY = RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = NEVER
    FIELDS = (Field("group_id", "string", 0, LATEST), Field("regular_expression", "string", 0, LATEST))

    def __init__(self, *, group_id: str = "", regular_expression: str = "") -> None:
        self.group_id = group_id
        self.regular_expression = regular_expression


class ConsumerGroupMetadataValue(Message):
    __slots__ = ("epoch", "metadata_hash")
    API_KEY = RecordKind.CONSUMER_GROUP_METADATA
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("epoch", "int32", 0, LATEST),
        Field("metadata_hash", "int64", 0, LATEST, tag=0, tagged_from=0),
    )

    def __init__(self, *, epoch: int = 0, metadata_hash: int = 0) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash


class ClassicProtocol(Struct):
    __slots__ = ("metadata", "name")
    FIELDS = (Field("name", "string", 0, LATEST), Field("metadata", "bytes", 0, LATEST))

    def __init__(self, *, name: str = "", metadata: Buffer = b"") -> None:
        self.name = name
        self.metadata = metadata


class ClassicMemberMetadata(Struct):
    __slots__ = ("session_timeout_ms", "supported_protocols")
    FIELDS = (
        Field("session_timeout_ms", "int32", 0, LATEST),
        Field("supported_protocols", ClassicProtocol, 0, LATEST, array=True),
    )

    def __init__(self, *, session_timeout_ms: int = 0, supported_protocols: Sequence[ClassicProtocol] = ()) -> None:
        self.session_timeout_ms = session_timeout_ms
        self.supported_protocols = supported_protocols


class ConsumerGroupMemberMetadataValue(Message):
    __slots__ = (
        "classic_member_metadata", "client_host", "client_id", "instance_id", "rack_id", "rebalance_timeout_ms",
        "server_assignor", "subscribed_topic_names", "subscribed_topic_regex",
    )  # fmt: skip
    API_KEY = RecordKind.CONSUMER_GROUP_MEMBER_METADATA
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("instance_id", "string", 0, LATEST, nullable_from=0, nullable_to=LATEST),
        Field("rack_id", "string", 0, LATEST, nullable_from=0, nullable_to=LATEST),
        Field("client_id", "string", 0, LATEST),
        Field("client_host", "string", 0, LATEST),
        Field("subscribed_topic_names", "string", 0, LATEST, array=True),
        Field("subscribed_topic_regex", "string", 0, LATEST, nullable_from=0, nullable_to=LATEST),
        Field("rebalance_timeout_ms", "int32", 0, LATEST, default=-1),
        Field("server_assignor", "string", 0, LATEST, nullable_from=0, nullable_to=LATEST),
        Field(
            "classic_member_metadata", ClassicMemberMetadata, 0, LATEST,
            nullable_from=0, nullable_to=LATEST, tag=0, tagged_from=0,
            # Kafka takes an absent tag for an empty structure, so that null has to be written.
            default=ClassicMemberMetadata(),
        ),
    )  # fmt: skip

    def __init__(
        self,
        *,
        instance_id: str | None = None,
        rack_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        subscribed_topic_names: Sequence[str] = (),
        subscribed_topic_regex: str | None = None,
        rebalance_timeout_ms: int = -1,
        server_assignor: str | None = None,
        classic_member_metadata: ClassicMemberMetadata | None = None,
    ) -> None:
        self.instance_id = instance_id
        self.rack_id = rack_id
        self.client_id = client_id
        self.client_host = client_host
        self.subscribed_topic_names = subscribed_topic_names
        self.subscribed_topic_regex = subscribed_topic_regex
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.server_assignor = server_assignor
        self.classic_member_metadata = classic_member_metadata


class TargetAssignmentMetadataValue(Message):
    __slots__ = ("assignment_epoch", "assignment_timestamp")
    API_KEY = RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("assignment_epoch", "int32", 0, LATEST),
        Field("assignment_timestamp", "int64", 0, LATEST, tag=0, tagged_from=0),
    )

    def __init__(self, *, assignment_epoch: int = 0, assignment_timestamp: int = 0) -> None:
        self.assignment_epoch = assignment_epoch
        self.assignment_timestamp = assignment_timestamp


class TargetPartitions(Struct):
    __slots__ = ("partitions", "topic_id")
    FIELDS = (Field("topic_id", "uuid", 0, LATEST), Field("partitions", "int32", 0, LATEST, array=True))

    def __init__(self, *, topic_id: UUID = ZERO_UUID, partitions: Sequence[int] = ()) -> None:
        self.topic_id = topic_id
        self.partitions = partitions


class TargetAssignmentMemberValue(Message):
    __slots__ = ("topic_partitions",)
    API_KEY = RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = 0
    FIELDS = (Field("topic_partitions", TargetPartitions, 0, LATEST, array=True),)

    def __init__(self, *, topic_partitions: Sequence[TargetPartitions] = ()) -> None:
        self.topic_partitions = topic_partitions


class HeldPartitions(Struct):
    __slots__ = ("assignment_epochs", "partitions", "topic_id")
    FIELDS = (
        Field("topic_id", "uuid", 0, LATEST),
        Field("partitions", "int32", 0, LATEST, array=True),
        Field("assignment_epochs", "int32", 0, LATEST, array=True, tag=0, tagged_from=0),
    )

    def __init__(
        self,
        *,
        topic_id: UUID = ZERO_UUID,
        partitions: Sequence[int] = (),
        assignment_epochs: Collection[int] = (),
    ) -> None:
        self.topic_id = topic_id
        self.partitions = partitions
        self.assignment_epochs = assignment_epochs


class CurrentMemberAssignmentValue(Message):
    __slots__ = (
        "assigned_partitions",
        "member_epoch",
        "partitions_pending_revocation",
        "previous_member_epoch",
        "state",
    )
    API_KEY = RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("member_epoch", "int32", 0, LATEST),
        Field("previous_member_epoch", "int32", 0, LATEST),
        Field("state", "int8", 0, LATEST),
        Field("assigned_partitions", HeldPartitions, 0, LATEST, array=True),
        Field("partitions_pending_revocation", HeldPartitions, 0, LATEST, array=True),
    )

    def __init__(
        self,
        *,
        member_epoch: int = 0,
        previous_member_epoch: int = 0,
        state: int = 0,
        assigned_partitions: Sequence[HeldPartitions] = (),
        partitions_pending_revocation: Sequence[HeldPartitions] = (),
    ) -> None:
        self.member_epoch = member_epoch
        self.previous_member_epoch = previous_member_epoch
        self.state = state
        self.assigned_partitions = assigned_partitions
        self.partitions_pending_revocation = partitions_pending_revocation


class RegularExpressionValue(Message):
    __slots__ = ("timestamp", "topics", "version")
    API_KEY = RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = 0
    FIELDS = (
        Field("topics", "string", 0, LATEST, array=True),
        Field("version", "int64", 0, LATEST),
        Field("timestamp", "int64", 0, LATEST),
    )

    def __init__(self, *, topics: Sequence[str] = (), version: int = 0, timestamp: int = 0) -> None:
        self.topics = topics
        self.version = version
        self.timestamp = timestamp
