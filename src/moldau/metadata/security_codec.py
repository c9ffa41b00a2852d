"""The values of entries that say who may do what, and how much:

    /acls/<uuid>        {"v":1,"resource":<n>,"pattern":<n>,"name":"..","principal":"User:..","host":"*",
                         "operation":<n>,"permission":<n>}, numbers as in Kafka's protocol
    /roles/<name>       {"v":1,"permissions":[{"resource":<n>,"pattern":<n>,"name":"..","host":"*","operation":<n>},..],
                         "members":["User:..",..]}
    /quotas/<entity>    {"v":1,"entity":{"<type>":"<name>" or null for the default,..},"values":{"<key>":<limit>,..}}

The path of quotas is made from their entity, so that two of the same entity cannot be.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from moldau.metadata.codec import NOTHING_ELSE, BadEntryError, decode_members, encode_members, unknown_members
from moldau.types.acls import Acl, Operation, Pattern, Permission, Resource
from moldau.types.quotas import QuotaEntity, quota_entity

_ACL = frozenset({"v", "resource", "pattern", "name", "principal", "host", "operation", "permission"})
_ROLE = frozenset({"v", "permissions", "members"})
_QUOTAS = frozenset({"v", "entity", "values"})


@dataclass(frozen=True, slots=True)
class RolePermission:
    """What members of a role may do."""

    resource: Resource
    pattern: Pattern
    name: str
    host: str
    operation: Operation


@dataclass(frozen=True, slots=True)
class RoleEntry:
    permissions: tuple[RolePermission, ...] = ()
    members: tuple[str, ...] = ()
    unknown: str = NOTHING_ELSE


def encode_acl(acl: Acl) -> bytes:
    return encode_members(
        {
            "resource": acl.resource,
            "pattern": acl.pattern,
            "name": acl.name,
            "principal": acl.principal,
            "host": acl.host,
            "operation": acl.operation,
            "permission": acl.permission,
        }
    )


def decode_acl(path: str, value: bytes) -> Acl:
    found = decode_members(path, value, *_ACL)
    try:
        return Acl(
            Resource(found["resource"]),
            Pattern(found["pattern"]),
            found["name"],
            found["principal"],
            found["host"],
            Operation(found["operation"]),
            Permission(found["permission"]),
        )
    except ValueError as error:
        raise BadEntryError(path, str(error)) from error


def encode_role(role: RoleEntry) -> bytes:
    permissions = [permission_members(each) for each in role.permissions]
    return encode_members({"permissions": permissions, "members": list(role.members)}, role.unknown)


def decode_role(path: str, value: bytes) -> RoleEntry:
    found = decode_members(path, value, "permissions", "members")
    try:
        permissions = tuple(map(as_permission, found["permissions"]))
    except (KeyError, ValueError) as error:
        raise BadEntryError(path, f"a permission that cannot be read: {error}") from error
    return RoleEntry(permissions, tuple(map(str, found["members"])), unknown_members(found, _ROLE))


def permission_members(permission: RolePermission) -> dict[str, Any]:
    return {
        "resource": permission.resource,
        "pattern": permission.pattern,
        "name": permission.name,
        "host": permission.host,
        "operation": permission.operation,
    }


def as_permission(found: Mapping[str, Any]) -> RolePermission:
    """Raises KeyError, ValueError."""
    return RolePermission(
        Resource(found["resource"]),
        Pattern(found["pattern"]),
        str(found["name"]),
        str(found["host"]),
        Operation(found["operation"]),
    )


def encode_quotas(entity: QuotaEntity, values: Mapping[str, float], unknown: str = NOTHING_ELSE) -> bytes:
    return encode_members({"entity": dict(entity), "values": dict(values)}, unknown)


def decode_quotas(path: str, value: bytes) -> tuple[QuotaEntity, dict[str, float], str]:
    found = decode_members(path, value, "entity", "values")
    entity = quota_entity({str(kind): name for kind, name in found["entity"].items()})
    values = {str(key): float(limit) for key, limit in found["values"].items()}
    return entity, values, unknown_members(found, _QUOTAS)
