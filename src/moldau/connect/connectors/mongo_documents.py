"""Records as MongoDB's documents: ids, types of BSON, sub-documents in collections of their own."""

from __future__ import annotations

import datetime as dt
import hashlib
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from moldau.connect.connectors.documents import place_of
from moldau.connect.interface import RecordRefused, SinkRecord

BY_PLACE: Final = ("KafkaMetaDataStrategy", "BsonOidStrategy", "UuidStrategy")
BY_KEY: Final = ("FullKeyStrategy", "PartialKeyStrategy", "ProvidedInKeyStrategy")
BY_VALUE: Final = ("PartialValueStrategy", "ProvidedInValueStrategy")
ID: Final = "_id"
MOST_BYTES: Final = 16 * 1024 * 1024
KEEPING: Final = ("allowlist", "whitelist")
DROPPING: Final = ("blocklist", "blacklist")

IdOf = Callable[[SinkRecord, Mapping[str, Any]], Any]
"""Gets the record and its document."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A field whose sub-documents lie in a collection of their own."""

    field: str
    collection: str
    id_field: str


@dataclass(frozen=True, slots=True)
class Referred:
    collection: str
    id: Any
    document: dict[str, Any]


def simple_name(java: str) -> str:
    return java.rsplit(".", 1)[-1]


def not_known(config: Mapping[str, Any], without_effect: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Settings that are not followed here, but for values that change nothing."""
    for name, values in without_effect.items():
        if str(config.get(name) or "") not in values:
            yield name, f"{name}={config[name]} is not known here"


def references_of(texts: Sequence[str]) -> list[Reference]:
    found = []
    for text in texts:
        parts = [part.strip() for part in text.split(":")]
        if len(parts) != 3 or not all(parts):
            raise ValueError(f"references: {text} is no field:collection:id")
        found.append(Reference(*parts))
    return found


# -- ids -------------------------------------------------------------------------------------------------------------


def id_strategy(config: Mapping[str, Any]) -> IdOf:
    """Raises ValueError for one that is not known."""
    name = simple_name(config["document.id.strategy"])
    match name:
        case "KafkaMetaDataStrategy":
            return lambda record, _: f"{record.source.topic}#{record.partition}#{record.order}"
        case "BsonOidStrategy":
            return lambda record, _: object_id(record)
        case "UuidStrategy":
            as_text = config["document.id.strategy.uuid.format"].lower() == "string"
            return lambda record, _: str(uuid_of(record)) if as_text else uuid_of(record)
        case "FullKeyStrategy":
            return lambda record, _: key_of(record)
        case "ProvidedInKeyStrategy":
            return lambda record, _: provided(record, key_of(record), "key")
        case "ProvidedInValueStrategy":
            return lambda record, document: provided(record, document, "value")
        case "PartialKeyStrategy":
            pick = projection(config, "key")
            return lambda record, _: pick(record, key_of(record))
        case "PartialValueStrategy":
            return projection(config, "value")
    known = ", ".join((*BY_PLACE, *BY_KEY, *BY_VALUE))
    raise ValueError(f"document.id.strategy: {name} is not known here; known are {known}")


def digest_of(record: SinkRecord) -> bytes:
    place = f"{record.source.topic}#{record.partition}#{record.order}"
    return hashlib.sha256(place.encode()).digest()


def object_id(record: SinkRecord) -> Any:
    """With the record's time in its first four bytes, as ids of MongoDB's own have theirs."""
    from bson import ObjectId

    seconds = max(record.timestamp_ms or 0, 0) // 1000 & 0xFFFFFFFF
    return ObjectId(seconds.to_bytes(4, "big") + digest_of(record)[:8])


def uuid_of(record: SinkRecord) -> uuid.UUID:
    return uuid.UUID(bytes=digest_of(record)[:16], version=4)


def key_of(record: SinkRecord) -> Any:
    """A struct, text that is a JSON object, or any other value as it is."""
    if record.key is None:
        raise RecordRefused(f"{place_of(record)}: the key is null, and is to be the document's _id")
    if isinstance(record.key, str) and record.key.lstrip().startswith("{"):
        return parsed(record, record.key, "key")
    return bson_of(record, record.key)


def provided(record: SinkRecord, holder: Any, what: str) -> Any:
    if not isinstance(holder, Mapping) or holder.get(ID) is None:
        raise RecordRefused(f"{place_of(record)}: the {what} has no _id")
    return holder[ID]


def projection(config: Mapping[str, Any], what: str) -> Callable[[SinkRecord, Any], Any]:
    prefix = f"document.id.strategy.partial.{what}.projection."
    kind, names = config[f"{prefix}type"].lower(), list(config[f"{prefix}list"])
    if kind not in (*KEEPING, *DROPPING) or not names:
        raise ValueError(f"{prefix}type has to be allowlist or blocklist, and {prefix}list to name fields")
    if any("." in name for name in names):
        raise ValueError(f"{prefix}list: only fields of the {what} itself can be named, none of its sub-documents")

    def pick(record: SinkRecord, holder: Any) -> Any:
        if not isinstance(holder, Mapping):
            raise RecordRefused(f"{place_of(record)}: the {what} is no struct, of which fields could be the _id")
        found = {name: value for name, value in holder.items() if (name in names) == (kind in KEEPING)}
        if not found or any(found.get(name) is None for name in names if kind in KEEPING):
            raise RecordRefused(f"{place_of(record)}: the {what} lacks fields of the _id, {', '.join(names)}")
        return found

    return pick


# -- values ----------------------------------------------------------------------------------------------------------


def document_of(record: SinkRecord) -> dict[str, Any]:
    if isinstance(record.value, str | bytes):
        return parsed(record, record.value, "value")
    if not isinstance(record.value, dict):
        kind = type(record.value).__name__
        raise RecordRefused(f"{place_of(record)}: the value is no document but {kind}")
    found: dict[str, Any] = bson_of(record, record.value)
    return found


def parsed(record: SinkRecord, text: str | bytes, what: str) -> dict[str, Any]:
    """MongoDB's extended JSON, in which numbers, times and ids can say their types."""
    from bson.errors import BSONError
    from bson.json_util import loads

    try:
        found = loads(text)
    except (ValueError, TypeError, BSONError) as error:
        raise RecordRefused(f"{place_of(record)}: the {what} is no document: {error}") from None
    if not isinstance(found, dict):
        raise RecordRefused(f"{place_of(record)}: the {what} is no JSON object")
    return found


def bson_of(record: SinkRecord, value: Any) -> Any:
    match value:
        case dict():
            return {name: bson_of(record, each) for name, each in value.items()}
        case list() | tuple():
            return [bson_of(record, each) for each in value]
        case dt.datetime():
            return value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        case dt.date():
            return dt.datetime(value.year, value.month, value.day, tzinfo=dt.UTC)
        case dt.time():
            return value.isoformat()
        case Decimal():
            from decimal import DecimalException

            from bson.decimal128 import Decimal128

            try:
                return Decimal128(value)
            except DecimalException:
                raise RecordRefused(f"{place_of(record)}: {value} has more than 34 digits") from None
    return value


def encoded(record: SinkRecord, document: Mapping[str, Any]) -> Any:
    """Bytes that are sent as they are; raises RecordRefused for what BSON cannot hold."""
    import bson
    from bson.codec_options import CodecOptions
    from bson.errors import BSONError
    from bson.raw_bson import RawBSONDocument

    options: CodecOptions[Any] = CodecOptions(uuid_representation=bson.binary.STANDARD)
    try:
        content = bson.encode(document, codec_options=options)
    except (BSONError, OverflowError, ValueError, TypeError) as error:
        raise RecordRefused(f"{place_of(record)}: {error}") from None
    if len(content) > MOST_BYTES:
        raise RecordRefused(f"{place_of(record)}: a document of {len(content)} bytes; {MOST_BYTES} are the most")
    return RawBSONDocument(content)


# -- layouts ---------------------------------------------------------------------------------------------------------


def referred(
    record: SinkRecord, document: dict[str, Any], references: Sequence[Reference]
) -> tuple[dict[str, Any], list[Referred]]:
    """The document with ids in the places of sub-documents, and these."""
    found: list[Referred] = []
    document = dict(document)
    for reference in references:
        held = document.get(reference.field)
        if held is None:
            continue
        several = held if isinstance(held, list) else [held]
        ids = []
        for each in several:
            if not isinstance(each, dict) or each.get(reference.id_field) is None:
                raise RecordRefused(
                    f"{place_of(record)}: {reference.field} holds no document with {reference.id_field}"
                )
            ids.append(each[reference.id_field])
            found.append(Referred(reference.collection, ids[-1], {**each, ID: ids[-1]}))
        document[reference.field] = ids if isinstance(held, list) else ids[0]
    return document, found
