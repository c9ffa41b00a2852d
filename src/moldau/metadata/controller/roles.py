"""Roles: named sets of permissions, granted to principals. A layer above access rules, which can still deny."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeVar

from moldau.metadata import paths, security_codec
from moldau.metadata.controller.acls import WantedAcl, check_principal, checked
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import ClusterImage, RoleImage
from moldau.metadata.security_codec import RoleEntry, RolePermission
from moldau.metadata.store import ABSENT, Delete, Operation, Put
from moldau.types.acls import ANYBODY, Permission
from moldau.types.errors import ErrorCode, KafkaError

T = TypeVar("T")

MAX_NAME = 249


class RoleAction(IntEnum):
    CREATE = 0
    DELETE = 1
    GRANT = 2
    REVOKE = 3


@dataclass(frozen=True, slots=True)
class RoleChange:
    """CREATE makes the role, GRANT and REVOKE give and take permissions and members; DELETE takes it away whole."""

    action: RoleAction
    name: str
    permissions: Sequence[RolePermission] = ()
    members: Sequence[str] = ()


def alter_roles(image: ClusterImage, changes: Sequence[RoleChange], *, validate_only: bool) -> Decision[None]:
    """All of them or none. Raises INVALID_REQUEST, RESOURCE_NOT_FOUND."""
    roles: dict[str, RoleEntry | None] = {}
    for change in changes:
        present = roles[change.name] if change.name in roles else _entry(image, change.name)
        roles[change.name] = changed(change, present)
    operations = [
        operation
        for name, role in roles.items()
        if (operation := _operation(image.roles.get(name), name, role)) is not None
    ]
    return Decision([] if validate_only else operations, None, whole=True)


def changed(change: RoleChange, present: RoleEntry | None) -> RoleEntry | None:
    for member in change.members:
        check_principal(member)
    for each in change.permissions:
        check_permission(each)
    if change.action is RoleAction.CREATE:
        if not change.name or len(change.name) > MAX_NAME:
            raise _invalid(f"A role's name has 1 to {MAX_NAME} characters")
        if present is not None:
            raise _invalid(f"There is a role {change.name} already")
        return RoleEntry(_united((), change.permissions), _united((), change.members))
    if present is None:
        raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"There is no role {change.name}")
    match change.action:
        case RoleAction.DELETE:
            return None
        case RoleAction.GRANT:
            return replace(
                present,
                permissions=_united(present.permissions, change.permissions),
                members=_united(present.members, change.members),
            )
        case _:
            return replace(
                present,
                permissions=tuple(each for each in present.permissions if each not in change.permissions),
                members=tuple(each for each in present.members if each not in change.members),
            )


def check_permission(permission: RolePermission) -> None:
    """As the rule that it is for each member. Raises INVALID_REQUEST."""
    checked(
        WantedAcl(
            permission.resource,
            permission.pattern,
            permission.name,
            ANYBODY,
            permission.host,
            permission.operation,
            Permission.ALLOW,
        )
    )


def _united(known: Sequence[T], more: Sequence[T]) -> tuple[T, ...]:
    return tuple(dict.fromkeys((*known, *more)))


def _entry(image: ClusterImage, name: str) -> RoleEntry | None:
    found = image.roles.get(name)
    return None if found is None else found.entry


def _operation(present: RoleImage | None, name: str, role: RoleEntry | None) -> Operation | None:
    path = paths.role(name)
    if role is None:
        return None if present is None else Delete(path, present.version)
    if present is None:
        return Put(path, security_codec.encode_role(role), ABSENT)
    return None if present.entry == role else Put(path, security_codec.encode_role(role), present.version)


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
