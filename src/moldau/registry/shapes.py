"""What requests look like, for the OpenAPI description; and versions as answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from moldau.registry.answers import CONFIG_SET, METADATA, NUMBER, REFERENCE, RULE_SET, TAG_LIST, TEXT, TEXTS, list_of
from moldau.registry.errors import RegistryError, invalid_version
from moldau.registry.records import Version
from moldau.registry.state import Content
from moldau.schemas.model import AVRO, KINDS, guid_of
from moldau.web import Call, number

MEDIA_TYPES: Final = (
    "application/vnd.schemaregistry.v1+json",
    "application/vnd.schemaregistry+json",
    "application/json",
)
OBJECT: Final = {"type": "object"}
TAGS_REQUEST: Final = {
    "type": "object",
    "properties": {
        "newVersion": NUMBER,
        "tagsToAdd": TAG_LIST,
        "tagsToRemove": TAG_LIST,
        "metadata": METADATA,
        "ruleSet": RULE_SET,
        "rulesToMerge": RULE_SET,
        "rulesToRemove": TEXTS,
    },
}
SCHEMA_REQUEST: Final = {
    "type": "object",
    "properties": {
        "schema": TEXT,
        "schemaType": {"type": "string", "enum": list(KINDS)},
        "references": list_of(REFERENCE),
        "metadata": METADATA,
        "ruleSet": RULE_SET,
        "id": NUMBER,
        "version": NUMBER,
        "schemaTagsToAdd": TAG_LIST,
        "schemaTagsToRemove": TAG_LIST,
    },
}
CONFIG_REQUEST: Final = CONFIG_SET
MODE_REQUEST: Final = {"type": "object", "properties": {"mode": TEXT}}
JAVA: Final = "Java/"
TOLERANT: Final = "confluent-accept-unknown-properties"
YOUNG: Final = ("guid", "ts", "deleted", "metadata", "ruleSet", "schemaTags")
PAGE: Final = (number("offset", 0), number("limit", -1))
WRITE_ERRORS: Final = (42205, 42209, 50001, 50002, 50003, 50004)
SCHEMA_ERRORS: Final = (42201, 42208, 42209, 42210, 50002)


def page(found: Sequence[Any], query: dict[str, Any]) -> list[Any]:
    offset, limit = max(0, query["offset"] or 0), query["limit"]
    return list(found[offset : offset + limit] if limit is not None and limit >= 0 else found[offset:])


def read_version(given: str) -> int:
    """-1 is the latest."""
    if given.lower() == "latest":
        return -1
    if not given.lstrip("-").isdigit() or not given.isascii() or len(given) > 10:
        raise invalid_version(given)
    found = int(given)
    if found != -1 and not 1 <= found < 1 << 31:
        raise invalid_version(given)
    return found


def read_id(given: str) -> int:
    if not given.isdigit() or not given.isascii() or len(given) > 10 or int(given) >= 1 << 31:
        raise RegistryError(40403, f"Schema {given} not found")
    return int(given)


def for_client(call: Call, answer: Any) -> Any:
    """An answer with nothing that the client would choke on: Confluent's Java clients before version 6 refuse fields
    that they do not know. Newer ones say that they take them."""
    headers = call.request.headers
    if not headers.get("user-agent", "").startswith(JAVA) or headers.get(TOLERANT, "").lower() == "true":
        return answer
    if isinstance(answer, list):
        return [for_client(call, each) for each in answer]
    if not isinstance(answer, dict) or not {"id", "schema"} & answer.keys():
        return answer
    known = {name: value for name, value in answer.items() if name not in YOUNG}
    return known if "schema" in known else {"id": known["id"]}


def as_schema(version: Version, text: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"subject": version.subject, "version": version.version, "id": version.id}
    found["guid"] = guid_of(version.text, version.references, version.metadata, version.rule_set)
    found |= contents(version, text)
    if version.timestamp is not None:
        found["ts"] = version.timestamp
    if version.deleted:
        found["deleted"] = True
    return found


def as_schema_text(content: Content, text: str) -> dict[str, Any]:
    return {**contents(content.version, text), "guid": content.guid}


def contents(version: Version, text: str | None) -> dict[str, Any]:
    found: dict[str, Any] = {} if version.kind == AVRO else {"schemaType": version.kind}
    if version.references:
        found["references"] = [each.as_json() for each in version.references]
    if version.metadata is not None:
        found["metadata"] = version.metadata
    if version.rule_set is not None:
        found["ruleSet"] = version.rule_set
    return {**found, "schema": version.text if text is None else text}
