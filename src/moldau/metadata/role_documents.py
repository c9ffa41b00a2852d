"""Roles as they travel between clients and brokers, in JSON; permissions are written as in the metadata store.

a change   {"action":"create"|"delete"|"grant"|"revoke","role":"..","permissions":[..],"members":["User:..",..]}
a role     {"role":"..","permissions":[{"resource":<n>,"pattern":<n>,"name":"..","host":"*","operation":<n>},..],
            "members":[..]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from moldau.metadata.controller.roles import RoleAction, RoleChange
from moldau.metadata.security_codec import RoleEntry, as_permission, permission_members
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.schema import Buffer


def encode_changes(changes: Sequence[RoleChange]) -> bytes:
    return _encoded(
        {
            "action": change.action.name.lower(),
            "role": change.name,
            "permissions": [permission_members(each) for each in change.permissions],
            "members": list(change.members),
        }
        for change in changes
    )


def decode_changes(data: Buffer) -> list[RoleChange]:
    """Raises INVALID_REQUEST."""
    try:
        return [
            RoleChange(
                RoleAction[_text(each["action"]).upper()],
                _text(each["role"]),
                tuple(map(as_permission, each.get("permissions", ()))),
                tuple(map(_text, each.get("members", ()))),
            )
            for each in json.loads(bytes(data))
        ]
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"changes of roles cannot be read: {error}") from None


def encode_roles(roles: Mapping[str, RoleEntry]) -> bytes:
    return _encoded(
        {
            "role": name,
            "permissions": [permission_members(each) for each in entry.permissions],
            "members": list(entry.members),
        }
        for name, entry in sorted(roles.items())
    )


def decode_roles(data: Buffer) -> dict[str, RoleEntry]:
    return {
        each["role"]: RoleEntry(tuple(map(as_permission, each["permissions"])), tuple(each["members"]))
        for each in json.loads(bytes(data))
    }


def _encoded(documents: Iterable[Mapping[str, Any]]) -> bytes:
    return json.dumps(list(documents), ensure_ascii=False, separators=(",", ":")).encode()


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value
