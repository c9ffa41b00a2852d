"""What `moldau cluster` does."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError

from moldau.cli import hidden, refusals
from moldau.cli.calls import cluster as calls
from moldau.cli.calls import configs, offsets, quorum, replicas
from moldau.cli.calls.offsets import At
from moldau.cli.calls.replicas import Follower
from moldau.cli.connection import Connection
from moldau.cli.output import DONE, UNHEALTHY, Column, CommandError, Format, Table, note, plural, show, size_text
from moldau.client.errors import ClientError
from moldau.types import errors
from moldau.types.ids import TopicPartition

NO_LEADER: Final = -1
MIN_ISR: Final = "min.insync.replicas"
NEARLY_FULL_SHARE: Final = 0.05
NEARLY_FULL_BYTES: Final = 1 << 30
"""A log directory is not well when less than both is free."""
TURNS: Final = 5
TURN_SECONDS: Final = 0.5
"""A leader that has just taken over is asked again before it counts as not serving."""
NAMED_PARTITIONS: Final = 5
"""How many are named where there may be thousands."""


def describe(cluster: Connection, output: Format) -> None:
    found = refusals.required("cannot describe the cluster", calls.describe(cluster))
    metadata = refusals.metadata(cluster)
    reachable = cluster.wire_is_possible("features, log directories and the lag of followers are left out")
    led, followed = replicas.by_broker(metadata)
    lags = replicas.largest(replicas.followers(cluster, metadata)) if reachable and followed else {}
    brokers = [
        {
            "id": node.id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack or None,
            "controller": found.controller is not None and node.id == found.controller.id,
            "leads": len(led.get(node.id, ())),
            "follows": len(followed.get(node.id, ())),
            "largest_lag": lags.get(node.id),
            "log_dirs": _log_dirs(cluster, node.id) if reachable and output is not Format.table else [],
        }
        for node in sorted(found.nodes, key=lambda node: int(node.id))
    ]
    document = {
        "cluster_id": found.cluster_id,
        "controller": found.controller.id if found.controller is not None else None,
        "features": calls.finalized_features(cluster) if reachable else {},
        **_counts(metadata),
        "brokers": brokers,
    }
    show(output, document, lambda: _description_tables(document, output))


def _counts(metadata: Any) -> dict[str, int]:
    """Topics and partitions, those of the platform itself apart, and how many of all are not well: the same for
    `describe` and `health`."""
    sizes = {name: len(topic.partitions) for name, topic in metadata.topics.items()}
    internal = {name: size for name, size in sizes.items() if hidden.hidden_topic(name)}
    partitions = [part for topic in metadata.topics.values() for part in topic.partitions.values()]
    return {
        "topics": len(sizes) - len(internal),
        "partitions": sum(sizes.values()) - sum(internal.values()),
        "internal_topics": len(internal),
        "internal_partitions": sum(internal.values()),
        "under_replicated_partitions": sum(len(part.isrs) < len(part.replicas) for part in partitions),
        "offline_partitions": sum(part.leader == NO_LEADER for part in partitions),
    }


def _counts_text(counts: Mapping[str, Any]) -> str:
    text = f"{plural(counts['topics'], 'topic')}, {plural(counts['partitions'], 'partition')}"
    if counts["internal_topics"]:
        internal = plural(counts["internal_topics"], "internal topic")
        text += f"; {internal} with {plural(counts['internal_partitions'], 'partition')}"
    for name in ("under_replicated", "offline"):
        if counts[f"{name}_partitions"]:
            text += f"; {counts[f'{name}_partitions']} {name.replace('_', '-')}"
    return text


def _log_dirs(cluster: Connection, broker: int) -> list[dict[str, Any]]:
    return [
        {
            "path": found.path,
            "online": not found.error_code,
            "partitions": found.partitions,
            "used_bytes": found.used_bytes,
            "total_bytes": found.total_bytes if found.total_bytes >= 0 else None,
            "usable_bytes": found.usable_bytes if found.usable_bytes >= 0 else None,
        }
        for found in calls.log_dir_sums(cluster, broker)
    ]


def _description_tables(document: Mapping[str, Any], output: Format) -> list[Table]:
    features = ", ".join(f"{name} {level}" for name, level in document["features"].items())
    title = f"cluster {document['cluster_id']}: {_counts_text(document)}"
    brokers = Table(
        [
            Column("broker", right=True),
            Column("address"),
            Column("rack"),
            Column("controller"),
            Column("partitions led", right=True),
            Column("followed", right=True),
            Column("largest lag", right=True),
        ],
        f"{title}; {features}" if features else title,
    )
    for row in document["brokers"]:
        place = f"{row['host']}:{row['port']}"
        told = (row["leads"], row["follows"], row["largest_lag"])
        brokers.add(row["id"], place, row["rack"], row["controller"], *told)
    if output is not Format.wide:
        return [brokers]
    directories = Table(
        [
            Column("broker", right=True),
            Column("log directory"),
            Column("online"),
            Column("partitions", right=True),
            Column("used", right=True),
            Column("free", right=True),
        ]
    )
    for row in document["brokers"]:
        for directory in row["log_dirs"]:
            free = directory["usable_bytes"]
            used = size_text(directory["used_bytes"])
            room = size_text(free) if free is not None else None
            directories.add(row["id"], directory["path"], directory["online"], directory["partitions"], used, room)
    return [brokers, directories]


def health(cluster: Connection, output: Format) -> int:
    metadata = refusals.metadata(cluster)
    silent: set[int] = set()
    broken = list(_broker_problems(cluster, metadata, silent))
    replicated = any(len(part.replicas) > 1 for topic in metadata.topics.values() for part in topic.partitions.values())
    wanted = replicated and cluster.wire_is_possible("the lag of followers is left out")
    followers = replicas.followers(cluster, metadata, silent) if wanted else []
    problems = [
        *broken,
        *_partition_problems(cluster, metadata, followers),
        *_silent_leaders(cluster, metadata),
    ]
    document = {
        "healthy": not problems,
        "brokers": len(metadata.brokers),
        "controller": metadata.controller_id if metadata.controller_id >= 0 else None,
        **_counts(metadata),
        "largest_lag": max(replicas.largest(followers).values(), default=0),
        "problems": problems,
    }

    def tables() -> list[Table]:
        table = Table([Column("problem"), Column("where"), Column("detail")])
        for problem in problems:
            table.add(problem["problem"], problem["where"], problem["detail"])
        return [table] if problems else []

    show(output, document, tables)
    if not output.for_programs:
        counts = f"{plural(len(metadata.brokers), 'broker')}, {_counts_text(document)}"
        if problems:
            note(f"not well: {plural(len(problems), 'problem')}; {counts}")
        else:
            print(f"healthy: {counts}")
    return UNHEALTHY if problems else DONE


def _problem(problem: str, where: str, detail: str = "") -> dict[str, str]:
    return {"problem": problem, "where": where, "detail": detail}


def _broker_problems(cluster: Connection, metadata: Any, silent: set[int]) -> Iterator[dict[str, str]]:
    """Notes which brokers are silent."""
    if metadata.controller_id < 0:
        yield _problem("no controller", "cluster")
    if not cluster.wire_is_possible("log directories are left out"):
        return
    for broker in sorted(metadata.brokers):
        try:
            directories = calls.log_dir_sums(cluster, broker)
        except (ClientError, errors.KafkaError) as error:
            silent.add(broker)
            yield _problem("broker does not answer", f"broker {broker}", str(error))
            continue
        for directory in directories:
            where = f"broker {broker}, {directory.path}"
            if directory.error_code:
                yield _problem("log directory offline", where, errors.ErrorCode(directory.error_code).name)
            elif 0 <= directory.usable_bytes < min(NEARLY_FULL_SHARE * directory.total_bytes, NEARLY_FULL_BYTES):
                free = f"{size_text(directory.usable_bytes)} of {size_text(directory.total_bytes)} free"
                yield _problem("disk nearly full", where, free)


def _partition_problems(cluster: Connection, metadata: Any, followers: Sequence[Follower]) -> Iterator[dict[str, str]]:
    known = replicas.of_partition(followers)
    replicated = [
        name
        for name, topic in metadata.topics.items()
        if any(len(part.isrs) < len(part.replicas) for part in topic.partitions.values())
    ]
    least = _least_in_sync(cluster, replicated)
    for name, topic in sorted(metadata.topics.items()):
        for number, part in sorted(topic.partitions.items()):
            where, detail = f"{name}-{number}", f"replicas {part.replicas}, in sync {part.isrs}"
            missing = [each for each in known.get(TopicPartition(name, number), ()) if each.broker not in part.isrs]
            detail += "".join(f", {_lag_text(each)}" for each in missing)
            if part.leader == NO_LEADER:
                yield _problem("offline", where, detail)
            elif len(part.isrs) < least.get(name, 0):
                yield _problem("under min.insync.replicas", where, f"{detail}, wanted {least[name]}")
            elif len(part.isrs) < len(part.replicas):
                yield _problem("under-replicated", where, detail)


def _lag_text(follower: Follower) -> str:
    if follower.behind is None:
        return f"broker {follower.broker} does not answer"
    return f"broker {follower.broker} {plural(follower.behind, 'record')} behind"


def _silent_leaders(cluster: Connection, metadata: Any) -> Iterator[dict[str, str]]:
    """Partitions that have a leader, which cannot serve them: their log is damaged or its folder is gone."""
    led = [
        TopicPartition(name, number)
        for name, topic in sorted(metadata.topics.items())
        for number, part in sorted(topic.partitions.items())
        if part.leader != NO_LEADER
    ]
    refused: dict[TopicPartition, KafkaError] = {}
    for turn in range(TURNS):
        if turn:
            threading.Event().wait(TURN_SECONDS)
        answers = offsets.listed(cluster, refused or led, At.END)
        refused = {place: found for place, found in answers.items() if isinstance(found, KafkaError)}
        if not refused:
            return
    for place, error in refused.items():
        yield _problem("not served", str(place), str(error.str()).removeprefix("Broker: "))


def _least_in_sync(cluster: Connection, names: list[str]) -> dict[str, int]:
    with refusals.while_doing("cannot read the settings of topics"):
        found = configs.describe_topics(cluster, names)
    return {
        name: int(setting.value or 0)
        for name, settings in found.items()
        for setting in settings
        if setting.name == MIN_ISR
    }


def forget(cluster: Connection, broker: int, force: bool, dry_run: bool) -> None:
    held = _held_by(refusals.metadata(cluster), broker)
    if held and not force:
        named = ", ".join(map(str, held[:NAMED_PARTITIONS])) + (", …" if len(held) > NAMED_PARTITIONS else "")
        raise CommandError(
            f"broker {broker} is a replica of {plural(len(held), 'partition')} ({named})",
            "move them to other brokers first (kafka-reassign-partitions), or use --force: a copy less of each, and "
            "those that nobody else has are lost",
        )
    if dry_run:
        note(f"would forget broker {broker}")
        return
    with refusals.while_doing(f"cannot forget broker {broker}"):
        quorum.unregister_broker(cluster, broker)
    note(f"broker {broker} is forgotten")


def _held_by(metadata: Any, broker: int) -> list[TopicPartition]:
    return [
        TopicPartition(name, number)
        for name, topic in sorted(metadata.topics.items())
        for number, part in sorted(topic.partitions.items())
        if broker in part.replicas
    ]
