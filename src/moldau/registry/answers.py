"""What answers look like, for the OpenAPI description: programs make their types of it."""

from __future__ import annotations

from typing import Any, Final

from moldau.schemas.levels import LEVELS
from moldau.schemas.model import KINDS

TEXT: Final = {"type": "string"}
NUMBER: Final = {"type": "integer"}
FLAG: Final = {"type": "boolean"}


def list_of(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def some(value: dict[str, Any]) -> dict[str, Any]:
    """An object whose names are the user's."""
    return {"type": "object", "additionalProperties": value}


def thing(*required: str, **properties: dict[str, Any]) -> dict[str, Any]:
    """More may come in later versions."""
    found: dict[str, Any] = {"type": "object", "properties": properties}
    return {**found, "required": list(required)} if required else found


def or_null(value: dict[str, Any]) -> dict[str, Any]:
    found = {**value, "type": [value["type"], "null"]}
    return {**found, "enum": [*value["enum"], None]} if "enum" in value else found


TEXTS: Final = list_of(TEXT)
NUMBERS: Final = list_of(NUMBER)
EMPTY: Final = {"type": "object", "maxProperties": 0}
REFERENCE: Final = thing("name", "subject", "version", name=TEXT, subject=TEXT, version=NUMBER)
ENTITY: Final = thing(entityPath=TEXT, entityType={"type": "string", "enum": ["sr_record", "sr_field"]})
TAG_LIST: Final = list_of(thing(schemaEntity=ENTITY, tags=TEXTS))
METADATA: Final = thing(tags=some(TEXTS), properties=some(TEXT), sensitive=TEXTS)
RULE: Final = thing(
    "name",
    name=TEXT,
    kind=or_null({"type": "string", "enum": ["TRANSFORM", "CONDITION"]}),
    tags=or_null(TEXTS),
    params=or_null({"type": "object"}),
)
RULE_SET: Final = thing(migrationRules=list_of(RULE), domainRules=list_of(RULE), encodingRules=list_of(RULE))

CONTENTS: Final[dict[str, Any]] = {
    "schema": TEXT,
    "schemaType": {"type": "string", "enum": list(KINDS)},
    "references": list_of(REFERENCE),
    "metadata": METADATA,
    "ruleSet": RULE_SET,
    "schemaTags": TAG_LIST,
    "guid": TEXT,
}
SCHEMA: Final = thing("schema", **CONTENTS, maxId=NUMBER)
PLACE: Final = thing("subject", "version", subject=TEXT, version=NUMBER)
ASSOCIATED: Final = thing("subject", "associationType", subject=TEXT, associationType=TEXT, lifecycle=TEXT, frozen=FLAG)
RESOURCE: Final = dict.fromkeys(("resourceName", "resourceNamespace", "resourceId", "resourceType"), TEXT)
ASSOCIATION: Final = thing("resourceName", *ASSOCIATED["required"], **RESOURCE, **ASSOCIATED["properties"])
ASSOCIATIONS: Final = thing(*RESOURCE, "associations", **RESOURCE, associations=list_of(ASSOCIATED))
BATCH: Final = thing("results", results=list_of(thing("result", result=ASSOCIATIONS)))
VERSION: Final = thing(
    "subject", "version", "id", "schema",
    **CONTENTS, subject=TEXT, version=NUMBER, id=NUMBER, ts=NUMBER, deleted=FLAG,
    aliases=TEXTS, associations=list_of(ASSOCIATION),
)  # fmt: skip
REGISTERED: Final = thing("id", id=NUMBER, version=NUMBER, guid=TEXT)
ID_IN_CONTEXT: Final = thing("context", "id", context=TEXT, id=NUMBER)
COMPATIBILITY: Final = thing("is_compatible", is_compatible=FLAG, messages=TEXTS)

COMPANIONS: Final[dict[str, Any]] = {
    "alias": TEXT,
    "normalize": FLAG,
    "validateFields": FLAG,
    "validateRules": FLAG,
    "compatibilityGroup": TEXT,
    "compatibilityPolicy": {"type": "string", "enum": ["STRICT", "LENIENT", "LOGICAL"]},
    "defaultMetadata": METADATA,
    "overrideMetadata": METADATA,
    "defaultRuleSet": RULE_SET,
    "overrideRuleSet": RULE_SET,
}
LEVEL: Final = {"type": "string", "enum": list(LEVELS)}
CONFIG: Final = thing("compatibilityLevel", compatibilityLevel=LEVEL, **COMPANIONS)
CONFIG_BEFORE: Final = thing(compatibilityLevel=LEVEL, **COMPANIONS)
CONFIG_SET: Final = thing(compatibility=TEXT, **{name: or_null(each) for name, each in COMPANIONS.items()})
MODE: Final = thing("mode", mode=TEXT)

SERVER_ID: Final = thing("scope", "id", scope=thing("path", "clusters", path=TEXTS, clusters=some(TEXT)), id=TEXT)
SERVER_VERSION: Final = thing("version", "commitId", version=TEXT, commitId=TEXT)
DEPLOYMENT: Final = thing("attributes", attributes=some(TEXT))
