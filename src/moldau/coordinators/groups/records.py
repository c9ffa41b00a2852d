"""Records of `__consumer_offsets`.

    key    int16 kind, then the fields of that kind's key (never flexible)
    value  int16 version, then the fields of the value at that version; null is a tombstone

    kind 0, 1  OffsetCommit   key: string group, string topic, int32 partition            value versions 0 to 4
    kind 2     GroupMetadata  key: string group                                           value versions 0 to 4

The kinds of consumer groups (3 to 8, 16) are in `consumer_records`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from uuid import UUID

from moldau.wire.schema import NEVER, ZERO_UUID, Buffer, Field, Message, Struct

LATEST = 32767


class RecordKind(IntEnum):
    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    CONSUMER_GROUP_MEMBER_METADATA = 5
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


class OffsetCommitKey(Message):
    __slots__ = ("group", "partition", "topic")
    API_KEY = RecordKind.OFFSET_COMMIT
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = NEVER
    FIELDS = (
        Field("group", "string", 0, LATEST),
        Field("topic", "string", 0, LATEST),
        Field("partition", "int32", 0, LATEST),
    )

    def __init__(self, *, group: str = "", topic: str = "", partition: int = 0) -> None:
        self.group = group
        self.topic = topic
        self.partition = partition


class OffsetCommitValue(Message):
    __slots__ = ("commit_timestamp", "expire_timestamp", "leader_epoch", "metadata", "offset", "topic_id")
    API_KEY = RecordKind.OFFSET_COMMIT
    FIRST_VERSION, LAST_VERSION = 0, 4
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("offset", "int64", 0, LATEST),
        Field("leader_epoch", "int32", 3, LATEST, default=-1),
        Field("metadata", "string", 0, LATEST),
        Field("commit_timestamp", "int64", 0, LATEST),
        Field("expire_timestamp", "int64", 1, 1, default=-1),
        Field("topic_id", "uuid", 4, LATEST, tag=0, tagged_from=4),
    )

    def __init__(
        self,
        *,
        offset: int = 0,
        leader_epoch: int = -1,
        metadata: str = "",
        commit_timestamp: int = 0,
        expire_timestamp: int = -1,
        topic_id: UUID = ZERO_UUID,
    ) -> None:
        self.offset = offset
        self.leader_epoch = leader_epoch
        self.metadata = metadata
        self.commit_timestamp = commit_timestamp
        self.expire_timestamp = expire_timestamp
        self.topic_id = topic_id


class GroupMetadataKey(Message):
    __slots__ = ("group",)
    API_KEY = RecordKind.GROUP_METADATA
    FIRST_VERSION = LAST_VERSION = 0
    FLEXIBLE_FROM = NEVER
    FIELDS = (Field("group", "string", 0, LATEST),)

    def __init__(self, *, group: str = "") -> None:
        self.group = group


class MemberMetadata(Struct):
    __slots__ = (
        "assignment", "client_host", "client_id", "group_instance_id", "member_id", "rebalance_timeout",
        "session_timeout", "subscription",
    )  # fmt: skip
    FIELDS = (
        Field("member_id", "string", 0, LATEST),
        Field("group_instance_id", "string", 3, LATEST, nullable_from=3, nullable_to=LATEST, default=None),
        Field("client_id", "string", 0, LATEST),
        Field("client_host", "string", 0, LATEST),
        Field("rebalance_timeout", "int32", 1, LATEST, default=-1),
        Field("session_timeout", "int32", 0, LATEST),
        Field("subscription", "bytes", 0, LATEST),
        Field("assignment", "bytes", 0, LATEST),
    )

    def __init__(
        self,
        *,
        member_id: str = "",
        group_instance_id: str | None = None,
        client_id: str = "",
        client_host: str = "",
        rebalance_timeout: int = -1,
        session_timeout: int = 0,
        subscription: Buffer = b"",
        assignment: Buffer = b"",
    ) -> None:
        self.member_id = member_id
        self.group_instance_id = group_instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.rebalance_timeout = rebalance_timeout
        self.session_timeout = session_timeout
        self.subscription = subscription
        self.assignment = assignment


class GroupMetadataValue(Message):
    __slots__ = ("current_state_timestamp", "generation", "leader", "members", "protocol", "protocol_type")
    API_KEY = RecordKind.GROUP_METADATA
    FIRST_VERSION, LAST_VERSION = 0, 4
    FLEXIBLE_FROM = 4
    FIELDS = (
        Field("protocol_type", "string", 0, LATEST),
        Field("generation", "int32", 0, LATEST),
        Field("protocol", "string", 0, LATEST, nullable_from=0, nullable_to=LATEST),
        Field("leader", "string", 0, LATEST, nullable_from=0, nullable_to=LATEST),
        Field("current_state_timestamp", "int64", 2, LATEST, default=-1),
        Field("members", MemberMetadata, 0, LATEST, array=True),
    )

    def __init__(
        self,
        *,
        protocol_type: str = "",
        generation: int = 0,
        protocol: str | None = None,
        leader: str | None = None,
        current_state_timestamp: int = -1,
        members: Sequence[MemberMetadata] = (),
    ) -> None:
        self.protocol_type = protocol_type
        self.generation = generation
        self.protocol = protocol
        self.leader = leader
        self.current_state_timestamp = current_state_timestamp
        self.members = members
