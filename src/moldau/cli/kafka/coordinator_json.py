"""Records of `__consumer_offsets` and `__transaction_state` as JSON, with the names Kafka's own converters use."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from struct import error as StructError
from struct import unpack_from
from typing import Any, Final
from uuid import UUID

from moldau.coordinators.groups import consumer_records as consumer
from moldau.coordinators.groups import records as classic
from moldau.coordinators.groups.embedded import AssignmentData, SubscriptionData
from moldau.coordinators.groups.records import RecordKind
from moldau.coordinators.record_codec import decode_key, kind_of
from moldau.coordinators.transactions.records import TransactionKey, TransactionValue
from moldau.types.uuid_text import encode_uuid
from moldau.wire.codec import DecodeError, decode
from moldau.wire.schema import Field, Message, Struct

GROUP_RECORDS: Final[dict[int, tuple[type[Message], type[Message]]]] = {
    RecordKind.LEGACY_OFFSET_COMMIT: (classic.OffsetCommitKey, classic.OffsetCommitValue),
    RecordKind.OFFSET_COMMIT: (classic.OffsetCommitKey, classic.OffsetCommitValue),
    RecordKind.GROUP_METADATA: (classic.GroupMetadataKey, classic.GroupMetadataValue),
    RecordKind.CONSUMER_GROUP_METADATA: (consumer.ConsumerGroupKey, consumer.ConsumerGroupMetadataValue),
    RecordKind.CONSUMER_GROUP_MEMBER_METADATA: (
        consumer.ConsumerGroupMemberKey,
        consumer.ConsumerGroupMemberMetadataValue,
    ),
    RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (
        consumer.ConsumerGroupKey,
        consumer.TargetAssignmentMetadataValue,
    ),
    RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: (
        consumer.ConsumerGroupMemberKey,
        consumer.TargetAssignmentMemberValue,
    ),
    RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: (
        consumer.ConsumerGroupMemberKey,
        consumer.CurrentMemberAssignmentValue,
    ),
    RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION: (consumer.ConsumerGroupRegexKey, consumer.RegularExpressionValue),
}
TRANSACTION_RECORDS: Final[dict[int, tuple[type[Message], type[Message]]]] = {0: (TransactionKey, TransactionValue)}
CONSUMER_PROTOCOL: Final = "consumer"


def group_record_json(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    """The record, or nothing if its kind is not known. Raises ValueError for what cannot be read."""
    return _record_json(GROUP_RECORDS, key, value)


def transaction_record_json(key: bytes, value: bytes | None) -> dict[str, Any] | None:
    return _record_json(TRANSACTION_RECORDS, key, value)


def with_readable_members(found: dict[str, Any]) -> dict[str, Any]:
    """Subscriptions and assignments of classic consumers taken apart, where they can be read."""
    data = found["value"] and found["value"]["data"]
    if found["key"]["type"] == RecordKind.GROUP_METADATA and data and data["protocolType"] == CONSUMER_PROTOCOL:
        for member in data["members"]:
            for name, kind in (("subscription", SubscriptionData), ("assignment", AssignmentData)):
                member[name] = _embedded(kind, member[name])
    return found


def _embedded(kind: type[Message], encoded: str) -> Any:
    raw = base64.b64decode(encoded)
    try:
        (version,) = unpack_from(">h", raw)
        read = min(version, kind.LAST_VERSION)
        return to_json(decode(kind, read, raw, 2)[0], read)
    except (DecodeError, StructError, IndexError):
        return encoded


def _record_json(
    kinds: dict[int, tuple[type[Message], type[Message]]], key: bytes, value: bytes | None
) -> dict[str, Any] | None:
    try:
        kind = kind_of(key)
        if kind not in kinds:
            return None
        key_class, value_class = kinds[kind]
        found: dict[str, Any] = {"key": {"type": kind, "data": to_json(decode_key(key_class, key), 0)}, "value": None}
        if value is not None:
            (version,) = unpack_from(">h", value)
            message, _ = decode(value_class, version, value, 2)
            found["value"] = {"version": version, "data": to_json(message, version)}
    except (DecodeError, StructError, IndexError) as error:
        raise ValueError(str(error)) from None
    return found


def to_json(message: Struct, version: int) -> dict[str, Any]:
    """A message's fields at a version; tagged fields only where they are not the default."""
    found = {}
    for field in message.FIELDS:
        content = getattr(message, field.name)
        if not field.exists(version) or (field.tagged(version) and is_default(field, content)):
            continue
        found[camel_case(field.name)] = field_json(field, content, version)
    return found


def is_default(field: Field, content: object) -> bool:
    if field.default is not None:
        return content == field.default
    if isinstance(content, UUID):
        return content.int == 0
    return content is None or content == 0 or (isinstance(content, Sequence) and not content)


def field_json(field: Field, content: Any, version: int) -> Any:
    if content is None:
        return None
    if field.array:
        return [item_json(each, version) for each in content]
    return item_json(content, version)


def item_json(content: Any, version: int) -> Any:
    if isinstance(content, Struct):
        return to_json(content, version)
    if isinstance(content, UUID):
        return encode_uuid(content)
    if isinstance(content, bytes | bytearray | memoryview):
        return base64.b64encode(content).decode()
    return content


def camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)
