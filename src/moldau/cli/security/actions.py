"""What `moldau security` does with rules, users, quotas and certificates."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any, Final

from moldau.cli import refusals
from moldau.cli.calls import acls as calls
from moldau.cli.calls import quotas
from moldau.cli.connection import Connection
from moldau.cli.output import (
    NOT_FOUND,
    WRONG_USAGE,
    Column,
    CommandError,
    Format,
    Table,
    confirm,
    nearest,
    note,
    plural,
    show,
)
from moldau.cli.security.options import ANYWHERE, KINDS, Place, operation_name, pairs, principal
from moldau.types.acls import Acl, AclFilter, Pattern, Permission
from moldau.types.quotas import QuotaKey

# -- rules -----------------------------------------------------------------------------------------------------------


def add_rules(
    cluster: Connection,
    permission: Permission,
    principals: Sequence[str],
    places: Sequence[Place],
    operations: Sequence[str] | None,
    hosts: Sequence[str] | None,
    dry_run: bool,
) -> None:
    wanted = [
        Acl(place.resource, place.pattern, place.name, principal(whose), host, operation, permission)
        for (place, operation), whose, host in product(pairs(places, operations), principals, hosts or ANYWHERE)
    ]
    if not dry_run:
        with refusals.while_doing("cannot add the rules"):
            calls.create(cluster, wanted)
    for acl in wanted:
        print(f"{'would add' if dry_run else 'added'}: {sentence(acl)}")


def sentence(acl: Acl) -> str:
    verb = "may" if acl.permission is Permission.ALLOW else "may not"
    where = "" if acl.host == "*" else f" from {acl.host}"
    place = Place(acl.resource, acl.pattern, acl.name)
    what = "do everything" if operation_name(acl.operation) == "all" else operation_name(acl.operation)
    return f"{acl.principal} {verb} {what}{where}: {place}"


def filters(principals: Sequence[str], places: Sequence[Place], covering: bool) -> list[AclFilter]:
    """One for each principal and place; `covering`: whatever is about a resource of that name."""
    whose: list[str | None] = [principal(each) for each in principals] or [None]
    if not places:
        return [AclFilter(principal=each) for each in whose]
    return [
        AclFilter(place.resource, Pattern.MATCH if covering else place.pattern, place.name, each)
        for place, each in product(places, whose)
    ]


def list_rules(
    cluster: Connection, principals: Sequence[str], places: Sequence[Place], covering: bool, output: Format
) -> None:
    with refusals.while_doing("cannot list the rules"):
        found = [acl for wanted in filters(principals, places, covering) for acl in calls.find(cluster, wanted)]
    rows = [document(acl) for acl in sorted(dict.fromkeys(found), key=rank)]
    show(output, rows, lambda: [acl_table(rows)], empty="no rules")


def rank(acl: Acl) -> tuple[Any, ...]:
    return (acl.resource, acl.name, acl.pattern, acl.principal, acl.permission, acl.operation, acl.host)


def document(acl: Acl) -> dict[str, str]:
    return {
        "resource": KINDS[acl.resource],
        "name": acl.name,
        "pattern": acl.pattern.name.lower(),
        "principal": acl.principal,
        "permission": acl.permission.name.lower(),
        "operation": operation_name(acl.operation),
        "host": acl.host,
    }


def acl_table(rows: Sequence[dict[str, str]]) -> Table:
    table = Table(
        [Column(name) for name in ("resource", "name", "pattern", "principal", "permission", "operation", "host")]
    )
    for row in rows:
        table.add(*row.values())
    return table


def remove_rules(
    cluster: Connection,
    principals: Sequence[str],
    places: Sequence[Place],
    operations: Sequence[str] | None,
    hosts: Sequence[str] | None,
    dry_run: bool,
    yes: bool,
) -> None:
    wanted = filters(principals, places, covering=False)
    if operations:
        chosen = {operation for _, operation in pairs(places, operations)}
        wanted = [replace(each, operation=operation) for each, operation in product(wanted, sorted(chosen))]
    if hosts:
        wanted = [replace(each, host=host) for each, host in product(wanted, hosts)]
    with refusals.while_doing("cannot list the rules"):
        found = sorted(dict.fromkeys(acl for each in wanted for acl in calls.find(cluster, each)), key=rank)
    if not found:
        raise CommandError("there are no such rules", "`moldau security acl list` shows what there is", NOT_FOUND)
    if dry_run:
        for acl in found:
            print(f"would remove: {sentence(acl)}")
        return
    for acl in found:
        note(f"  {sentence(acl)}")
    confirm(f"Remove {plural(len(found), 'rule')}?", yes)
    with refusals.while_doing("cannot remove the rules"):
        removed = calls.delete(cluster, [exactly(acl) for acl in found])
    for acl in removed:
        print(f"removed: {sentence(acl)}")


def exactly(acl: Acl) -> AclFilter:
    return AclFilter(acl.resource, acl.pattern, acl.name, acl.principal, acl.host, acl.operation, acl.permission)


# -- users -----------------------------------------------------------------------------------------------------------


def list_users(cluster: Connection, names: Sequence[str], output: Format) -> None:
    with refusals.while_doing("cannot list the users"):
        found = quotas.describe_credentials(cluster, names)
        rows: list[dict[str, Any]] = [
            {"user": user, "mechanisms": dict(each.iterations)} for user, each in sorted(found.items())
        ]
    if missing := [name for name in names if name not in found]:
        raise CommandError(f"user {missing[0]!r} has no SCRAM credentials", "", NOT_FOUND)

    def tables() -> list[Table]:
        table = Table([Column("user"), Column("mechanisms (iterations)")])
        for row in rows:
            table.add(row["user"], [f"{name} ({count:,})" for name, count in row["mechanisms"].items()])
        return [table]

    show(output, rows, tables, empty="no users that log in with SCRAM")


def set_user(cluster: Connection, name: str, mechanisms: Sequence[str], iterations: int, dry_run: bool) -> None:
    if dry_run:
        print(f"would set the password of user {name} for {', '.join(mechanisms)}")
        return
    password = asked_password(name)
    with refusals.while_doing(f"cannot set the password of user {name!r}"):
        quotas.alter_credentials(cluster, name, dict.fromkeys(mechanisms, (iterations, password)), [])
    print(f"set the password of user {name} for {', '.join(mechanisms)}")


def asked_password(name: str) -> bytes:
    if sys.stdin.isatty():
        from getpass import getpass

        password = getpass(f"Password of {name}: ")
        if getpass("Once more: ") != password:
            raise CommandError("the passwords differ", "nothing was done", WRONG_USAGE)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CommandError("the password is empty", "type it, or write it to stdin", WRONG_USAGE)
    return password.encode()


def remove_user(cluster: Connection, name: str, mechanisms: Sequence[str], dry_run: bool, yes: bool) -> None:
    with refusals.while_doing("cannot list the users"):
        found = quotas.describe_credentials(cluster, [name])
        known = [mechanism for each in found.values() for mechanism in each.iterations]
    wanted = [each for each in known if not mechanisms or each in mechanisms]
    if not wanted:
        raise CommandError(
            f"user {name!r} has no such credentials", "`moldau security user list` lists them", NOT_FOUND
        )
    if dry_run:
        print(f"would remove user {name}: {', '.join(wanted)}")
        return
    confirm(f"Remove {', '.join(wanted)} of user {name}?", yes)
    with refusals.while_doing(f"cannot remove user {name!r}"):
        quotas.alter_credentials(cluster, name, {}, wanted)
    print(f"removed user {name}: {', '.join(wanted)}")


# -- quotas ----------------------------------------------------------------------------------------------------------

ENTITIES: Final = ("user", "client-id", "ip")


def entity_of(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    """Names by type; None in the place of a name is the default."""
    given = dict(zip(ENTITIES, (user, client_id, ip), strict=True))
    found = {kind: name or None for kind, name in given.items() if name is not None}
    if not found:
        raise CommandError("nobody is named", "give --user, --client-id, both, or --ip", WRONG_USAGE)
    if "ip" in found and len(found) > 1:
        raise CommandError("an address has quotas of its own", "give --ip alone", WRONG_USAGE)
    return found


def entity_text(entity: Mapping[str, str | None]) -> str:
    return ", ".join(
        f"{kind} {entity[kind]}" if entity[kind] is not None else f"any {kind}" for kind in ENTITIES if kind in entity
    )


def list_quotas(cluster: Connection, user: str | None, client_id: str | None, ip: str | None, output: Format) -> None:
    wanted = {} if user is None and client_id is None and ip is None else entity_of(user, client_id, ip)
    with refusals.while_doing("cannot list the quotas"):
        found = quotas.describe(cluster, [], strict=False)
    found = [each for each in found if all(each.entity.get(kind, wanted) == name for kind, name in wanted.items())]
    rows = [{**{kind: each.entity[kind] for kind in ENTITIES if kind in each.entity}, "limits": dict(each.values)}
            for each in sorted(found, key=strength)]  # fmt: skip

    def tables() -> list[Table]:
        table = Table([Column("whose"), Column("limits")])
        for each in sorted(found, key=strength):
            table.add(entity_text(each.entity), [f"{key}={value:g}" for key, value in sorted(each.values.items())])
        return [table]

    show(output, rows, tables, empty="no quotas")


def strength(found: quotas.Quotas) -> tuple[Any, ...]:
    """Kafka's order: users before client ids, who is named before the default, more said before less."""
    entity = found.entity
    user, client = entity.get("user"), entity.get("client-id")
    return (
        "user" not in entity, user is None, "client-id" not in entity, client is None,
        user or "", client or "", entity.get("ip") or "",
    )  # fmt: skip


def limits_of(texts: Sequence[str]) -> dict[str, float]:
    found = {}
    for text in texts:
        key, _, value = text.partition("=")
        check_key(key)
        try:
            found[key] = float(value)
        except ValueError:
            raise CommandError(f"{text!r} is no limit", f"write {key}=NUMBER", WRONG_USAGE) from None
    return found


def check_key(key: str) -> None:
    known = [each.value for each in QuotaKey]
    if key not in known:
        hint = nearest(key, known) or f"there are {', '.join(known)}"
        raise CommandError(f"there is no quota {key!r}", hint, WRONG_USAGE)


def set_quota(
    cluster: Connection, texts: Sequence[str], user: str | None, client_id: str | None, ip: str | None, dry_run: bool
) -> None:
    entity, limits = entity_of(user, client_id, ip), limits_of(texts)
    with refusals.while_doing(f"cannot set quotas of {entity_text(entity)}"):
        quotas.alter(cluster, entity, limits, [], validate_only=dry_run)
    shown = ", ".join(f"{key}={value:g}" for key, value in limits.items())
    print(f"{'would set' if dry_run else 'set'} for {entity_text(entity)}: {shown}")


def remove_quota(
    cluster: Connection, keys: Sequence[str], user: str | None, client_id: str | None, ip: str | None, dry_run: bool
) -> None:
    entity = entity_of(user, client_id, ip)
    for key in keys:
        check_key(key)
    with refusals.while_doing(f"cannot remove quotas of {entity_text(entity)}"):
        found = [each for each in quotas.describe(cluster, [], strict=False) if dict(each.entity) == entity]
        wanted = [key for each in found for key in sorted(each.values) if not keys or key in keys]
        if not wanted:
            hint = "`moldau security quota list` shows what there is"
            raise CommandError(f"{entity_text(entity)} has no such quota", hint, NOT_FOUND)
        quotas.alter(cluster, entity, {}, wanted, validate_only=dry_run)
    print(f"{'would remove' if dry_run else 'removed'} from {entity_text(entity)}: {', '.join(wanted)}")


# -- certificates ----------------------------------------------------------------------------------------------------


def make_certificates(folder: Path, names: Sequence[str], hosts: Sequence[str], days: int) -> None:
    from moldau.tls.authority import issue, open_authority

    for name in names:
        if name in ("ca", "ca-key") or not name or "/" in name:
            raise CommandError(f"{name!r} cannot be the name of a certificate", "it becomes a file's name", WRONG_USAGE)
    now = datetime.now(UTC)
    try:
        authority = open_authority(folder, now)
        made = [issue(authority, name, now, hosts, days) for name in names]
    except (OSError, ValueError) as error:
        raise CommandError(f"cannot make certificates in {folder}: {error}", "is ca-key.pem one of ours?") from None
    print(f"{authority.certificate_file}: the authority, for truststores")
    for path in made:
        print(f"{path}: key and certificate, for keystores")
