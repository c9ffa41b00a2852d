"""What administrators see of groups: DescribeGroups and ListGroups."""

from __future__ import annotations

from collections.abc import Collection

from moldau.coordinators.groups.classic_group import ClassicGroup, GroupState
from moldau.coordinators.groups.tables import GroupTables
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember
from moldau.wire.messages.list_groups import ListedGroup

DEAD = "Dead"


class Descriptions:
    def __init__(self, tables: GroupTables) -> None:
        self._tables = tables

    def describe(self, group_id: str) -> DescribedGroup:
        """Raises GROUP_ID_NOT_FOUND."""
        group = self._tables.groups.get(group_id)
        if group is None:
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        if not isinstance(group, ClassicGroup):
            raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} is not a classic group.")
        is_stable = group.state is GroupState.STABLE
        protocol = group.protocol if is_stable else None
        return DescribedGroup(
            group_id=group_id,
            group_state=group.state_name,
            protocol_type=group.protocol_type,
            protocol_data=protocol or "",
            members=[
                DescribedGroupMember(
                    member_id=member.member_id,
                    group_instance_id=member.instance_id,
                    client_id=member.client_id,
                    client_host=member.client_host,
                    member_metadata=member.metadata_of(protocol) if is_stable else b"",
                    member_assignment=member.assignment,
                )
                for member in group.members.values()
            ],
        )

    def list(self, states: Collection[str], types: Collection[str]) -> list[ListedGroup]:
        """All groups in one of the states and of one of the types, both in lower case; none given means all."""
        return [
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state_name,
                group_type=group.group_type.value,
            )
            for group in self._tables.groups.values()
            if (not states or group.state_name.lower() in states) and (not types or group.group_type.value in types)
        ]
