"""What `moldau topic` does."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError

from moldau.cli import documents, hidden, refusals, times
from moldau.cli.calls import configs, offsets, topics
from moldau.cli.calls.cluster import partition_bytes
from moldau.cli.calls.configs import Change, ConfigKind, Setting, Source
from moldau.cli.calls.topics import BROKERS_CHOICE, NewTopic
from moldau.cli.connection import Connection, pairs
from moldau.cli.output import (
    FAILED,
    NOT_FOUND,
    WRONG_USAGE,
    Column,
    CommandError,
    Format,
    Table,
    confirm,
    note,
    plural,
    progress,
    show,
    size_text,
)
from moldau.cli.records.positions import END, START, Position, ranges
from moldau.cli.records.reading import READ_COMMITTED, count_records
from moldau.types.ids import TopicPartition

FILE_KEYS: Final = (
    "name",
    "partitions",
    "replication_factor",
    "config",
    "id",
    "internal",
    "records",
    "bytes",
    "layout",
)
MANY: Final = 20
"""From here on a bar shows how far deletion is."""


def named_topics(
    names: Sequence[str], partitions: int | None, replication_factor: int | None, settings: Sequence[str]
) -> list[NewTopic]:
    if not names:
        raise CommandError("no topic was named", "give names, or --from-file", WRONG_USAGE)
    config = pairs(settings, "--set")
    return [
        NewTopic(name, partitions or BROKERS_CHOICE, replication_factor or BROKERS_CHOICE, config) for name in names
    ]


def read_topics(path: Path, names: Sequence[str]) -> list[NewTopic]:
    """The topics of a file, or those of them that were named."""
    found = []
    for number, item in enumerate(documents.read_objects(path, "topic describe", FILE_KEYS)):
        origin = f"{path}: item {number}"
        wanted = NewTopic(
            documents.field(item, "name", str, origin),
            documents.field(item, "partitions", int, origin, BROKERS_CHOICE),
            documents.field(item, "replication_factor", int, origin, BROKERS_CHOICE),
            documents.settings_of(item, origin),
        )
        # What one cluster keeps for itself, another one makes for itself.
        if not item.get("internal"):
            found.append(wanted)
    for name in names:
        if name not in {wanted.name for wanted in found}:
            raise CommandError(f"{path} has no topic {name!r}", exit_code=NOT_FOUND)
    return [wanted for wanted in found if not names or wanted.name in names]


def create(cluster: Connection, wanted: Sequence[NewTopic], if_not_exists: bool, dry_run: bool, output: Format) -> None:
    if if_not_exists:
        existing = set(refusals.metadata(cluster).topics)
        wanted = [topic for topic in wanted if topic.name not in existing]
    if not wanted:
        note("every topic exists already")
        return
    answers = topics.create(cluster, wanted, validate_only=dry_run)
    done = [topic for topic in wanted if answers[topic.name] is None]
    if output.for_programs:
        made = _described(cluster, [topic.name for topic in done]) if not dry_run else _documents(done)
        show(output, made, list)
    else:
        for topic in done:
            print(f"{'would create' if dry_run else 'created'} topic {topic.name}")
    _fail_if_refused("create", answers, len(wanted))


def _documents(wanted: Sequence[NewTopic]) -> list[dict[str, Any]]:
    return [
        {
            "name": topic.name,
            "partitions": topic.partitions,
            "replication_factor": topic.replication_factor,
            "config": topic.config,
        }
        for topic in wanted
    ]


def _fail_if_refused(verb: str, answers: dict[str, KafkaError | None], total: int) -> None:
    refused = {name: error for name, error in answers.items() if error is not None}
    if not refused:
        return
    (name, error), *others = refused.items()
    first = refusals.failure(f"cannot {verb} topic {name!r}", error)
    if not others:
        raise first
    rest = ", ".join(f"{each} ({problem.name()})" for each, problem in others)
    raise CommandError(f"{len(refused)} of {total} refused: {first.message}; also {rest}", first.hint, FAILED)


def list_topics(cluster: Connection, patterns: Sequence[str], show_all: bool, count: bool, output: Format) -> None:
    metadata = refusals.metadata(cluster)
    names = sorted(
        name
        for name in metadata.topics
        if (show_all or not hidden.hidden_topic(name))
        and (not patterns or any(fnmatchcase(name, pattern) for pattern in patterns))
    )
    rows = [
        {
            "name": name,
            "partitions": len(metadata.topics[name].partitions),
            "replication_factor": max((len(p.replicas) for p in metadata.topics[name].partitions.values()), default=0),
            "internal": hidden.hidden_topic(name),
        }
        for name in names
    ]
    if output is Format.wide or count:
        _add_details(cluster, rows, count)

    def tables() -> list[Table]:
        counted = [Column("records", right=True)] if count else []
        wide = [
            Column("offsets", right=True, wide=True),
            Column("size", right=True, wide=True),
            Column("id", wide=True),
        ]
        table = Table(
            [Column("topic"), Column("partitions", right=True), Column("replicas", right=True), *counted, *wide]
        )
        for row in rows:
            keys = ("name", "partitions", "replication_factor", *(["records"] if count else []), "offsets")
            size = row.get("bytes")
            table.add(*(row.get(key) for key in keys), None if size is None else size_text(size), row.get("id"))
        return [table]

    show(output, rows, tables, empty="no topics")


def _add_details(cluster: Connection, rows: Sequence[dict[str, Any]], count: bool) -> None:
    names = [row["name"] for row in rows]
    for row, described in zip(rows, _described(cluster, names, count), strict=True):
        row["id"] = described["id"]
        row["bytes"] = described["bytes"]
        row["offsets"] = sum(_span(part) or 0 for part in described["layout"])
        if count:
            row["records"] = described["records"]


def _span(part: Mapping[str, Any]) -> int | None:
    """How many offsets a partition holds: as many records at most, since markers of transactions have offsets too."""
    first, end = part["first_offset"], part["end_offset"]
    return end - first if first is not None and end is not None else None


def describe(cluster: Connection, names: Sequence[str], count: bool, output: Format) -> None:
    found = _described(cluster, list(dict.fromkeys(names)), count)

    def tables() -> list[Table]:
        return [table for topic in found for table in _description_tables(topic)]

    show(output, found, tables)


def _described(cluster: Connection, names: Sequence[str], count: bool = False) -> list[dict[str, Any]]:
    described = refusals.described_topics(cluster, names)
    places = [TopicPartition(name, part.id) for name, topic in described.items() for part in topic.partitions]
    spans = offsets.log_ranges(cluster, places)
    sizes = _sizes(cluster, places)
    with refusals.while_doing("cannot read the settings of topics"):
        settings = configs.describe_topics(cluster, names)
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "id": topics.id_text(described[name]),
            "internal": bool(described[name].is_internal),
            "partitions": len(described[name].partitions),
            "replication_factor": max((len(part.replicas) for part in described[name].partitions), default=0),
            "config": overrides(settings[name]),
            "layout": [
                {
                    "partition": part.id,
                    "leader": part.leader.id if part.leader is not None else None,
                    "replicas": [node.id for node in part.replicas],
                    "isr": [node.id for node in part.isr],
                    "first_offset": spans[TopicPartition(name, part.id)][0],
                    "end_offset": spans[TopicPartition(name, part.id)][1],
                    "bytes": sizes.get(TopicPartition(name, part.id)),
                }
                for part in sorted(described[name].partitions, key=lambda part: part.id)
            ],
        }
        for name in names
    ]
    for topic in found:
        known = [part["bytes"] for part in topic["layout"] if part["bytes"] is not None]
        topic["bytes"] = sum(known) if len(known) == len(topic["layout"]) else None
    if count:
        _count(cluster, found, [place for place, (first, end) in spans.items() if None not in (first, end)])
    return found


def _sizes(cluster: Connection, places: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Bytes of each partition: those of its largest replica, as the others follow it."""
    if not places or not cluster.wire_is_possible("sizes are left out"):
        return {}
    with refusals.while_doing("cannot read the sizes of partitions"):
        return partition_bytes(cluster, places)


def _count(cluster: Connection, topics: Sequence[dict[str, Any]], places: Sequence[TopicPartition]) -> None:
    """Adds to topics and partitions how many records they hold."""
    logs = ranges(cluster, places, Position(START), Position(END), READ_COMMITTED)
    with progress("counting", sum(log.last - log.first for log in logs.values())) as advance:
        counted = count_records(cluster, logs, advance)
    for topic in topics:
        for part in topic["layout"]:
            part["records"] = counted.get(TopicPartition(topic["name"], part["partition"]))
        topic["records"] = sum(part["records"] or 0 for part in topic["layout"])


def overrides(settings: Sequence[Setting]) -> dict[str, str]:
    """What was set on the topic itself."""
    own = Source.DYNAMIC_TOPIC_CONFIG
    return {each.name: each.value for each in settings if each.source is own and each.value is not None}


def _description_tables(topic: dict[str, Any]) -> list[Table]:
    counts = f"{plural(topic['partitions'], 'partition')}, {plural(topic['replication_factor'], 'replica')}"
    size = "" if topic["bytes"] is None else f", {size_text(topic['bytes'])}"
    title = f"{topic['name']}: {counts}{size}, id {topic['id']}"
    layout = Table(
        [
            Column("partition", right=True),
            Column("leader", right=True),
            Column("replicas"),
            Column("in sync"),
            Column("first offset", right=True),
            Column("end offset", right=True),
            Column("size", right=True),
            *([Column("records", right=True)] if "records" in topic else []),
        ],
        title + (", internal" if topic["internal"] else ""),
    )
    for part in topic["layout"]:
        leader = "none" if part["leader"] is None or part["leader"] < 0 else part["leader"]
        counted = [part["records"]] if "records" in topic else []
        layout.add(
            part["partition"],
            leader,
            part["replicas"],
            part["isr"],
            part["first_offset"],
            part["end_offset"],
            None if part["bytes"] is None else size_text(part["bytes"]),
            *counted,
        )
    if not topic["config"]:
        return [layout]
    settings = Table([Column("setting"), Column("value")])
    for key, value in topic["config"].items():
        settings.add(key, value)
    return [layout, settings]


def alter(
    cluster: Connection, name: str, partitions: int | None, settings: Sequence[str], unset: Sequence[str], dry_run: bool
) -> None:
    changes: list[tuple[Change, str, str | None]] = [
        *((Change.SET, key, value) for key, value in pairs(settings, "--set").items()),
        *((Change.DELETE, key, None) for key in unset),
    ]
    if partitions is None and not changes:
        raise CommandError("nothing to change", "give --partitions, --set or --unset", WRONG_USAGE)
    have = len(refusals.partitions_of(cluster, name))
    would = "would change" if dry_run else "changed"
    if changes:
        with refusals.while_doing(f"cannot change topic {name!r}"):
            configs.alter(cluster, ConfigKind.TOPIC, name, changes, validate_only=dry_run)
        print(f"{would} settings of topic {name}: {', '.join([*settings, *(f'{key} unset' for key in unset)])}")
    if partitions is not None and partitions != have:
        answers = topics.add_partitions(cluster, {name: partitions}, validate_only=dry_run)
        refusals.required(f"cannot change topic {name!r}", answers[name])
        print(f"{would} topic {name} from {have} to {plural(partitions, 'partition')}")
        note("records with a key may now go to another partition than those before them")
    elif partitions is not None:
        note(f"topic {name} already has {plural(have, 'partition')}")


def delete(cluster: Connection, names: Sequence[str], if_exists: bool, dry_run: bool, yes: bool) -> None:
    existing = refusals.metadata(cluster).topics
    missing = [name for name in names if name not in existing]
    if missing and not if_exists:
        raise refusals.unknown_topic(cluster, missing[0])
    wanted = [name for name in dict.fromkeys(names) if name in existing]
    if not wanted:
        note("none of these topics exists")
        return
    if dry_run:
        for name in wanted:
            print(f"would delete topic {name} ({plural(len(existing[name].partitions), 'partition')})")
        return
    confirm(f"Delete {', '.join(wanted)} with everything in {'it' if len(wanted) == 1 else 'them'}?", yes)
    answers: dict[str, KafkaError | None] = {}
    with progress("deleting", len(wanted)) as advance:
        for begin in range(0, len(wanted), MANY):
            answers |= topics.delete(cluster, wanted[begin : begin + MANY])
            advance(len(answers))
    for name, refused in answers.items():
        if refused is None:
            print(f"deleted topic {name}")
    _fail_if_refused("delete", answers, len(wanted))


def truncate(
    cluster: Connection,
    name: str,
    only: Sequence[int],
    before: int | None,
    before_time: str | None,
    dry_run: bool,
    yes: bool,
    output: Format,
) -> None:
    if before is not None and before_time is not None:
        raise CommandError("--before and --before-time exclude each other", "give one of them", WRONG_USAGE)
    partitions = refusals.partitions_of(cluster, name)
    for number in only:
        if number not in partitions:
            hint = f"it has 0 to {partitions[-1]}"
            raise CommandError(f"topic {name!r} has no partition {number}", hint, NOT_FOUND)
    places = [TopicPartition(name, number) for number in (sorted(set(only)) or partitions)]
    spans = offsets.log_ranges(cluster, places)
    limits = _limits(cluster, places, before, before_time)
    plan: list[dict[str, Any]] = []
    for place in places:
        first, end = spans[place]
        if first is None or end is None:
            raise CommandError(f"{place} has no leader that answers", "see `moldau cluster health`", FAILED)
        target = end if limits[place] is None else min(end, max(first, limits[place] or 0))
        plan.append({"topic": name, "partition": place.partition, "first_offset": first, "new_first_offset": target})
    total = sum(row["new_first_offset"] - row["first_offset"] for row in plan)
    if not dry_run and total:
        confirm(f"Delete {plural(total, 'offset')} of {name}, as many records at most?", yes)
        answers = offsets.delete_records(
            cluster, {TopicPartition(name, row["partition"]): row["new_first_offset"] for row in plan if _deletes(row)}
        )
        for place, done in answers.items():
            refusals.required(f"cannot truncate {place}", done)
    _show_truncation(plan, total, dry_run, output)


def _deletes(row: dict[str, Any]) -> bool:
    return bool(row["new_first_offset"] > row["first_offset"])


def _limits(
    cluster: Connection, places: Sequence[TopicPartition], before: int | None, before_time: str | None
) -> dict[TopicPartition, int | None]:
    """Up to where to delete; None is the end."""
    if before_time is None:
        return dict.fromkeys(places, before)
    instant = times.instant_ms(before_time, time.time_ns() // 1_000_000)
    answers = offsets.listed(cluster, places, instant)
    found = {place: refusals.required(f"offset of {place}", answer) for place, answer in answers.items()}
    return {place: None if offset < 0 else offset for place, offset in found.items()}


def _show_truncation(plan: Sequence[dict[str, Any]], total: int, dry_run: bool, output: Format) -> None:
    def tables() -> list[Table]:
        numbers = ("partition", "first offset", "new first offset", "offsets")
        table = Table([Column("topic"), *(Column(heading, right=True) for heading in numbers)])
        for row in plan:
            first, target = row["first_offset"], row["new_first_offset"]
            table.add(row["topic"], row["partition"], first, target, target - first)
        return [table]

    show(output, plan, tables)
    would = "would be" if dry_run else "was" if total == 1 else "were"
    note(f"{plural(total, 'offset')} {would} deleted")
