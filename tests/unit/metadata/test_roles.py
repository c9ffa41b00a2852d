"""Roles: what changes make of them, what is refused, and how they travel."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from moldau.metadata.controller.roles import RoleAction, RoleChange, alter_roles
from moldau.metadata.image import ClusterImage, RoleImage
from moldau.metadata.role_documents import decode_changes, decode_roles, encode_changes, encode_roles
from moldau.metadata.security_codec import RoleEntry, RolePermission, decode_role
from moldau.metadata.store import Delete, Put
from moldau.types.acls import Operation, Pattern, Resource
from moldau.types.errors import ErrorCode, KafkaError

READ = RolePermission(Resource.TOPIC, Pattern.LITERAL, "t", "*", Operation.READ)
WRITE = RolePermission(Resource.TOPIC, Pattern.PREFIXED, "t", "1.2.3.4", Operation.WRITE)
NO_PATTERN = RolePermission(Resource.TOPIC, Pattern.MATCH, "t", "*", Operation.READ)
WRONG_CLUSTER = RolePermission(Resource.CLUSTER, Pattern.LITERAL, "mine", "*", Operation.ALTER)


def image(**roles: RoleEntry) -> ClusterImage:
    return ClusterImage(roles=MappingProxyType({name: RoleImage(entry, 7) for name, entry in roles.items()}))


def after(present: ClusterImage, *changes: RoleChange) -> dict[str, RoleEntry | None]:
    found: dict[str, RoleEntry | None] = {}
    for operation in alter_roles(present, changes, validate_only=False).operations:
        name = operation.path.removeprefix("/roles/")
        assert isinstance(operation, Put | Delete)
        found[name] = decode_role("", operation.value) if isinstance(operation, Put) else None
    return found


def test_permissions_and_members_are_given_and_taken() -> None:
    present = image(r=RoleEntry((READ,), ("User:a",)))
    grant = RoleChange(RoleAction.GRANT, "r", (WRITE, READ), ("User:b", "User:a"))
    assert after(present, grant) == {"r": RoleEntry((READ, WRITE), ("User:a", "User:b"))}
    revoke = RoleChange(RoleAction.REVOKE, "r", (READ,), ("User:a", "User:nobody"))
    assert after(present, grant, revoke) == {"r": RoleEntry((WRITE,), ("User:b",))}
    assert after(present, RoleChange(RoleAction.DELETE, "r")) == {"r": None}
    made = RoleChange(RoleAction.CREATE, "new", (READ,))
    assert after(present, made) == {"new": RoleEntry((READ,))}
    assert after(present, made, RoleChange(RoleAction.DELETE, "new")) == {}
    assert after(present, RoleChange(RoleAction.GRANT, "r", (READ,))) == {}


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (RoleChange(RoleAction.CREATE, "r"), ErrorCode.INVALID_REQUEST),
        (RoleChange(RoleAction.CREATE, ""), ErrorCode.INVALID_REQUEST),
        (RoleChange(RoleAction.CREATE, "x", (NO_PATTERN,)), ErrorCode.INVALID_REQUEST),
        (RoleChange(RoleAction.GRANT, "r", (WRONG_CLUSTER,)), ErrorCode.INVALID_REQUEST),
        (RoleChange(RoleAction.GRANT, "r", (), ("a",)), ErrorCode.INVALID_REQUEST),
        (RoleChange(RoleAction.GRANT, "none"), ErrorCode.RESOURCE_NOT_FOUND),
        (RoleChange(RoleAction.DELETE, "none"), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_what_cannot_be_is_refused_with_all_that_came_with_it(change: RoleChange, code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        alter_roles(image(r=RoleEntry()), [RoleChange(RoleAction.CREATE, "good"), change], validate_only=False)
    assert refused.value.code is code


def test_nothing_is_changed_where_it_is_only_validated() -> None:
    assert not alter_roles(image(), [RoleChange(RoleAction.CREATE, "r", (READ,))], validate_only=True).operations


def test_documents_come_back_as_they_went() -> None:
    changes = [RoleChange(action, "rôle", (READ, WRITE), ("User:a",)) for action in RoleAction]
    assert decode_changes(encode_changes(changes)) == changes
    roles = {"a": RoleEntry((READ,), ("User:ä",)), "b": RoleEntry()}
    assert decode_roles(encode_roles(roles)) == roles


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xff", b"{}", b"[1]", b'[{"role":"r"}]', b'[{"action":"fly","role":"r"}]', b'[{"action":1,"role":"r"}]',
        b'[{"action":"grant","role":1}]', b'[{"action":"grant","role":"r","members":[1]}]',
        b'[{"action":"grant","role":"r","permissions":[{}]}]', b"[" * 100_000,
        b'[{"action":"grant","role":"r","permissions":[{"resource":9,"pattern":3,"name":"t","host":"*","operation":3}]}]',
    ],
    ids=lambda data: data[:60].decode(errors="replace"),
)  # fmt: skip
def test_documents_that_nobody_writes_are_refused(data: bytes) -> None:
    if data == b"{}":
        assert decode_changes(data) == []
        return
    with pytest.raises(KafkaError) as refused:
        decode_changes(data)
    assert refused.value.code is ErrorCode.INVALID_REQUEST
