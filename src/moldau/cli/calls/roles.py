"""Roles over our own client, in messages that only our brokers know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from moldau.client.asking.answers import refuse

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.metadata.controller.roles import RoleChange
    from moldau.metadata.security_codec import RoleEntry


def alter(cluster: Connection, changes: Sequence[RoleChange], *, validate_only: bool) -> None:
    from moldau.metadata.role_documents import encode_changes
    from moldau.wire.messages.alter_roles import AlterRolesRequest, AlterRolesResponse

    request = AlterRolesRequest(changes=encode_changes(changes), validate_only=validate_only)
    answer = cluster.wire().any(request, AlterRolesResponse)
    refuse(answer.error_code, answer.error_message)


def describe(cluster: Connection) -> dict[str, RoleEntry]:
    from moldau.metadata.role_documents import decode_roles
    from moldau.wire.messages.describe_roles import DescribeRolesRequest, DescribeRolesResponse

    answer = cluster.wire().any(DescribeRolesRequest(), DescribeRolesResponse)
    refuse(answer.error_code, answer.error_message)
    return decode_roles(answer.roles)
