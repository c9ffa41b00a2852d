"""What `moldau broker adopt` does: look, tell, ask, carry out."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from moldau.cli.output import (
    DONE,
    FAILED,
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
from moldau.metadata.adoption.carrying import adopt_copy, adopt_in_place, was_begun
from moldau.metadata.adoption.kraft_records import UnreadableMetadataError
from moldau.metadata.adoption.kraft_state import Resource
from moldau.metadata.adoption.plan import Plan, plan
from moldau.metadata.adoption.survey import CannotAdoptError, nobody_else, survey
from moldau.metadata.store import StoreError
from moldau.storage.checkpoints import CorruptFileError
from moldau.storage.files import OsFiles

REFUSALS = (CannotAdoptError, UnreadableMetadataError, CorruptFileError, StoreError, OSError)
KINDS = {2: "topic", 4: "broker", 16: "client metrics", 32: "group"}


def adopt(
    directories: Sequence[Path], into: Sequence[Path], in_place: bool, dry_run: bool, yes: bool, output: Format
) -> int:
    if not dry_run and bool(into) == in_place:
        raise CommandError(
            "where to?",
            "--into DIRECTORY copies, --in-place takes the log directories themselves, --dry-run only looks",
            WRONG_USAGE,
        )
    if len(into) not in (0, 1, len(directories)):
        named = "1 log directory" if len(directories) == 1 else f"{len(directories)} log directories"
        raise CommandError(
            f"{named} cannot go to {len(into)}",
            "give --into once, or once for each",
            WRONG_USAGE,
        )
    sources, targets = [_absolute(each) for each in directories], [_absolute(each) for each in into]
    try:
        with nobody_else(sources):
            return _adopt(sources, targets, dry_run, yes, output)
    except BrokenPipeError:
        raise
    except REFUSALS as error:
        raise CommandError(str(error), exit_code=FAILED) from error


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def _adopt(sources: Sequence[Path], targets: Sequence[Path], dry_run: bool, yes: bool, output: Format) -> int:
    files, names = OsFiles(), [str(source) for source in sources]
    if not targets and not dry_run and was_begun(files, names):
        adopt_in_place(files, names, _never_asked, uuid.uuid4)
        note("what was begun is done")
        _say_how_to_start(sources, None)
        return DONE
    made = plan(survey(sources), uuid.uuid4())
    show(output, _document(made, names), lambda: _tables(made))
    if dry_run:
        return DONE
    if targets:
        with progress("copying", made.size_bytes) as copied:
            adopt_copy(files, made, sources, targets, uuid.uuid4, copied)
    else:
        left = sum(each.what == "topic" for each in made.not_taken)
        losing = f", leaving {plural(left, 'topic')} behind" if left else ""
        confirm(f"Take {', '.join(names)} over{losing}? Apache Kafka will not start on them again.", yes)
        adopt_in_place(files, names, lambda: made, uuid.uuid4)
    if made.from_zookeeper:
        note("take zookeeper.connect out of server.properties: the metadata lies in the log directory now")
    note(f"took {plural(len(made.topics), 'topic')} of cluster {made.cluster_id} over, {size_text(made.size_bytes)}")
    _say_how_to_start(targets or sources, made.node_id)
    return DONE


def _never_asked() -> Plan:
    raise AssertionError("the metadata is there already")


def _say_how_to_start(directories: Sequence[Path], node_id: int | None) -> None:
    own_id = f" --set node.id={node_id}" if node_id not in (None, 1) else ""
    note(
        "start it with the settings that Kafka had, its retention times above all: "
        f"moldau broker start --config server.properties --set log.dirs={','.join(map(str, directories))}{own_id}"
    )


def _tables(made: Plan) -> list[Table]:
    kind = "ZooKeeper" if made.from_zookeeper else "KRaft"
    title = f"Taken from broker {made.node_id} of cluster {made.cluster_id} ({kind})"
    topics = Table(
        [Column("topic"), Column("partitions", right=True), Column("size", right=True), Column("settings")], title
    )
    for topic in made.topics:
        settings = " ".join(f"{name}={value}" for name, value in topic.settings.items())
        topics.add(topic.name, len(topic.logs), size_text(topic.size_bytes), settings)
    others = Table([Column("settings of"), Column("settings")], "Settings taken")
    for resource, found in made.settings.items():
        others.add(_named(resource), " ".join(f"{name}={value}" for name, value in found.items()))
    access = Table([Column("what"), Column("count", right=True)], "Access taken")
    for what, count in (("ACLs", made.acls), ("SCRAM users", made.scram_users), ("quotas", made.quotas)):
        if count:
            access.add(what, len(count))
    left = Table([Column("what"), Column("name"), Column("why")], "Not taken")
    for each in made.not_taken:
        left.add(each.what, each.name, each.reason)
    return [topics, *(table for table in (others, access, left) if table.rows)]


def _named(resource: Resource) -> str:
    kind = KINDS.get(resource.type, str(resource.type))
    return f"{kind} {resource.name}" if resource.name else f"all {kind}s"


def _document(made: Plan, directories: Sequence[str]) -> dict[str, Any]:
    return {
        "cluster_id": made.cluster_id,
        "node_id": made.node_id,
        "metadata": "zookeeper" if made.from_zookeeper else "kraft",
        "log_directories": list(directories),
        "topics": [
            {
                "name": topic.name,
                "id": str(topic.id),
                "partitions": len(topic.logs),
                "bytes": topic.size_bytes,
                "settings": dict(topic.settings),
            }
            for topic in made.topics
        ],
        "settings": [
            {"kind": KINDS.get(resource.type), "name": resource.name, "settings": found}
            for resource, found in made.settings.items()
        ],
        "next_producer_id": made.next_producer_id,
        "acls": len(made.acls),
        "scram_users": list(made.scram_users),
        "quotas": len(made.quotas),
        "not_taken": [{"what": each.what, "name": each.name, "reason": each.reason} for each in made.not_taken],
    }
