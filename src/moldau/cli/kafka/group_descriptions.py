"""What kafka-consumer-groups --describe prints: offsets with lag, members, state."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.cli.calls.group_states import Group, Member
from moldau.cli.kafka.group_errors import described, print_error
from moldau.cli.kafka.options import Options
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

MISSING = "-"
REBALANCING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")


def describe_groups(connection: Connection, group_ids: Sequence[str], options: Options) -> None:
    groups = [described(connection, group_id) for group_id in sorted(set(group_ids))]
    verbose = options.has("verbose")
    for group in groups:
        if options.has("members"):
            print_members(group, verbose)
        elif options.has("state"):
            print_state(group, verbose)
        else:
            print_offsets(group, rows_of(connection, group), verbose)


def worth_printing(group: Group, rows: int) -> bool:
    sys.stdout.flush()
    if group.state == "Dead":
        print_error(f"Consumer group '{group.group_id}' does not exist.")
    elif group.state == "Empty":
        print(f"\nConsumer group '{group.group_id}' has no active members.", file=sys.stderr)
    elif group.state in REBALANCING:
        print(f"\nWarning: Consumer group '{group.group_id}' is rebalancing.", file=sys.stderr)
    return group.state != "Dead" and rows > 0


# -- offsets -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Row:
    topic: str
    partition: int
    epoch: int | None
    offset: int | None
    end: int | None
    member: str = MISSING
    host: str = MISSING
    client: str = MISSING

    @property
    def lag(self) -> int | None:
        return None if self.offset is None or self.end is None or self.offset == -1 else self.end - self.offset


def rows_of(connection: Connection, group: Group) -> list[Row]:
    from moldau.cli.kafka.group_offsets import committed_offsets, end_offsets

    committed = committed_offsets(connection, group.group_id)
    owned: dict[TopicPartition, Member] = {}
    members = sorted((each for each in group.members if each.assigned), key=lambda each: -len(each.assigned))
    for member in members:
        owned |= dict.fromkeys(member.assigned, member)
    free = [partition for partition in committed if partition not in owned]
    ends = end_offsets(connection, [*owned, *free])

    def row(partition: TopicPartition, member: Member | None) -> Row:
        offset, epoch = committed.get(partition, (None, None))
        who = (member.member_id, member.host, member.client_id) if member else (MISSING, MISSING, MISSING)
        return Row(*partition, epoch, offset, ends.get(partition), *who)

    rows = [row(partition, member) for member in members for partition in sorted(member.assigned)]
    return rows + [row(partition, None) for partition in sorted(free)]


def print_offsets(group: Group, rows: list[Row], verbose: bool) -> None:
    if not worth_printing(group, len(rows)):
        return
    widths = [
        width([group.group_id]), width([row.topic for row in rows]), 10, *([15] if verbose else []), 15, 15, 15,
        width([row.member for row in rows]), width([row.host for row in rows]), 0,
    ]  # fmt: skip
    epoch_title = ("LEADER-EPOCH",) if verbose else ()
    titles = ("GROUP", "TOPIC", "PARTITION", *epoch_title, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")
    print()
    print(line((*titles, "CONSUMER-ID", "HOST", "CLIENT-ID"), widths))
    for row in rows:
        epoch = (shown(row.epoch),) if verbose else ()
        numbers = (shown(row.offset), shown(row.end), shown(row.lag))
        cells = (group.group_id, row.topic, str(row.partition), *epoch, *numbers, row.member, row.host, row.client)
        print(line(cells, widths))


# -- members -------------------------------------------------------------------------------------------------------


def print_members(group: Group, verbose: bool) -> None:
    worth_printing(group, len(group.members))
    members = group.members
    static = any(member.instance_id for member in members)
    kinds = {member.upgraded for member in members} - {None}
    migrating = len(kinds) == 2
    widths = [
        width([group.group_id]),
        width([member.member_id for member in members]),
        *([width([member.instance_id for member in members], 17)] if static else []),
        width([member.host for member in members]),
        width([member.client_id for member in members]),
        15,
    ]
    instance_title = ("GROUP-INSTANCE-ID",) if static else ()
    heading = line(("GROUP", "CONSUMER-ID", *instance_title, "HOST", "CLIENT-ID", "#PARTITIONS"), widths) + " "
    more = [
        15,
        width([assignment_text(member.assigned) for member in members], 20),
        15,
        width([assignment_text(member.target) for member in members], 20),
        *([0] if migrating else []),
    ]
    if verbose:
        upgraded_title = ("UPGRADED",) if migrating else ()
        titles = ("CURRENT-EPOCH", "CURRENT-ASSIGNMENT", "TARGET-EPOCH", "TARGET-ASSIGNMENT", *upgraded_title)
        heading += line(titles, more)
    print(f"\n{heading}")
    for member in members:
        instance = (member.instance_id,) if static else ()
        who = (group.group_id, member.member_id, *instance, member.host, member.client_id, str(len(member.assigned)))
        text = line(who, widths) + " "
        if verbose:
            upgraded = (MISSING if member.upgraded is None else str(member.upgraded).lower(),) if migrating else ()
            text += line(
                (
                    shown(member.epoch),
                    assignment_text(member.assigned),
                    shown(group.target_epoch),
                    assignment_text(member.target),
                    *upgraded,
                ),
                more,
            )
        print(text)


def assignment_text(partitions: Sequence[TopicPartition]) -> str:
    by_topic: dict[str, list[int]] = {}
    for topic, index in partitions:
        by_topic.setdefault(topic, []).append(index)
    texts = (f"{topic}:{','.join(map(str, sorted(indexes)))}" for topic, indexes in by_topic.items())
    return ";".join(sorted(texts)) or MISSING


# -- state ---------------------------------------------------------------------------------------------------------


def print_state(group: Group, verbose: bool) -> None:
    if not worth_printing(group, 1):
        return
    coordinator = f"{group.coordinator}  ({group.coordinator_id})"
    widths = [width([group.group_id]), width([coordinator], 25), 20, 20, *([15, 25] if verbose else []), 0]
    epoch_titles = ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH") if verbose else ()
    epochs = (shown(group.epoch), shown(group.target_epoch)) if verbose else ()
    print()
    print(line(("GROUP", "COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", *epoch_titles, "#MEMBERS"), widths))
    cells = (group.group_id, coordinator, group.assignor or MISSING, group.state, *epochs, str(len(group.members)))
    print(line(cells, widths))


# -- columns -------------------------------------------------------------------------------------------------------


def width(cells: Sequence[str], narrowest: int = 15) -> int:
    return max([narrowest, *map(len, cells)])


def line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(cell.ljust(size) for cell, size in zip(cells, widths, strict=True))


def shown(number: int | None) -> str:
    return MISSING if number is None else str(number)
