"""Where a group's offsets shall go: pure rules, the same as those of Kafka's `kafka-consumer-groups --reset-offsets`.

A wanted offset before the first or behind the end of its partition becomes the first or the end, and says so.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.cli import documents
from moldau.cli.offset_rows import BadRowError, offset_rows
from moldau.cli.output import WRONG_USAGE, CommandError
from moldau.types.ids import TopicPartition

GROUP_KEYS: Final = (
    "group",
    "state",
    "type",
    "assignor",
    "coordinator",
    "simple",
    "total_lag",
    "members",
    "offsets",
    "executed",
)
Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Step:
    """One partition's move."""

    place: TopicPartition
    current: int | None
    wanted: int
    offset: int
    """`wanted`, within the partition's range."""
    first: int
    end: int

    @property
    def clipped(self) -> bool:
        return self.offset != self.wanted


def step(place: TopicPartition, current: int | None, wanted: int, first: int, end: int) -> Step:
    return Step(place, current, wanted, min(max(wanted, first), end), first, end)


def shifted(
    places: Sequence[TopicPartition], current: Mapping[TopicPartition, int], by: int
) -> dict[TopicPartition, int]:
    missing = [place for place in places if place not in current]
    if missing:
        raise CommandError(
            f"{missing[0]} has no committed offset to shift", "use --to-earliest or --to-latest", WRONG_USAGE
        )
    return {place: current[place] + by for place in places}


def parse_topics(texts: Sequence[str]) -> dict[str, list[int] | None]:
    """`orders` is the whole topic, `orders:0,2` two of its partitions."""
    found: dict[str, list[int] | None] = {}
    for text in texts:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not all(number.strip().isdigit() for number in numbers.split(","))):
            raise CommandError(f"--topic {text!r}: expected TOPIC or TOPIC:0,1,2", exit_code=WRONG_USAGE)
        found[topic] = [int(number) for number in numbers.split(",")] if colon else None
    return found


def read_offsets(path: Path, group: str) -> dict[TopicPartition, int]:
    """Offsets from `group describe -o json`, `group reset -o json`, or the CSV of Kafka's `--export`."""
    text = documents.read_text(path)
    # A topic's name begins with neither bracket.
    if text.lstrip().startswith(("[", "{")):
        return _from_json(text, str(path), group)
    return _from_csv(text, str(path), group)


def _from_json(text: str, origin: str, group: str) -> dict[TopicPartition, int]:
    items = documents.parse_objects(text, origin, "group describe", GROUP_KEYS)
    named = [item for item in items if item.get("group") == group] or items
    if len(named) > 1:
        groups = ", ".join(str(item.get("group")) for item in named)
        raise CommandError(f"{origin} holds several groups ({groups}), none is {group!r}", exit_code=WRONG_USAGE)
    found = {}
    for number, entry in enumerate(documents.field(named[0], "offsets", list, origin)):
        where = f"{origin}: offset {number}"
        if not isinstance(entry, dict):
            raise CommandError(f"{where} is no object: {json.dumps(entry)}", exit_code=WRONG_USAGE)
        if entry.get("offset") is None:
            continue
        place = TopicPartition(
            documents.field(entry, "topic", str, where), documents.field(entry, "partition", int, where)
        )
        found[place] = documents.field(entry, "offset", int, where)
    return _some(found, origin)


def _from_csv(text: str, origin: str, group: str) -> dict[TopicPartition, int]:
    """What rows of other groups say is theirs."""
    try:
        return _some({row.place: row.offset for row in offset_rows(text, group) if row.group == group}, origin)
    except BadRowError as bad:
        message = f"{origin}, line {bad.line}: expected topic,partition,offset"
        raise CommandError(message, exit_code=WRONG_USAGE) from None


def _some(found: dict[TopicPartition, int], origin: str) -> dict[TopicPartition, int]:
    if not found:
        raise CommandError(f"{origin} holds no offsets for this group", exit_code=WRONG_USAGE)
    return found
