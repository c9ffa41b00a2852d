"""Thousands of rules about one name, one for each user: what a change costs does not grow with their number."""

from __future__ import annotations

import pytest

from moldau.security import acl_index
from moldau.security.acl_index import AclIndex
from moldau.types.acls import Acl, Operation, Pattern, Permission, Resource
from moldau.types.addresses import canonical

USERS = 300


def rule(number: int, operation: Operation = Operation.READ) -> Acl:
    return Acl(Resource.TOPIC, Pattern.LITERAL, "shared", f"User:u{number}", "*", operation, Permission.ALLOW)


def test_to_take_one_away_looks_at_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[str] = []

    def counting(host: str) -> str:
        looked_at.append(host)
        return canonical(host)

    index = AclIndex(allow_where_no_rule_is=True)
    for number in range(USERS):
        index.add(rule(number))
    monkeypatch.setattr(acl_index, "canonical", counting)
    for number in range(USERS):
        index.remove(rule(number))
    assert len(looked_at) <= 2 * USERS
    assert index.operations("User:u1", "10.0.0.1", Resource.TOPIC, "shared") == acl_index.ALL_BITS, "no rule is left"


def test_long_names_are_judged_alike_and_not_kept() -> None:
    index = AclIndex()
    index.add(Acl(Resource.TOPIC, Pattern.PREFIXED, "x" * 300, "User:u", "*", Operation.READ, Permission.ALLOW))
    for length, allowed in ((299, 0), (300, 1), (30_000, 1)):
        bits = index.operations("User:u", "10.0.0.1", Resource.TOPIC, "x" * length)
        assert bits >> Operation.READ & 1 == allowed
    assert not index._kept
    index.operations("User:u", "10.0.0.1", Resource.TOPIC, "x" * 249)
    assert len(index._kept) == 1


def test_what_is_left_still_counts() -> None:
    index = AclIndex()
    for operation in (Operation.READ, Operation.WRITE, Operation.READ):  # two roles may give the same
        index.add(rule(1, operation))
    index.remove(rule(1))
    bits = index.operations("User:u1", "10.0.0.1", Resource.TOPIC, "shared")
    assert [bits >> each & 1 for each in (Operation.READ, Operation.WRITE, Operation.DESCRIBE)] == [1, 1, 1]
    index.remove(rule(1))
    bits = index.operations("User:u1", "10.0.0.1", Resource.TOPIC, "shared")
    assert [bits >> each & 1 for each in (Operation.READ, Operation.WRITE, Operation.DESCRIBE)] == [0, 1, 1]
