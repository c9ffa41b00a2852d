"""What `moldau security role` does."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any, Final

from moldau.cli import refusals
from moldau.cli.calls import roles as role_calls
from moldau.cli.connection import Connection
from moldau.cli.output import NOT_FOUND, Column, CommandError, Format, Table, confirm, nearest, plural, show
from moldau.cli.security.options import ANYWHERE, KINDS, Place, operation_name, pairs, principal
from moldau.metadata.controller.roles import RoleAction, RoleChange
from moldau.metadata.security_codec import RoleEntry, RolePermission


def permissions(
    places: Sequence[Place], operations: Sequence[str] | None, hosts: Sequence[str] | None
) -> list[RolePermission]:
    if not places and not operations:
        return []
    return [
        RolePermission(place.resource, place.pattern, place.name, host, operation)
        for (place, operation), host in product(pairs(places, operations), hosts or ANYWHERE)
    ]


def change(
    cluster: Connection,
    action: RoleAction,
    name: str,
    given: Sequence[RolePermission],
    members: Sequence[str],
    dry_run: bool,
) -> None:
    change = RoleChange(action, name, given, [principal(each) for each in members])
    with refusals.while_doing(f"cannot {action.name.lower()} role {name!r}"):
        if action is not RoleAction.CREATE:
            must_be_there(name, role_calls.describe(cluster))
        role_calls.alter(cluster, [change], validate_only=dry_run)
    done, would = DONE[action]
    print(f"{would if dry_run else done} role {name}{listed(change)}")


DONE: Final = {
    RoleAction.CREATE: ("created", "would create"),
    RoleAction.DELETE: ("deleted", "would delete"),
    RoleAction.GRANT: ("added to", "would add to"),
    RoleAction.REVOKE: ("took from", "would take from"),
}


def listed(change: RoleChange) -> str:
    parts = [*map(permission_text, change.permissions), *change.members]
    return f": {'; '.join(parts)}" if parts else ""


def permission_text(permission: RolePermission) -> str:
    where = "" if permission.host == "*" else f" from {permission.host}"
    place = Place(permission.resource, permission.pattern, permission.name)
    return f"{operation_name(permission.operation)} {place}{where}"


def must_be_there(name: str, known: dict[str, RoleEntry]) -> RoleEntry:
    if name not in known:
        hint = nearest(name, list(known)) or "`moldau security role list` shows what there is"
        raise CommandError(f"role {name!r} does not exist", hint, NOT_FOUND)
    return known[name]


def delete(cluster: Connection, name: str, dry_run: bool, yes: bool) -> None:
    with refusals.while_doing("cannot list the roles"):
        entry = must_be_there(name, role_calls.describe(cluster))
    if not dry_run:
        confirm(f"Delete role {name}, which {plural(len(entry.members), 'member')} lose?", yes)
    change(cluster, RoleAction.DELETE, name, (), (), dry_run)


def show_roles(cluster: Connection, name: str | None, member: str | None, output: Format) -> None:
    with refusals.while_doing("cannot list the roles"):
        found = role_calls.describe(cluster)
    if name is not None:
        found = {name: must_be_there(name, found)}
    if member is not None:
        found = {role: entry for role, entry in found.items() if principal(member) in entry.members}
    rows = [role_document(role, entry) for role, entry in sorted(found.items())]

    def tables() -> list[Table]:
        table = Table([Column("role"), Column("permissions"), Column("members")])
        for role, entry in sorted(found.items()):
            table.add(role, [permission_text(each) for each in entry.permissions], list(entry.members))
        return [table]

    show(output, rows, tables, empty="no roles")


def role_document(name: str, entry: RoleEntry) -> dict[str, Any]:
    return {
        "role": name,
        "permissions": [
            {
                "resource": KINDS[each.resource],
                "name": each.name,
                "pattern": each.pattern.name.lower(),
                "operation": operation_name(each.operation),
                "host": each.host,
            }
            for each in entry.permissions
        ],
        "members": list(entry.members),
    }
