"""Positions in topics: what the options ask for, and what Spark records for each batch.

The recorded offset is a JSON object; Spark stores it in the checkpoint and compares it as text, so its keys have one
order:

    {"version": 1,
     "offsets": {"orders": {"0": 120, "1": 97}},        the next offset to read, per partition
     "topics":  {"orders": "<topic id>"},               "" where the cluster tells no ids
     "splits":  {"orders": {"0": [60, 90]}},            where the batch that ends here is cut into tasks
     "begins":  {"orders": {"1": 17}},                  where that batch began, if not where the one before it ended
     "initial": true,                                   only before the first batch
     "group":   {"servers": "…", "prefix": "…"}}        only without kafka.group.id: whom the session's listener tells

`splits` makes a replayed batch the same, task by task, whatever `minPartitions` says by then: a partition that the
batch read from `a` to `b` is read by the tasks [a, 60), [60, 90) and [90, b).

`begins` names partitions that were found while the query ran, those of a topic that was created anew, and in the first
batch all of them: Spark does not keep where a query began, and `latest` is another place after a restart.

An offset that Spark's own Kafka connector recorded ({"orders": {"0": 120}}) is understood too: a query can go on
with this source from that connector's checkpoint.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import UUID

from moldau.spark.errors import ForeignCheckpoint
from moldau.spark.option_table import OptionError
from moldau.types.ids import ZERO_TOPIC_ID, TopicPartition

EARLIEST: Final = -2
LATEST: Final = -1
VERSION: Final = 1

PartitionOffsets: TypeAlias = dict[TopicPartition, int]


# -- what the options ask for ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class At:
    """The same place in every partition: EARLIEST or LATEST."""

    place: int


@dataclass(frozen=True, slots=True)
class AtOffsets:
    """An offset for each partition; EARLIEST and LATEST may stand among them."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class AtTime:
    """The first record at or after this time in every partition."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class AtTimes:
    """The first record at or after a time of its own for each partition."""

    timestamps_ms: Mapping[TopicPartition, int]


Place: TypeAlias = At | AtOffsets | AtTime | AtTimes


def parse_partition_numbers(text: str, option: str) -> dict[TopicPartition, int]:
    """Reads `{"topic": {"0": 23, "1": -2}}`."""
    example = '{"topic": {"0": 23, "1": -2}}'
    tree = parse_json(text, option, example)
    numbers: dict[TopicPartition, int] = {}
    if not isinstance(tree, dict):
        raise OptionError(option, f"expected an object such as {example}")
    for topic, partitions in tree.items():
        if not isinstance(partitions, dict):
            raise OptionError(option, f"topic {topic!r}: expected partitions and numbers, as in {example}")
        for partition, number in partitions.items():
            if not partition.isdigit() or isinstance(number, bool) or not isinstance(number, int):
                raise OptionError(option, f"topic {topic!r}: {partition!r}: {number!r} is no partition with a number")
            numbers[TopicPartition(topic, int(partition))] = number
    return numbers


def parse_assignment(text: str, option: str) -> tuple[TopicPartition, ...]:
    """Reads `{"topic": [0, 1]}`."""
    example = '{"topic": [0, 1]}'
    tree = parse_json(text, option, example)
    if not isinstance(tree, dict) or not tree:
        raise OptionError(option, f"expected an object such as {example}")
    found: set[TopicPartition] = set()
    for topic, partitions in tree.items():
        numbers: list[Any] = partitions if isinstance(partitions, list) else [None]
        if any(isinstance(number, bool) or not isinstance(number, int) or number < 0 for number in numbers):
            raise OptionError(option, f"topic {topic!r}: expected a list of partitions, as in {example}")
        found |= {TopicPartition(topic, number) for number in numbers}
    if not found:
        raise OptionError(option, "names no partition")
    return tuple(sorted(found))


def parse_json(text: str, option: str, example: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise OptionError(option, f"is no JSON ({error}); expected something like {example}") from None


# -- what Spark records ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Position:
    """One recorded offset: where every partition stands, in which topics, and how the batch before it was cut."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, UUID | None] = field(default_factory=dict)
    cuts: Mapping[TopicPartition, tuple[int, ...]] = field(default_factory=dict)
    begins: Mapping[TopicPartition, int] = field(default_factory=dict)
    is_initial: bool = False
    lag_target: Mapping[str, str] | None = None

    def to_json(self) -> dict[str, Any]:
        """Equal positions give equal text."""
        tree: dict[str, Any] = {
            "version": VERSION,
            "offsets": nested(self.offsets.items()),
            "topics": {
                topic: id_text(self.topic_ids.get(topic)) for topic in sorted({tp.topic for tp in self.offsets})
            },
            "splits": nested((place, list(cuts)) for place, cuts in self.cuts.items() if cuts),
            "begins": nested(self.begins.items()),
        }
        if self.is_initial:
            tree["initial"] = True
        if self.lag_target is not None:
            tree["group"] = dict(sorted(self.lag_target.items()))
        return tree

    @classmethod
    def from_json(cls, tree: Any) -> Position:
        if isinstance(tree, dict) and not isinstance(tree.get("version"), int):
            return cls(flattened(tree, int))
        if not isinstance(tree, dict) or tree["version"] != VERSION:
            raise foreign(tree)
        return cls(
            offsets=flattened(tree.get("offsets"), int),
            topic_ids={topic: parse_id(text, tree) for topic, text in tree.get("topics", {}).items()},
            cuts={place: tuple(cuts) for place, cuts in flattened(tree.get("splits", {}), list).items()},
            begins=flattened(tree.get("begins", {}), int),
            is_initial=tree.get("initial", False),
            lag_target=tree.get("group"),
        )


def nested(items: Iterable[tuple[TopicPartition, Any]]) -> dict[str, dict[str, Any]]:
    tree: dict[str, dict[str, Any]] = {}
    for place, value in sorted(items, key=lambda item: item[0]):
        tree.setdefault(place.topic, {})[str(place.partition)] = value
    return tree


def flattened(tree: Any, kind: type) -> dict[TopicPartition, Any]:
    if not isinstance(tree, dict):
        raise foreign(tree)
    flat: dict[TopicPartition, Any] = {}
    for topic, partitions in tree.items():
        if not isinstance(partitions, dict):
            raise foreign(tree)
        for partition, value in partitions.items():
            if not partition.isdigit() or not isinstance(value, kind) or isinstance(value, bool):
                raise foreign(tree)
            flat[TopicPartition(topic, int(partition))] = value
    return flat


def id_text(topic_id: UUID | None) -> str:
    return "" if topic_id is None or topic_id == ZERO_TOPIC_ID else str(topic_id)


def parse_id(text: Any, tree: Any) -> UUID | None:
    try:
        return UUID(text) if text else None
    except (ValueError, AttributeError, TypeError):
        raise foreign(tree) from None


def foreign(tree: Any) -> ForeignCheckpoint:
    return ForeignCheckpoint(
        "the checkpoint holds an offset that format 'moldau' did not write, so it belongs to another query; "
        f"use another checkpointLocation. The offset: {json.dumps(tree)[:300]}"
    )
