"""Kafka's StandardAuthorizer: rules from the cluster's metadata, super users and a default from the settings.

Every decision can be read in `kafka-authorizer.log`: refusals always, what was allowed at the level DEBUG.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Final

from moldau.metadata.image import ClusterImage, RoleImage
from moldau.metadata.image_changes import ImageDelta
from moldau.security.acl_index import AclIndex
from moldau.security.context import RequestContext
from moldau.types.acls import Acl, Operation, Permission, Resource
from moldau.wire.apis import ApiKey

log = logging.getLogger("moldau.security.authorizer")

LONGEST_NAME_TOLD: Final = 300
"""Of what a client asks for: no name that there is is longer, and one request may hold many."""


def super_users(text: str) -> frozenset[str]:
    """The principals in the setting `super.users`, between semicolons: names of certificates have commas."""
    return frozenset(name for each in text.split(";") if (name := each.strip()))


class StandardAuthorizer:
    keeps_rules = True

    def __init__(self, super_users: Collection[str] = (), allow_where_no_rule_is: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._index = AclIndex(allow_where_no_rule_is)
        self.version = 0

    # --- the rules ---

    def load(self, image: ClusterImage) -> None:
        for known in image.acls.values():
            self._index.add(known.acl)
        for role in image.roles.values():
            self._add_all(role_acls(role))

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        if delta.acls or delta.roles:
            self.version += 1
        for acl_id in delta.acls:
            if acl_id in old.acls:
                self._index.remove(old.acls[acl_id].acl)
            if acl_id in new.acls:
                self._index.add(new.acls[acl_id].acl)
        for name in delta.roles:
            before, after = (
                Counter(role_acls(roles[name]) if name in roles else ()) for roles in (old.roles, new.roles)
            )
            for acl in (before - after).elements():
                self._index.remove(acl)
            self._add_all((after - before).elements())

    def _add_all(self, acls: Iterable[Acl]) -> None:
        for acl in acls:
            self._index.add(acl)

    # --- the questions ---

    def allows(
        self,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
        *,
        audited: bool = True,
        silent: bool = False,
    ) -> bool:
        client = context.client
        if client.principal in self._super_users:
            allowed = True
        else:
            bits = self._index.operations(client.principal, client.address, resource, name)
            allowed = bits >> operation & 1 == 1
        if silent:
            return allowed
        if not allowed:
            if audited:
                log.info("%s", Audit(self, context, operation, resource, name, allowed))
        elif log.isEnabledFor(logging.DEBUG):
            log.debug("%s", Audit(self, context, operation, resource, name, allowed))
        return allowed

    def allows_somewhere(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        client = context.client
        return client.principal in self._super_users or self._index.allows_somewhere(
            client.principal, client.address, operation, resource
        )

    def reason(self, context: RequestContext, operation: Operation, resource: Resource, name: str) -> str:
        """Why it was decided so, in the words of Kafka's own log."""
        client = context.client
        if client.principal in self._super_users:
            return "SuperUser"
        acl = self._index.reason(client.principal, client.address, operation, resource, name)
        if acl is not None:
            return f"MatchingAcl(acl={as_java(acl)})"
        bits = self._index.operations(client.principal, client.address, resource, name)
        return "DefaultAllow" if bits >> operation & 1 else "DefaultDeny"


class Audit:
    """A line of the log, made only where somebody writes it."""

    __slots__ = ("_parts",)

    def __init__(
        self,
        authorizer: StandardAuthorizer,
        context: RequestContext,
        operation: Operation,
        resource: Resource,
        name: str,
        allowed: bool,
    ) -> None:
        self._parts = (authorizer, context, operation, resource, name, allowed)

    def __str__(self) -> str:
        authorizer, context, operation, resource, name, allowed = self._parts
        return (
            f"Principal = {context.client.principal} is {'Allowed' if allowed else 'Denied'} "
            f"operation = {operation.name} from host = {context.client.address} "
            f"on resource = {_camel(resource.name)}:LITERAL:{_told(name)} "
            f"for request = {_camel(ApiKey(context.api_key).name)} "
            f"with resourceRefCount = 1 based on rule {authorizer.reason(context, operation, resource, name)}"
        )


def role_acls(role: RoleImage) -> list[Acl]:
    """What a role gives to each of its members."""
    return [
        Acl(each.resource, each.pattern, each.name, member, each.host, each.operation, Permission.ALLOW)
        for each in role.entry.permissions
        for member in role.entry.members
    ]


def as_java(acl: Acl) -> str:
    return (
        f"StandardAcl(resourceType={acl.resource.name}, resourceName={acl.name}, patternType={acl.pattern.name}, "
        f"principal={acl.principal}, host={acl.host}, operation={acl.operation.name}, "
        f"permissionType={acl.permission.name})"
    )


def _told(name: str) -> str:
    return name if len(name) <= LONGEST_NAME_TOLD else f"{name[:LONGEST_NAME_TOLD]}... ({len(name)} characters)"


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))
