"""Where a group's offsets would go, or go: kafka-consumer-groups --reset-offsets."""

from __future__ import annotations

import csv
import io
import re
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from moldau.cli.calls import groups
from moldau.cli.calls.reassignments import layout
from moldau.cli.group import plan as group_plan
from moldau.cli.kafka.failures import java_message
from moldau.cli.kafka.group_errors import IllegalArgument, Wrapped, described, print_error
from moldau.cli.kafka.group_offsets import committed_offsets, end_offsets, offsets_at, start_offsets
from moldau.cli.kafka.options import Options, ToolError
from moldau.cli.offset_rows import BadRowError, offset_rows
from moldau.types.errors import KafkaError
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection

Offsets = dict[TopicPartition, int]
DURATION: Final = re.compile(
    r"([+-]?)P(?:([+-]?\d+)D)?(?:T(?:([+-]?\d+)H)?(?:([+-]?\d+)M)?(?:([+-]?\d+(?:\.\d{0,9})?)S)?)?", re.IGNORECASE
)
TIME: Final = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})\.(\d{1,3})(Z|[+-]\d{2}(?::?\d{2})?)")


def reset_offsets(connection: Connection, group_ids: Sequence[str], options: Options) -> None:
    planned = {group_id: reset_group(connection, group_id, options) for group_id in group_ids}
    if options.has("export"):
        print(exported(planned, single=len(options.texts("group")) == 1))
    else:
        print_planned(planned)


def reset_group(connection: Connection, group_id: str, options: Options) -> Offsets:
    state = state_of(connection, group_id)
    if state not in ("Empty", "Dead"):
        print_error(
            f"Assignments can only be reset if the group '{group_id}' is inactive, but the current state is {state}."
        )
        return {}
    planned = planned_offsets(connection, group_id, options)
    if options.has("execute") and planned:
        groups.commit(connection, group_id, planned)
    return planned


def state_of(connection: Connection, group_id: str) -> str:
    try:
        return described(connection, group_id).state
    except Wrapped as error:
        if "GroupIdNotFoundException" in str(error):
            return "Dead"
        raise


# -- which partitions ----------------------------------------------------------------------------------------------


def partitions_of_argument(argument: str) -> list[TopicPartition]:
    """`topic:0,1,2`."""
    parts = argument.split(":")
    if len(parts) != 2 or not parts[1]:
        raise IllegalArgument(f"Invalid topic arg '{argument}', expected topic name and partitions")
    found = []
    for text in parts[1].split(","):
        if not text.isdigit():
            raise IllegalArgument(f"Invalid partition '{text}' specified in topic arg '{argument}''")
        found.append(TopicPartition(parts[0], int(text)))
    return found


def partitions_to_reset(connection: Connection, group_id: str, options: Options) -> list[TopicPartition]:
    if options.has("all-topics"):
        return sorted(committed_offsets(connection, group_id))
    if not options.has("topic"):
        if not options.has("from-file"):
            raise options.parser.wrong("One of the reset scopes should be defined: --all-topics, --topic.")
        return []
    found: list[TopicPartition] = []
    for argument in options.texts("topic"):
        if ":" in argument:
            found += partitions_of_argument(argument)
        else:
            found += [TopicPartition(argument, index) for index in existing_partitions(connection, argument)]
    return found


def existing_partitions(connection: Connection, topic: str) -> list[int]:
    try:
        return sorted(place.partition for place in layout(connection, [topic]))
    except KafkaError as error:
        raise ToolError(java_message(error.code)) from None


def check_existing(connection: Connection, partitions: Sequence[TopicPartition]) -> None:
    known = {
        TopicPartition(topic, index)
        for topic in dict.fromkeys(topic for topic, _ in partitions)
        for index in existing_partitions(connection, topic)
    }
    missing = [str(place) for place in partitions if place not in known]
    if missing:
        raise ToolError(f'The partitions "{",".join(missing)}" do not exist')


# -- where to ------------------------------------------------------------------------------------------------------


def planned_offsets(connection: Connection, group_id: str, options: Options) -> Offsets:
    partitions = partitions_to_reset(connection, group_id, options)
    check_existing(connection, partitions)
    if options.has("to-offset"):
        return within_range(connection, dict.fromkeys(partitions, options.number("to-offset")))
    if options.has("to-earliest"):
        return start_offsets(connection, partitions)
    if options.has("to-latest"):
        return end_offsets(connection, partitions)
    if options.has("shift-by"):
        return shifted(connection, group_id, partitions, options.number("shift-by"))
    if options.has("to-datetime"):
        return offsets_at(connection, partitions, milliseconds(options.given("to-datetime")))
    if options.has("by-duration"):
        before = round(duration(options.given("by-duration")).total_seconds() * 1000)
        return offsets_at(connection, partitions, time.time_ns() // 1_000_000 - before)
    if options.has("from-file"):
        return from_file(connection, group_id, options)
    if options.has("to-current"):
        committed = {each: offset for each, (offset, _) in committed_offsets(connection, group_id).items()}
        kept = {each: committed[each] for each in partitions if each in committed}
        return kept | end_offsets(connection, [each for each in partitions if each not in committed])
    scenarios = "to-offset, shift-by, to-datetime, by-duration, to-earliest, to-latest, to-current, from-file"
    raise options.parser.wrong(f"Option '[reset-offsets]' requires one of the following scenarios: [{scenarios}]")


def shifted(connection: Connection, group_id: str, partitions: Sequence[TopicPartition], distance: int) -> Offsets:
    committed = committed_offsets(connection, group_id)
    for place in partitions:
        if place not in committed:
            raise IllegalArgument(
                f"Cannot shift offset for partition {place} since there is no current committed offset"
            )
    return within_range(connection, {each: committed[each][0] + distance for each in partitions})


def within_range(connection: Connection, wanted: Offsets) -> Offsets:
    starts, ends = start_offsets(connection, wanted), end_offsets(connection, wanted)
    found = {}
    for place, offset in wanted.items():
        step = group_plan.step(place, None, offset, starts[place], ends[place])
        found[place] = step.offset
        if step.clipped:
            which = "higher than latest" if offset > step.end else "lower than earliest"
            warn(f"New offset ({offset}) is {which} offset for topic partition {place}", step.offset)
    return found


def warn(problem: str, value: int) -> None:
    print(f"WARN {problem}. Value will be set to {value}", file=sys.stderr)


def from_file(connection: Connection, group_id: str, options: Options) -> Offsets:
    plan = read_plan(Path(options.given("from-file")), options.texts("group"))
    if group_id not in plan:
        print_error(f"No reset plan for group {group_id} found")
        return {}
    check_existing(connection, list(plan[group_id]))
    return within_range(connection, plan[group_id])


def read_plan(path: Path, groups: Sequence[str]) -> dict[str, Offsets]:
    """`topic,partition,offset` for one group, or `group,topic,partition,offset`."""
    plan: dict[str, Offsets] = {}
    try:
        for row in offset_rows(path.read_text(), groups[0] if len(groups) == 1 else None):
            plan.setdefault(row.group, {})[row.place] = row.offset
    except BadRowError as bad:
        raise ToolError(
            f"{path}, line {bad.line}: expected topic,partition,offset or group,topic,partition,offset"
        ) from None
    return plan


def milliseconds(text: str) -> int:
    """`yyyy-MM-ddTHH:mm:ss.SSS`, in UTC unless a zone follows."""
    _, middle, clock = text.partition("T")
    if not middle:
        raise ToolError(
            "java.text.ParseException: Error parsing timestamp. It does not contain a 'T' according to ISO8601 format"
        )
    whole = text if any(mark in clock for mark in "+-Z") else f"{text}Z"
    found = TIME.fullmatch(whole)
    unparseable = ToolError(f'java.text.ParseException: Unparseable date: "{whole}"')
    if found is None:
        raise unparseable
    zone = "+00:00" if found[3] == "Z" else found[3]
    try:
        moment = datetime.fromisoformat(found[1] + zone)
    except ValueError:
        raise unparseable from None
    return round(moment.astimezone(UTC).timestamp()) * 1000 + int(found[2])


def duration(text: str) -> timedelta:
    """Java's `PnDTnHnMn.nS`."""
    found = DURATION.fullmatch(text)
    if found is None or not any(found.groups()[1:]) or text[-1] in "tT":
        raise ToolError("Text cannot be parsed to a Duration")
    sign, days, hours, minutes, seconds = found.groups()
    length = timedelta(days=int(days or 0), hours=int(hours or 0), minutes=int(minutes or 0))
    length += timedelta(seconds=float(seconds or 0))
    return -length if sign == "-" else length


# -- printing ------------------------------------------------------------------------------------------------------


def print_planned(planned: dict[str, Offsets]) -> None:
    group_width = max([15, *map(len, planned)])
    topic_width = max([15, *(len(topic) for offsets in planned.values() for topic, _ in offsets)])

    def row(group: object, topic: object, index: object, offset: object) -> str:
        return f"\n{group:<{group_width}} {topic:<{topic_width}} {index:<10} {offset}"

    text = row("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET") if planned else ""
    for group, offsets in planned.items():
        for (topic, index), offset in sorted(offsets.items()):
            text += row(group, topic, index, offset)
    print(text)


def exported(planned: dict[str, Offsets], single: bool) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, offsets in planned.items():
        for (topic, index), offset in sorted(offsets.items()):
            writer.writerow([topic, index, offset] if single else [group, topic, index, offset])
    return out.getvalue()
