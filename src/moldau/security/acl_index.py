"""All access rules, laid out so that a question finds the few that concern it.

Rules stand under (kind of resource, principal), there by literal name and by prefix; a question looks under the
client's own principal and under `User:*`, at the name itself, at `*`, and at as many beginnings of the name as there
are lengths of prefixes. What all of them say of a resource is one number, a bit for each operation, which is kept: the
next question about it, whatever the operation, is a look into a dictionary.

Hosts are compared as addresses, however they are written; the address that is asked about has to be `canonical`.

The same rule may be there several times (two roles may give the same permission): each is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from moldau.types.acls import ANYBODY, WILDCARD, Acl, Operation, Pattern, Permission, Resource
from moldau.types.addresses import canonical

KEPT_ANSWERS: Final = 50_000
LONGEST_KEPT_NAME: Final = 255
"""Longer ones are nearly always made up: the answers about them are found anew, so that they take no memory."""
ALL_BITS: Final = sum(1 << operation for operation in Operation)

_IMPLIED: Final = {
    Operation.DESCRIBE: (Operation.DESCRIBE, Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
    Operation.DESCRIBE_CONFIGS: (Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS),
}
"""Which allowed operations allow these two as well. A denied one denies itself alone."""


def bits_of(operation: Operation, permission: Permission) -> int:
    """The operations that a rule about this one allows or denies."""
    if operation is Operation.ALL:
        return ALL_BITS
    bits = 1 << operation
    if permission is Permission.ALLOW:
        for implied, givers in _IMPLIED.items():
            if operation in givers:
                bits |= 1 << implied
    return bits


class Names:
    """Rules under literal names and under prefixes; `lengths` are those of the prefixes, each once, ascending."""

    __slots__ = ("_counted", "lengths", "literal", "prefixed")

    def __init__(self) -> None:
        self.literal: dict[str, Rules] = {}
        self.prefixed: dict[str, Rules] = {}
        self.lengths: tuple[int, ...] = ()
        self._counted: Counter[int] = Counter()

    def add(self, acl: Acl) -> None:
        named = self.prefixed if acl.pattern is Pattern.PREFIXED else self.literal
        rules = named.get(acl.name)
        if rules is None:
            rules = named[acl.name] = Rules()
            self._count(acl, 1)
        rules.add(acl)

    def remove(self, acl: Acl) -> None:
        named = self.prefixed if acl.pattern is Pattern.PREFIXED else self.literal
        rules = named[acl.name]
        rules.remove(acl)
        if not rules.acls:
            del named[acl.name]
            self._count(acl, -1)

    def _count(self, acl: Acl, more: int) -> None:
        if acl.pattern is Pattern.PREFIXED:
            self._counted[len(acl.name)] += more
            if self._counted[len(acl.name)] in (0, more):
                self._counted += Counter()  # leaves out what is at zero
                self.lengths = tuple(sorted(self._counted))

    def covering(self, name: str) -> Iterator[Rules]:
        for literal in {name, WILDCARD}:
            found = self.literal.get(literal)
            if found is not None:
                yield found
        for length in self.lengths:
            if length > len(name):
                return
            found = self.prefixed.get(name[:length])
            if found is not None:
                yield found

    @property
    def is_empty(self) -> bool:
        return not self.literal and not self.prefixed


class Rules:
    """The rules of one pattern, and what they allow and deny by host: one for each user, there may be thousands."""

    __slots__ = ("_operations", "acls", "allowed", "denied")

    def __init__(self) -> None:
        self.acls: Counter[Acl] = Counter()
        self.allowed: dict[str, int] = {}
        self.denied: dict[str, int] = {}
        self._operations: dict[tuple[Permission, str], Counter[Operation]] = {}

    def add(self, acl: Acl) -> None:
        self.acls[acl] += 1
        self._count(acl, 1)

    def remove(self, acl: Acl) -> None:
        self.acls[acl] -= 1
        if not self.acls[acl]:
            del self.acls[acl]
        self._count(acl, -1)

    def _count(self, acl: Acl, more: int) -> None:
        host = canonical(acl.host)
        key = acl.permission, host
        counted = self._operations.setdefault(key, Counter())
        counted[acl.operation] += more
        if not counted[acl.operation]:
            del counted[acl.operation]
        side = self.allowed if acl.permission is Permission.ALLOW else self.denied
        if counted:
            side[host] = 0
            for operation in counted:
                side[host] |= bits_of(operation, acl.permission)
        else:
            del self._operations[key], side[host]

    def allows(self, host: str) -> int:
        return self.allowed.get(host, 0) | self.allowed.get(WILDCARD, 0)

    def denies(self, host: str) -> int:
        return self.denied.get(host, 0) | self.denied.get(WILDCARD, 0)


class AclIndex:
    def __init__(self, allow_where_no_rule_is: bool = False) -> None:
        """`allow_where_no_rule_is`: whoever asks for a resource that no rule is about may do everything."""
        self._allow_where_no_rule_is = allow_where_no_rule_is
        self._by_principal: dict[tuple[Resource, str], Names] = {}
        self._all: dict[Resource, Names] = {}
        self._kept: dict[tuple[str, str, Resource, str], int] = {}
        self._kept_anywhere: dict[tuple[str, str, Resource, Operation], bool] = {}

    def add(self, acl: Acl) -> None:
        self._by_principal.setdefault((acl.resource, acl.principal), Names()).add(acl)
        self._all.setdefault(acl.resource, Names()).add(acl)
        self._forget()

    def remove(self, acl: Acl) -> None:
        key = (acl.resource, acl.principal)
        names = self._by_principal[key]
        names.remove(acl)
        if names.is_empty:
            del self._by_principal[key]
        self._all[acl.resource].remove(acl)
        self._forget()

    def _forget(self) -> None:
        self._kept.clear()
        self._kept_anywhere.clear()

    def operations(self, principal: str, host: str, resource: Resource, name: str) -> int:
        """A bit for each operation that is allowed."""
        if len(name) > LONGEST_KEPT_NAME:
            return self._find(principal, host, resource, name)
        key = (principal, host, resource, name)
        bits = self._kept.get(key)
        if bits is None:
            if len(self._kept) >= KEPT_ANSWERS:
                self._kept.clear()
            bits = self._kept[key] = self._find(principal, host, resource, name)
        return bits

    def _find(self, principal: str, host: str, resource: Resource, name: str) -> int:
        allowed = denied = 0
        for rules in self._concerning(principal, resource, name):
            allowed |= rules.allows(host)
            denied |= rules.denies(host)
        if self._allow_where_no_rule_is and not self._is_covered(resource, name):
            return ALL_BITS
        return allowed & ~denied

    def _concerning(self, principal: str, resource: Resource, name: str) -> Iterator[Rules]:
        for whose in {principal, ANYBODY}:
            names = self._by_principal.get((resource, whose))
            if names is not None:
                yield from names.covering(name)

    def _is_covered(self, resource: Resource, name: str) -> bool:
        names = self._all.get(resource)
        return names is not None and any(True for _ in names.covering(name))

    def reason(self, principal: str, host: str, operation: Operation, resource: Resource, name: str) -> Acl | None:
        """The rule that decides, one of those that deny first; None where there is none."""
        found = None
        for rules in self._concerning(principal, resource, name):
            for acl in rules.acls:
                if canonical(acl.host) in (host, WILDCARD) and bits_of(acl.operation, acl.permission) & (
                    1 << operation
                ):
                    if acl.permission is Permission.DENY:
                        return acl
                    found = acl
        return found

    def allows_somewhere(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        """Whether there is any name at all for which the operation is allowed, as far as Kafka looks."""
        key = (principal, host, resource, operation)
        kept = self._kept_anywhere.get(key)
        if kept is None:
            if len(self._kept_anywhere) >= KEPT_ANSWERS:
                self._kept_anywhere.clear()
            kept = self._kept_anywhere[key] = self._find_somewhere(principal, host, operation, resource)
        return kept

    def _find_somewhere(self, principal: str, host: str, operation: Operation, resource: Resource) -> bool:
        if self.operations(principal, host, resource, "hardcode") & (1 << operation):
            return True
        mine = [
            acl
            for whose in {principal, ANYBODY}
            if (names := self._by_principal.get((resource, whose))) is not None
            for rules in (*names.literal.values(), *names.prefixed.values())
            for acl in rules.acls
            if canonical(acl.host) in (host, WILDCARD) and acl.operation in (operation, Operation.ALL)
        ]
        denied = [acl for acl in mine if acl.permission is Permission.DENY]
        literal = {acl.name for acl in denied if acl.pattern is Pattern.LITERAL}
        if WILDCARD in literal:
            return False
        prefixes = {acl.name for acl in denied if acl.pattern is Pattern.PREFIXED}
        return any(acl.permission is Permission.ALLOW and not _is_dominated(acl, literal, prefixes) for acl in mine)


def _is_dominated(allowed: Acl, literal: set[str], prefixes: set[str]) -> bool:
    """Whether a denial covers all that this rule allows."""
    if allowed.pattern is Pattern.LITERAL:
        if allowed.name == WILDCARD:
            return False
        if allowed.name in literal:
            return True
    return any(allowed.name[:length] in prefixes for length in range(1, len(allowed.name) + 1))
