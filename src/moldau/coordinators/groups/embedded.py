"""What classic consumers tell each other through the coordinator, inside of JoinGroup and SyncGroup.

    subscription  int16 version, array of string topics, nullable bytes user data; from version 1 what it owns: array of
                  (string topic, array of int32 partitions); from 2 int32 generation; from 3 nullable string rack
    assignment    int16 version, array of (string topic, array of int32 partitions), nullable bytes user data

A later version may add fields at the end; what is known of it is read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from struct import Struct as Packer
from struct import error as StructError
from typing import NamedTuple

from moldau.wire.codec import DecodeError, decode, encode
from moldau.wire.schema import NEVER, Buffer, Field, Message, Struct

LATEST = 3
_VERSION = Packer(">h")


class NamedPartitions(Struct):
    __slots__ = ("partitions", "topic")
    FIELDS = (Field("topic", "string", 0, LATEST), Field("partitions", "int32", 0, LATEST, array=True))

    def __init__(self, *, topic: str = "", partitions: Sequence[int] = ()) -> None:
        self.topic = topic
        self.partitions = partitions


class SubscriptionData(Message):
    __slots__ = ("generation_id", "owned_partitions", "rack_id", "topics", "user_data")
    API_KEY = -1
    FIRST_VERSION, LAST_VERSION = 0, LATEST
    FLEXIBLE_FROM = NEVER
    FIELDS = (
        Field("topics", "string", 0, LATEST, array=True),
        Field("user_data", "bytes", 0, LATEST, nullable_from=0, nullable_to=LATEST),
        Field("owned_partitions", NamedPartitions, 1, LATEST, array=True),
        Field("generation_id", "int32", 2, LATEST, default=-1),
        Field("rack_id", "string", 3, LATEST, nullable_from=3, nullable_to=LATEST),
    )

    def __init__(
        self,
        *,
        topics: Sequence[str] = (),
        user_data: Buffer | None = None,
        owned_partitions: Sequence[NamedPartitions] = (),
        generation_id: int = -1,
        rack_id: str | None = None,
    ) -> None:
        self.topics = topics
        self.user_data = user_data
        self.owned_partitions = owned_partitions
        self.generation_id = generation_id
        self.rack_id = rack_id


class AssignmentData(Message):
    __slots__ = ("assigned_partitions", "user_data")
    API_KEY = -1
    FIRST_VERSION, LAST_VERSION = 0, LATEST
    FLEXIBLE_FROM = NEVER
    FIELDS = (
        Field("assigned_partitions", NamedPartitions, 0, LATEST, array=True),
        Field("user_data", "bytes", 0, LATEST, nullable_from=0, nullable_to=LATEST),
    )

    def __init__(self, *, assigned_partitions: Sequence[NamedPartitions] = (), user_data: Buffer | None = None) -> None:
        self.assigned_partitions = assigned_partitions
        self.user_data = user_data


class Subscription(NamedTuple):
    version: int
    topics: frozenset[str]
    owned: Mapping[str, Collection[int]]


def read_subscription(raw: bytes) -> Subscription | None:
    """None if it cannot be read."""
    try:
        version = _version_of(raw)
        data, _ = decode(SubscriptionData, min(version, LATEST), raw, _VERSION.size)
    except (DecodeError, StructError, IndexError):
        return None
    return Subscription(version, frozenset(data.topics), _by_topic(data.owned_partitions))


def read_assignment(raw: bytes) -> Mapping[str, Collection[int]]:
    """Empty if there is none, or if it cannot be read."""
    try:
        data, _ = decode(AssignmentData, min(_version_of(raw), LATEST), raw, _VERSION.size)
    except (DecodeError, StructError, IndexError):
        return {}
    return _by_topic(data.assigned_partitions)


def write_assignment(version: int, partitions: Mapping[str, Collection[int]]) -> bytes:
    data = AssignmentData(
        assigned_partitions=[
            NamedPartitions(topic=topic, partitions=sorted(indexes)) for topic, indexes in partitions.items()
        ]
    )
    return _VERSION.pack(version) + bytes(encode(data, min(version, LATEST)))


def _version_of(raw: bytes) -> int:
    (version,) = _VERSION.unpack_from(raw)
    if version < 0:
        raise DecodeError(f"version {version}")
    return int(version)


def _by_topic(partitions: Sequence[NamedPartitions]) -> dict[str, Collection[int]]:
    return {each.topic: each.partitions for each in partitions}
