"""v3: access rules."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from starlette.responses import Response

from moldau.rest import errors
from moldau.rest.proxy import Proxy
from moldau.rest.v3 import CONTROL, JSON, PREFIX, TEXT, Context, body_of, listing, objects_of, text_of, thing
from moldau.types.acls import CLUSTER_NAME
from moldau.web import ADMIN, Api, Call, text

TYPES: Final = {
    "ANY": "ANY", "TOPIC": "TOPIC", "GROUP": "GROUP", "CLUSTER": "BROKER", "TRANSACTIONAL_ID": "TRANSACTIONAL_ID",
}  # fmt: skip
"""Kafka's names, and librdkafka's."""
PATTERNS: Final = {"ANY": "ANY", "MATCH": "MATCH", "LITERAL": "LITERAL", "PREFIXED": "PREFIXED"}
OPERATIONS: Final = {
    name: name
    for name in (
        "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION", "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS", "IDEMPOTENT_WRITE",
    )
}  # fmt: skip
PERMISSIONS: Final = {"ANY": "ANY", "ALLOW": "ALLOW", "DENY": "DENY"}
CHOICES: Final = {
    "resource_type": TYPES, "pattern_type": PATTERNS, "operation": OPERATIONS, "permission": PERMISSIONS,
}  # fmt: skip
FIELDS: Final = ("resource_type", "resource_name", "pattern_type", "principal", "host", "operation", "permission")
ACL: Final = dict.fromkeys(FIELDS, TEXT)
NEW_ACL: Final = {
    "type": "object",
    "required": ["resource_type", "pattern_type", "principal", "host", "operation", "permission"],
    "properties": ACL,
}
NEW_ACLS: Final = {
    "type": "object",
    "required": ["data"],
    "properties": {"data": {"type": "array", "items": NEW_ACL}},
}
FILTER: Final = tuple(text(name) for name in FIELDS)


def add(api: Api, proxy: Proxy) -> None:
    common: dict[str, Any] = {"produces": JSON, "consumes": JSON, "tag": "ACL", "role": ADMIN}

    @api.get(
        f"{PREFIX}/acls", name="api.v3.acls.list", query=FILTER, answer=listing(ACL), errors=(400, *CONTROL), **common
    )
    async def acls(call: Call) -> object:
        """The access rules that match; what is left out matches all"""
        context = await Context.of(proxy, call)
        wanted = {name: call.query[name] or ("any" if name in CHOICES else "") for name in FIELDS}
        filters = checked(wanted, "cannot be UNKNOWN")
        found = await described(context, filters)
        return context.listed("KafkaAcl", url_of(context, filters), (as_acl(context, each) for each in found))

    @api.post(f"{PREFIX}/acls", name="api.v3.acls.create", body=NEW_ACL, status=201, errors=(42206, *CONTROL), **common)
    async def create(call: Call) -> object:
        """Adds an access rule"""
        context = await Context.of(proxy, call)
        rule = read_rule(await body_of(call))
        await created(context, [rule])
        return Response(b"", 201, {"Location": url_of(context, rule)})

    @api.post(
        f"{PREFIX}/acls:batch", name="api.v3.acls.create", body=NEW_ACLS, status=204, errors=(42206, *CONTROL), **common
    )
    async def create_all(call: Call) -> object:
        """Adds several access rules"""
        context = await Context.of(proxy, call)
        rules = [read_rule(each) for each in objects_of(await body_of(call), "data", needed=True)]
        await created(context, rules)
        return None

    deleted = {"type": "object", "properties": {"data": {"type": "array", "items": thing(ACL)}}}

    @api.delete(
        f"{PREFIX}/acls", name="api.v3.acls.delete", query=FILTER, answer=deleted, errors=(400, *CONTROL), **common
    )
    async def delete(call: Call) -> object:
        """Deletes the access rules that match, and returns them"""
        context = await Context.of(proxy, call)
        wanted = {name: call.query[name] or ("unknown" if name in CHOICES else "") for name in FIELDS}
        filters = checked(wanted, "cannot be unspecified or UNKNOWN")
        backend = context.backend
        asked = filter_of(filters)
        found = await backend.ask_all(lambda: backend.admin.delete_acls([asked], request_timeout=backend.seconds))
        rules = sorted((rule_of(each) for answer in found.values() for each in answer), key=order)
        return {"data": [as_acl(context, rule) for rule in rules]}


def checked(wanted: dict[str, str], refusal: str) -> dict[str, str]:
    found = dict(wanted)
    for name, choices in CHOICES.items():
        value = wanted[name].strip().upper()
        if value == "UNKNOWN":
            raise errors.bad_request(f"Bad Request: {name} {refusal}")
        if value not in choices:
            raise errors.not_found(f"{name}={wanted[name]}: one of {', '.join(choices)}")
        found[name] = value
    return found


def read_rule(body: dict[str, Any]) -> dict[str, str]:
    rule = {name: text_of(body, name) or "" for name in FIELDS}
    for name, choices in CHOICES.items():
        value = rule[name].strip().upper()
        if value in ("", "UNKNOWN") or value not in choices:
            raise errors.bad_request(f"Bad Request: {name}={rule[name]!r}: one of {', '.join(choices)}")
        if value in ("ANY", "MATCH"):
            raise errors.bad_request(f"Bad Request: {name} cannot be {value}")
        rule[name] = value
    if rule["resource_type"] == "CLUSTER":
        rule["resource_name"] = rule["resource_name"] or CLUSTER_NAME
    for name in ("resource_name", "principal", "host"):
        if not rule[name]:
            raise errors.bad_request(f"Bad Request: {name} is missing")
    return rule


# -- asking ----------------------------------------------------------------------------------------------------------


def filter_of(wanted: dict[str, str]) -> Any:
    from confluent_kafka.admin import AclBindingFilter

    return AclBindingFilter(*parts(wanted, nothing=None))


def parts(rule: dict[str, str], nothing: str | None) -> tuple[Any, ...]:
    from confluent_kafka.admin import AclOperation, AclPermissionType, ResourcePatternType, ResourceType

    return (
        ResourceType[TYPES[rule["resource_type"]]],
        rule["resource_name"] or nothing,
        ResourcePatternType[rule["pattern_type"]],
        rule["principal"] or nothing,
        rule["host"] or nothing,
        AclOperation[rule["operation"]],
        AclPermissionType[rule["permission"]],
    )


async def described(context: Context, wanted: dict[str, str]) -> list[dict[str, str]]:
    backend = context.backend
    asked = filter_of(wanted)
    found = await backend.ask(lambda: backend.admin.describe_acls(asked, request_timeout=backend.seconds))
    return sorted(map(rule_of, found), key=order)


async def created(context: Context, rules: list[dict[str, str]]) -> None:
    from confluent_kafka.admin import AclBinding

    if not rules:
        return
    backend = context.backend
    bindings = [AclBinding(*parts(rule, nothing="")) for rule in rules]
    await backend.ask_all(lambda: backend.admin.create_acls(bindings, request_timeout=backend.seconds))


# -- answers ---------------------------------------------------------------------------------------------------------


def rule_of(found: Any) -> dict[str, str]:
    names = {ours: name for name, ours in TYPES.items()}
    return {
        "resource_type": names.get(found.restype.name, found.restype.name),
        "resource_name": found.name,
        "pattern_type": found.resource_pattern_type.name,
        "principal": found.principal,
        "host": found.host,
        "operation": found.operation.name,
        "permission": found.permission_type.name,
    }


def order(rule: dict[str, str]) -> tuple[str, ...]:
    return tuple(rule[name] for name in FIELDS)


def url_of(context: Context, rule: dict[str, str]) -> str:
    return f"{context.url('acls')}?{urlencode({name: rule[name] for name in FIELDS})}"


def as_acl(context: Context, rule: dict[str, str]) -> dict[str, Any]:
    metadata = {"self": url_of(context, rule)}
    return {"kind": "KafkaAcl", "metadata": metadata, "cluster_id": context.cluster_id, **rule}
