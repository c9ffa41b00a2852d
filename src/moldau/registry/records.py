"""The records of `_schemas`, in Confluent's format: keys and values are JSON, a null value deletes.

SCHEMA          {"keytype", "subject", "version", "magic": 1}   the schema with its id; "deleted" for a soft delete
DELETE_SUBJECT  {"keytype", "subject", "magic": 0}              all versions up to "version" are soft-deleted
CLEAR_SUBJECT   likewise                                        what is soft-deleted is forgotten
CONFIG, MODE    likewise; subject null for all                  settings
CONTEXT         {"keytype", "tenant", "context", "magic": 0}    a context that has been used
ASSOC           resource, type and subject                      an association
NOOP            {"keytype", "magic": 0}                         written by a new leader to read up to
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from moldau.schemas.model import AVRO, Reference, compact, guid_of

SCHEMA, DELETE_SUBJECT, CLEAR_SUBJECT = "SCHEMA", "DELETE_SUBJECT", "CLEAR_SUBJECT"
CONFIG, MODE, CONTEXT, ASSOC, NOOP = "CONFIG", "MODE", "CONTEXT", "ASSOC", "NOOP"
TENANT: Final = "default"


class PoisonedRecord(ValueError):
    """A record of the topic that cannot be understood."""


@dataclass(frozen=True, slots=True)
class Version:
    """One version of a subject."""

    subject: str
    version: int
    id: int
    kind: str
    text: str
    references: tuple[Reference, ...] = ()
    metadata: dict[str, Any] | None = None
    rule_set: dict[str, Any] | None = None
    deleted: bool = False
    timestamp: int | None = None

    def record(self) -> Record:
        key = {"keytype": SCHEMA, "subject": self.subject, "version": self.version, "magic": 1}
        value: dict[str, Any] = {"subject": self.subject, "version": self.version, "id": self.id}
        if self.kind != AVRO:
            value["schemaType"] = self.kind
        if self.references:
            value["references"] = [each.as_json() for each in self.references]
        if self.metadata is not None:
            value["metadata"] = self.metadata
        if self.rule_set is not None:
            value["ruleSet"] = self.rule_set
        return Record(key, {**value, "schema": self.text, "deleted": self.deleted})

    def soft_deleted(self) -> Version:
        return replace(self, deleted=True)

    def tombstone(self) -> Record:
        return Record(self.record().key, None)


@dataclass(frozen=True, slots=True)
class Record:
    key: dict[str, Any]
    value: dict[str, Any] | None
    timestamp: int | None = None

    def encoded(self) -> tuple[bytes, bytes | None]:
        return compact(self.key).encode(), None if self.value is None else compact(self.value).encode()


def decoded(key: bytes | None, value: bytes | None, timestamp: int | None) -> Record:
    found_key, found_value = read(key), read(value)
    if not isinstance(found_key, dict) or not isinstance(found_key.get("keytype"), str):
        raise PoisonedRecord("its key has no keytype")
    if found_value is not None and not isinstance(found_value, dict):
        raise PoisonedRecord("its value is no JSON object")
    return Record(found_key, found_value, timestamp)


def read(data: bytes | None) -> Any:
    """JSON that can be written again: no NaN, and no half of a pair of surrogates."""
    if not data:
        return None
    try:
        found = json.loads(data, parse_constant=refused)
        compact(found).encode()
    except (ValueError, RecursionError) as error:
        raise PoisonedRecord(f"it is not JSON: {error}") from None
    return found


def refused(constant: str) -> None:
    raise ValueError(f"{constant} is no number")


def place_of(record: Record) -> tuple[str, int]:
    """Subject and version of a key."""
    return subject_of(record), number_in(record.key, "version")


def subject_of(record: Record) -> str:
    found = record.key.get("subject")
    if not isinstance(found, str) or not found:
        raise PoisonedRecord("its key has no subject")
    return found


def scope_of(record: Record) -> str | None:
    """The subject whose settings these are; None stands for all."""
    return None if record.key.get("subject") is None else subject_of(record)


def number_in(content: Mapping[str, Any], name: str, lowest: int = 1) -> int:
    found = content.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not lowest <= found < 1 << 31:
        raise PoisonedRecord(f"{name} is {str(found)[:40]}, no number from {lowest} to 2^31-1")
    return found


def version_of(record: Record) -> Version:
    """Raises for everything that later would: a schema has a GUID, and can be written again."""
    value = record.value or {}
    subject, number = place_of(record)
    kind, text = value.get("schemaType") or AVRO, value.get("schema")
    metadata, rule_set, references = (value.get(name) for name in ("metadata", "ruleSet", "references"))
    if not isinstance(text, str) or not isinstance(kind, str):
        raise PoisonedRecord("no schema: its text, or its type, is no text")
    if not isinstance(metadata, dict | None) or not isinstance(rule_set, dict | None):
        raise PoisonedRecord("no schema: metadata and ruleSet are objects")
    if not isinstance(references, list | None):
        raise PoisonedRecord("no schema: references are a list")
    try:
        referred = tuple(reference_of(each) for each in references or ())
        guid_of(text, referred, metadata, rule_set)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PoisonedRecord(f"no schema: {type(error).__name__} {error}") from None
    schema_id, deleted = number_in(value, "id", 0), bool(value.get("deleted"))
    return Version(subject, number, schema_id, kind, text, referred, metadata, rule_set, deleted, record.timestamp)


def reference_of(content: dict[str, Any]) -> Reference:
    name, subject = content["name"], content["subject"]
    if not isinstance(name, str) or not isinstance(subject, str):
        raise TypeError("a reference has a name and a subject")
    return Reference(name, subject, number_in(content, "version", -1))


def settings_record(keytype: str, subject: str | None, value: dict[str, Any] | None) -> Record:
    return Record({"keytype": keytype, "subject": subject, "magic": 0}, value)


def delete_subject_record(subject: str, version: int) -> Record:
    return settings_record(DELETE_SUBJECT, subject, {"subject": subject, "version": version})


def context_record(context: str, *, gone: bool = False) -> Record:
    key = {"keytype": CONTEXT, "tenant": TENANT, "context": context, "magic": 0}
    return Record(key, None if gone else {"tenant": TENANT, "context": context})


def noop_record() -> Record:
    return Record({"keytype": NOOP, "magic": 0}, None)
