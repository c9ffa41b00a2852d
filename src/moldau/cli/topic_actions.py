"""What `moldau topic` does."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigSource, NewTopic, OffsetSpec

from moldau.cli import admin, documents, hidden, times
from moldau.cli.admin import Place
from moldau.cli.connect import Connection, pairs
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
)
from moldau.cli.positions import END, START, Position, ranges
from moldau.cli.reading import READ_COMMITTED, count_records

BROKERS_CHOICE: Final = -1
FILE_KEYS: Final = ("name", "partitions", "replication_factor", "config", "id", "internal", "records", "layout")
MANY: Final = 20
"""From here on a bar shows how far deletion is."""


@dataclass(frozen=True, slots=True)
class WantedTopic:
    name: str
    partitions: int = BROKERS_CHOICE
    replication_factor: int = BROKERS_CHOICE
    config: dict[str, str] = field(default_factory=dict)

    def as_request(self) -> NewTopic:
        return NewTopic(
            self.name,
            num_partitions=self.partitions,
            replication_factor=self.replication_factor,
            config=dict(self.config),
        )

    def as_document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "partitions": self.partitions,
            "replication_factor": self.replication_factor,
            "config": self.config,
        }


def named_topics(
    names: Sequence[str], partitions: int | None, replication_factor: int | None, settings: Sequence[str]
) -> list[WantedTopic]:
    if not names:
        raise CommandError("no topic was named", "give names, or --from-file", WRONG_USAGE)
    config = pairs(settings, "--set")
    return [
        WantedTopic(name, partitions or BROKERS_CHOICE, replication_factor or BROKERS_CHOICE, config) for name in names
    ]


def read_topics(path: Path, names: Sequence[str]) -> list[WantedTopic]:
    """The topics of a file, or those of them that were named."""
    found = []
    for number, item in enumerate(documents.read_objects(path, "topic describe", FILE_KEYS)):
        origin = f"{path}: item {number}"
        wanted = WantedTopic(
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


def create(
    cluster: Connection, topics: Sequence[WantedTopic], if_not_exists: bool, dry_run: bool, output: Format
) -> None:
    client = cluster.admin()
    if if_not_exists:
        existing = set(admin.topic_names(client))
        topics = [topic for topic in topics if topic.name not in existing]
    if not topics:
        note("every topic exists already")
        return
    requests = [topic.as_request() for topic in topics]
    answers = admin.create_topics(client, requests, validate_only=dry_run)
    done = [topic for topic in topics if answers[topic.name] is None]
    if output.for_programs:
        made = _described(cluster, [topic.name for topic in done]) if not dry_run else _documents(done)
        show(output, made, list)
    else:
        for topic in done:
            print(f"{'would create' if dry_run else 'created'} topic {topic.name}")
    _fail_if_refused("create", answers, len(topics))


def _documents(topics: Sequence[WantedTopic]) -> list[dict[str, Any]]:
    return [topic.as_document() for topic in topics]


def _fail_if_refused(verb: str, answers: dict[str, KafkaError | None], total: int) -> None:
    refused = {name: error for name, error in answers.items() if error is not None}
    if not refused:
        return
    (name, error), *others = refused.items()
    first = admin.failure(f"cannot {verb} topic {name!r}", error)
    if not others:
        raise first
    rest = ", ".join(f"{each} ({problem.name()})" for each, problem in others)
    raise CommandError(f"{len(refused)} of {total} refused: {first.message}; also {rest}", first.hint, FAILED)


def list_topics(cluster: Connection, patterns: Sequence[str], show_all: bool, count: bool, output: Format) -> None:
    client = cluster.admin()
    metadata = admin.metadata(client)
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
        wide = [Column("offsets", right=True, wide=True), Column("id", wide=True)]
        table = Table(
            [Column("topic"), Column("partitions", right=True), Column("replicas", right=True), *counted, *wide]
        )
        for row in rows:
            keys = ("name", "partitions", "replication_factor", *(["records"] if count else []), "offsets", "id")
            table.add(*(row.get(key) for key in keys))
        return [table]

    show(output, rows, tables, empty="no topics")


def _add_details(cluster: Connection, rows: Sequence[dict[str, Any]], count: bool) -> None:
    names = [row["name"] for row in rows]
    for row, described in zip(rows, _described(cluster, names, count), strict=True):
        row["id"] = described["id"]
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
    client = cluster.admin()
    topics = admin.describe_topics(client, names)
    places = [Place(name, part.id) for name, topic in topics.items() for part in topic.partitions]
    spans = admin.log_ranges(client, places)
    configs = admin.configs(client, "topic", names)
    found: list[dict[str, Any]] = [
        {
            "name": name,
            "id": str(topics[name].topic_id),
            "internal": bool(topics[name].is_internal),
            "partitions": len(topics[name].partitions),
            "replication_factor": max((len(part.replicas) for part in topics[name].partitions), default=0),
            "config": overrides(admin.required(f"settings of topic {name!r}", configs[name])),
            "layout": [
                {
                    "partition": part.id,
                    "leader": part.leader.id if part.leader is not None else None,
                    "replicas": [node.id for node in part.replicas],
                    "isr": [node.id for node in part.isr],
                    "first_offset": spans[Place(name, part.id)][0],
                    "end_offset": spans[Place(name, part.id)][1],
                }
                for part in sorted(topics[name].partitions, key=lambda part: part.id)
            ],
        }
        for name in names
    ]
    if count:
        _count(cluster, found, [place for place, (first, end) in spans.items() if None not in (first, end)])
    return found


def _count(cluster: Connection, topics: Sequence[dict[str, Any]], places: Sequence[Place]) -> None:
    """Adds to topics and partitions how many records they hold."""
    logs = ranges(cluster, places, Position(START), Position(END), READ_COMMITTED)
    with progress("counting", sum(log.last - log.first for log in logs.values())) as advance:
        counted = count_records(cluster, logs, advance)
    for topic in topics:
        for part in topic["layout"]:
            part["records"] = counted.get(Place(topic["name"], part["partition"]))
        topic["records"] = sum(part["records"] or 0 for part in topic["layout"])


def overrides(entries: dict[str, ConfigEntry]) -> dict[str, str]:
    """What was set on the topic itself."""
    own = ConfigSource.DYNAMIC_TOPIC_CONFIG
    found = {name: entry.value for name, entry in sorted(entries.items()) if admin.source_of(entry) is own}
    return {name: value for name, value in found.items() if value is not None}


def _description_tables(topic: dict[str, Any]) -> list[Table]:
    title = (
        f"{topic['name']}: {topic['partitions']} partitions, {topic['replication_factor']} replicas, id {topic['id']}"
    )
    layout = Table(
        [
            Column("partition", right=True),
            Column("leader", right=True),
            Column("replicas"),
            Column("in sync"),
            Column("first offset", right=True),
            Column("end offset", right=True),
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
    changes: list[tuple[AlterConfigOpType, str, str | None]] = [
        *((AlterConfigOpType.SET, key, value) for key, value in pairs(settings, "--set").items()),
        *((AlterConfigOpType.DELETE, key, None) for key in unset),
    ]
    if partitions is None and not changes:
        raise CommandError("nothing to change", "give --partitions, --set or --unset", WRONG_USAGE)
    client = cluster.admin()
    have = len(admin.partitions_of(client, name))
    would = "would change" if dry_run else "changed"
    if changes:
        refused = admin.alter_configs(client, "topic", name, changes, validate_only=dry_run)
        if refused is not None:
            raise admin.failure(f"cannot change topic {name!r}", refused)
        print(f"{would} settings of topic {name}: {', '.join([*settings, *(f'{key} unset' for key in unset)])}")
    if partitions is not None and partitions != have:
        refused = admin.add_partitions(client, name, partitions, validate_only=dry_run)
        if refused is not None:
            raise admin.failure(f"cannot change topic {name!r}", refused)
        print(f"{would} topic {name} from {have} to {partitions} partitions")
        note("records with a key may now go to another partition than those before them")
    elif partitions is not None:
        note(f"topic {name} already has {have} partitions")


def delete(cluster: Connection, names: Sequence[str], if_exists: bool, dry_run: bool, yes: bool) -> None:
    client = cluster.admin()
    existing = admin.metadata(client).topics
    missing = [name for name in names if name not in existing]
    if missing and not if_exists:
        raise admin.unknown_topic(client, missing[0])
    wanted = [name for name in dict.fromkeys(names) if name in existing]
    if not wanted:
        note("none of these topics exists")
        return
    if dry_run:
        for name in wanted:
            print(f"would delete topic {name} ({len(existing[name].partitions)} partitions)")
        return
    confirm(f"Delete {', '.join(wanted)} with everything in {'it' if len(wanted) == 1 else 'them'}?", yes)
    answers: dict[str, KafkaError | None] = {}
    with progress("deleting", len(wanted)) as advance:
        for begin in range(0, len(wanted), MANY):
            answers |= admin.delete_topics(client, wanted[begin : begin + MANY])
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
    client = cluster.admin()
    partitions = admin.partitions_of(client, name)
    for number in only:
        if number not in partitions:
            hint = f"it has 0 to {partitions[-1]}"
            raise CommandError(f"topic {name!r} has no partition {number}", hint, NOT_FOUND)
    places = [Place(name, number) for number in (sorted(set(only)) or partitions)]
    spans = admin.log_ranges(client, places)
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
        answers = admin.delete_records(
            client, {Place(name, row["partition"]): row["new_first_offset"] for row in plan if _deletes(row)}
        )
        for place, done in answers.items():
            admin.required(f"cannot truncate {place}", done)
    _show_truncation(plan, total, dry_run, output)


def _deletes(row: dict[str, Any]) -> bool:
    return bool(row["new_first_offset"] > row["first_offset"])


def _limits(
    cluster: Connection, places: Sequence[Place], before: int | None, before_time: str | None
) -> dict[Place, int | None]:
    """Up to where to delete; None is the end."""
    if before_time is None:
        return dict.fromkeys(places, before)
    instant = times.instant_ms(before_time, time.time_ns() // 1_000_000)
    found = admin.offsets(cluster.admin(), {place: OffsetSpec.for_timestamp(instant) for place in places})
    offsets = {place: admin.required(f"offset of {place}", answer).offset for place, answer in found.items()}
    return {place: None if offset < 0 else offset for place, offset in offsets.items()}


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
