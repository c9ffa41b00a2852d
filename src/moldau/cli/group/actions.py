"""What `moldau group` does."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

from moldau.cli import hidden, refusals, times
from moldau.cli.calls import groups, offsets
from moldau.cli.calls.answers import place_of, refuse
from moldau.cli.calls.groups import Committed
from moldau.cli.calls.offsets import At
from moldau.cli.connection import Connection
from moldau.cli.group import plan
from moldau.cli.group.plan import Step
from moldau.cli.output import (
    FAILED,
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
from moldau.types.ids import TopicPartition

IDLE: Final = ("Empty", "Dead")
TYPES: Final = ("classic", "consumer")


@dataclass(frozen=True, slots=True)
class Target:
    """Where to: exactly one of these is given."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    to_datetime: str | None = None
    by_duration: str | None = None
    shift_by: int | None = None
    to_group: str | None = None
    from_file: Path | None = None

    def chosen(self) -> str:
        given = [each.name for each in fields(self) if getattr(self, each.name) not in (None, False)]
        if len(given) == 1:
            return given[0]
        options = ", ".join(f"--{each.name.replace('_', '-')}" for each in fields(self))
        problem = (
            "say where to"
            if not given
            else "these exclude each other: " + ", ".join(f"--{name.replace('_', '-')}" for name in given)
        )
        raise CommandError(problem, f"give one of {options}", WRONG_USAGE)


# -- list, describe, state ---------------------------------------------------------------------------------------


def list_groups(
    cluster: Connection, states: Sequence[str], kinds: Sequence[str], show_all: bool, output: Format
) -> None:
    by_name = groups.states_by_name()
    wanted_states = [_chosen(text, by_name, "state") for text in states]
    wanted_types = [_chosen(text, dict(zip(TYPES, TYPES, strict=True)), "type") for text in kinds]
    with refusals.while_doing("cannot list the groups"):
        found = groups.list_groups(cluster, wanted_states, wanted_types)
    rows: list[dict[str, Any]] = [
        {
            "group": group.group_id,
            "state": groups.state_name(group.state),
            "type": groups.type_name(group.type).lower(),
            "simple": bool(group.is_simple_consumer_group),
        }
        for group in found
        if show_all or not hidden.hidden_group(group.group_id)
    ]
    if output is Format.wide:
        details = {item["group"]: item for item in _described(cluster, [row["group"] for row in rows])}
        for row in rows:
            detail = details[row["group"]]
            row |= {"members": len(detail["members"]), "lag": detail["total_lag"], "on": detail["coordinator"]["id"]}

    def tables() -> list[Table]:
        wide = [Column(heading, right=True, wide=True) for heading in ("members", "lag", "coordinator")]
        table = Table([Column("group"), Column("state"), Column("type"), *wide])
        for row in rows:
            table.add(row["group"], row["state"], row["type"], row.get("members"), row.get("lag"), row.get("on"))
        return [table]

    show(output, rows, tables, empty="no groups")


def _chosen(text: str, known: Mapping[str, Any], what: str) -> Any:
    if text.lower() not in known:
        hint = nearest(text.lower(), list(known)) or f"known are {', '.join(known)}"
        raise CommandError(f"{text!r} is no {what} of a group", hint, WRONG_USAGE)
    return known[text.lower()]


def describe(cluster: Connection, names: Sequence[str], members: bool, output: Format) -> None:
    found = _described(cluster, list(dict.fromkeys(names)))
    with_members = members or output is Format.wide

    def tables() -> list[Table]:
        return [table for group in found for table in _description_tables(group, with_members)]

    show(output, found, tables)


def _described(cluster: Connection, names: Sequence[str]) -> list[dict[str, Any]]:
    found = refusals.existing_groups(cluster, names)
    commits = {name: _committed(cluster, name) for name in names}
    owners = {name: _owners(group) for name, group in found.items()}
    places = {place for name in names for place in (*commits[name], *owners[name])}
    ends = offsets.listed(cluster, sorted(places), At.END)
    return [_document(found[name], commits[name], owners[name], ends) for name in names]


def _committed(cluster: Connection, group: str) -> dict[TopicPartition, Committed]:
    with refusals.while_doing(f"cannot read the offsets of group {group!r}"):
        return groups.committed(cluster, group)


def _owners(group: Any) -> dict[TopicPartition, Any]:
    return {place_of(each): member for member in group.members for each in member.assignment.topic_partitions}


def _summary(group: Any) -> dict[str, Any]:
    node = group.coordinator
    return {
        "group": group.group_id,
        "state": groups.state_name(group.state),
        "type": groups.type_name(group.type).lower(),
        "assignor": group.partition_assignor or None,
        "simple": bool(group.is_simple_consumer_group),
        "coordinator": {"id": node.id, "host": node.host, "port": node.port} if node is not None else None,
    }


def _document(
    group: Any,
    commits: Mapping[TopicPartition, Committed],
    owners: Mapping[TopicPartition, Any],
    ends: Mapping[TopicPartition, Any],
) -> dict[str, Any]:
    rows: list[dict[str, Any]] = []
    for place in sorted({*commits, *owners}):
        commit, owner, end = commits.get(place), owners.get(place), ends[place]
        end_offset = end if isinstance(end, int) else None
        offset = commit.offset if commit else None
        lag = max(0, end_offset - offset) if end_offset is not None and offset is not None else None
        rows.append(
            {
                "topic": place.topic,
                "partition": place.partition,
                "offset": offset,
                "end_offset": end_offset,
                "lag": lag,
                "metadata": commit.metadata if commit else None,
                "member": owner.member_id if owner else None,
                "client_id": owner.client_id if owner else None,
                "host": owner.host if owner else None,
            }
        )
    members = [
        {
            "member": member.member_id,
            "instance": member.group_instance_id,
            "client_id": member.client_id,
            "host": member.host,
            "partitions": [[each.topic, each.partition] for each in member.assignment.topic_partitions],
        }
        for member in group.members
    ]
    total = sum(row["lag"] for row in rows if row["lag"] is not None)
    return _summary(group) | {"total_lag": total, "members": members, "offsets": rows}


def _description_tables(group: dict[str, Any], with_members: bool) -> list[Table]:
    members = plural(len(group["members"]), "member")
    title = f"{group['group']}: {group['state']}, {group['type']}, {members}, lag {group['total_lag']:,}"
    positions = Table(
        [
            Column("topic"),
            Column("partition", right=True),
            Column("offset", right=True),
            Column("end offset", right=True),
            Column("lag", right=True),
            Column("client"),
            Column("host", wide=True),
            Column("member", wide=True),
        ],
        title,
    )
    for row in group["offsets"]:
        keys = ("topic", "partition", "offset", "end_offset", "lag", "client_id", "host", "member")
        positions.add(*(row[key] for key in keys))
    if not with_members:
        return [positions]
    owners = Table([Column("member"), Column("instance"), Column("client"), Column("host"), Column("reads")])
    for member in group["members"]:
        reads = [f"{topic}-{partition}" for topic, partition in member["partitions"]]
        owners.add(member["member"], member["instance"], member["client_id"], member["host"], reads)
    return [positions, owners]


def state(cluster: Connection, names: Sequence[str], output: Format) -> None:
    found = refusals.existing_groups(cluster, list(dict.fromkeys(names)))
    rows = [_summary(group) | {"members": len(group.members)} for group in found.values()]

    def tables() -> list[Table]:
        headings = (Column("group"), Column("state"), Column("type"), Column("assignor"), Column("members", right=True))
        table = Table([*headings, Column("coordinator")])
        for row in rows:
            node = row["coordinator"]
            where = f"{node['host']}:{node['port']} ({node['id']})" if node else None
            table.add(row["group"], row["state"], row["type"], row["assignor"], row["members"], where)
        return [table]

    show(output, rows, tables)


# -- reset -------------------------------------------------------------------------------------------------------


def reset(
    cluster: Connection,
    name: str,
    topics: Sequence[str],
    target: Target,
    execute: bool,
    dry_run: bool,
    output: Format,
) -> None:
    if execute and dry_run:
        raise CommandError("--execute and --dry-run exclude each other", "give one of them", WRONG_USAGE)
    how = target.chosen()
    from_file = plan.read_offsets(target.from_file, name) if target.from_file else {}
    state = groups.state_name(refusals.described_groups(cluster, [name])[name].state)
    if execute and state not in IDLE:
        hint = "stop its members first; `moldau group describe` lists them"
        raise CommandError(f"group {name!r} is {state}", hint, FAILED)
    current = {place: commit.offset for place, commit in _committed(cluster, name).items()}
    source = from_file or (_commits_of(cluster, target.to_group) if target.to_group else {})
    places = _places(cluster, name, plan.parse_topics(topics), source or current)
    if source:
        places = [place for place in places if place in source]
    steps = _steps(cluster, places, current, _wanted(cluster, how, target, places, current, source))
    if execute:
        _carry_out(cluster, name, steps)
    _show_plan(name, steps, execute, output)


def _commits_of(cluster: Connection, group: str) -> dict[TopicPartition, int]:
    refusals.existing_groups(cluster, [group])
    return {place: commit.offset for place, commit in _committed(cluster, group).items()}


def _places(
    cluster: Connection, group: str, topics: Mapping[str, list[int] | None], known: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    """The named partitions, or all that the group (or the file) has offsets for."""
    if not topics:
        if not known:
            hint = "say which topics: --topic TOPIC"
            raise CommandError(f"group {group!r} has no committed offsets", hint, NOT_FOUND)
        topics = dict.fromkeys(sorted({place.topic for place in known}))
        wanted = set(known)
    else:
        wanted = set()
    described = refusals.described_topics(cluster, list(topics))
    found = []
    for topic, numbers in topics.items():
        existing = {part.id for part in described[topic].partitions}
        chosen = {place.partition for place in wanted if place.topic == topic} or set(numbers or existing)
        if missing := chosen - existing:
            raise CommandError(f"topic {topic!r} has no partition {min(missing)}", exit_code=NOT_FOUND)
        found += [TopicPartition(topic, number) for number in sorted(chosen)]
    return found


def _wanted(
    cluster: Connection,
    how: str,
    target: Target,
    places: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int],
    source: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int | None]:
    """Offsets to go to; None is the end of the partition, -1 before its first record."""
    if source:
        return {place: source[place] for place in places}
    match how:
        case "to_earliest":
            return dict.fromkeys(places, -1)
        case "to_current":
            return {place: current.get(place) for place in places}
        case "to_offset":
            return dict.fromkeys(places, target.to_offset)
        case "shift_by":
            return dict(plan.shifted(places, current, target.shift_by or 0))
        case "to_datetime" | "by_duration":
            return _at(cluster, places, _instant(target))
    return dict.fromkeys(places, None)


def _instant(target: Target) -> int:
    now_ms = time.time_ns() // 1_000_000
    if target.by_duration is not None:
        return now_ms - times.duration_ms(target.by_duration)
    return times.instant_ms(target.to_datetime or "", now_ms)


def _at(cluster: Connection, places: Sequence[TopicPartition], instant: int) -> dict[TopicPartition, int | None]:
    answers = offsets.listed(cluster, places, instant)
    found = {place: refusals.required(f"offset of {place}", answer) for place, answer in answers.items()}
    return {place: None if offset < 0 else offset for place, offset in found.items()}


def _steps(
    cluster: Connection,
    places: Sequence[TopicPartition],
    current: Mapping[TopicPartition, int],
    wanted: Mapping[TopicPartition, int | None],
) -> list[Step]:
    ranges = offsets.log_ranges(cluster, places)
    found = []
    for place in places:
        first, end = ranges[place]
        if first is None or end is None:
            raise CommandError(f"{place} has no leader that answers", "see `moldau cluster health`", FAILED)
        target = wanted[place]
        where = end if target is None else first if target < 0 else target
        found.append(plan.step(place, current.get(place), where, first, end))
    return found


def _carry_out(cluster: Connection, name: str, steps: Sequence[Step]) -> None:
    with refusals.while_doing(f"cannot move group {name!r}"):
        groups.commit(cluster, name, {step.place: step.offset for step in steps})


def _show_plan(name: str, steps: Sequence[Step], executed: bool, output: Format) -> None:
    rows = [
        {
            "topic": step.place.topic,
            "partition": step.place.partition,
            "offset": step.offset,
            "current": step.current,
            "first_offset": step.first,
            "end_offset": step.end,
        }
        for step in steps
    ]

    def tables() -> list[Table]:
        numbers = ("partition", "current", "new offset", "lag then")
        wide = [Column("first offset", right=True, wide=True), Column("end offset", right=True, wide=True)]
        table = Table([Column("topic"), *(Column(heading, right=True) for heading in numbers), *wide])
        for step in steps:
            lag = step.end - step.offset
            table.add(step.place.topic, step.place.partition, step.current, step.offset, lag, step.first, step.end)
        return [table]

    show(output, [{"group": name, "executed": executed, "offsets": rows}], tables)
    for step in steps:
        if step.clipped:
            note(f"{step.place}: {step.wanted} is not within {step.first} to {step.end}; {step.offset} is taken")
    note(f"moved group {name}" if executed else "this is the plan; add --execute to carry it out")


# -- delete ------------------------------------------------------------------------------------------------------


def delete(cluster: Connection, names: Sequence[str], topics: Sequence[str], dry_run: bool, yes: bool) -> None:
    wanted = list(dict.fromkeys(names))
    refusals.existing_groups(cluster, wanted)
    if topics:
        _delete_offsets(cluster, wanted, plan.parse_topics(topics), dry_run, yes)
        return
    if dry_run:
        for name in wanted:
            print(f"would delete group {name}")
        return
    confirm(f"Delete {', '.join(wanted)} and the offsets committed by it?", yes)
    answers = groups.delete(cluster, wanted)
    for name, refused in answers.items():
        if refused is None:
            print(f"deleted group {name}")
    for name, refused in answers.items():
        if refused is not None:
            raise refusals.failure(f"cannot delete group {name!r}", refused)


def _delete_offsets(
    cluster: Connection, names: Sequence[str], topics: Mapping[str, list[int] | None], dry_run: bool, yes: bool
) -> None:
    chosen: dict[str, list[TopicPartition]] = {}
    for group in names:
        commits = _committed(cluster, group)
        for topic, numbers in topics.items():
            found = [p for p in commits if p.topic == topic and (numbers is None or p.partition in numbers)]
            if not found:
                raise CommandError(f"group {group!r} has no offsets for topic {topic!r}", exit_code=NOT_FOUND)
            chosen.setdefault(group, []).extend(found)
    if not dry_run:
        confirm(f"Delete the offsets of {', '.join(names)} for {', '.join(topics)}?", yes)
    for group, places in chosen.items():
        if not dry_run:
            _delete_offsets_of(cluster, group, places)
        verb = "would delete" if dry_run else "deleted"
        print(f"{verb} the offsets of group {group} for {', '.join(map(str, places))}")


def _delete_offsets_of(cluster: Connection, group: str, places: Sequence[TopicPartition]) -> None:
    with refusals.while_doing(f"cannot delete offsets of group {group!r}"):
        for place, error in groups.delete_offsets(cluster, group, places).items():
            refuse(error, f"{place}: {error.name}")
