"""From what is asked for (`earliest`, a time, an offset) to offsets, and from a checkpoint to what is there today.

The rules are passed `look`, which turns times and places into offsets, and `lost`, which is told of lost data and
raises unless the user said to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Final, TypeAlias

from moldau.spark.errors import ForeignCheckpoint
from moldau.spark.option_table import OptionError
from moldau.spark.planning.catalog import TopicView
from moldau.spark.planning.looking import FindOffsets, Look
from moldau.spark.planning.offsets import (
    EARLIEST,
    LATEST,
    At,
    AtOffsets,
    AtTime,
    AtTimes,
    PartitionOffsets,
    Place,
    Position,
)
from moldau.types.ids import TopicPartition

Lost: TypeAlias = Callable[[str], None]

NO_MATCH: Final = -1
SPECIAL: Final = (EARLIEST, LATEST)


def resolve(
    place: Place,
    option: str,
    partitions: Collection[TopicPartition],
    look: Look,
    lost: Lost,
    *,
    no_match: str = "latest",
) -> PartitionOffsets:
    """An offset for each partition. A time after the last record is an error, or with `no_match` latest the end."""
    match place:
        case At(where):
            return look(dict.fromkeys(partitions, where))
        case AtTime(timestamp):
            return at_times(dict.fromkeys(partitions, timestamp), option, look, no_match)
        case AtTimes(timestamps):
            check_complete(timestamps, partitions, option)
            return at_times(timestamps, option, look, no_match)
        case AtOffsets(offsets):
            check_complete(offsets, partitions, option)
            return at_offsets(offsets, option, look, lost)


def check_complete(given: Collection[TopicPartition], partitions: Collection[TopicPartition], option: str) -> None:
    missing, foreign = set(partitions) - set(given), set(given) - set(partitions)
    if missing:
        raise OptionError(option, f"names no place for {names(missing)}; every partition that is read needs one")
    if foreign:
        raise OptionError(option, f"names {names(foreign)}, which this query does not read or which does not exist")


def at_times(
    timestamps: Mapping[TopicPartition, int], option: str, look: FindOffsets, no_match: str
) -> PartitionOffsets:
    found = look(timestamps)
    without = [place for place, offset in found.items() if offset == NO_MATCH]
    if without and no_match == "error":
        raise OptionError(
            option,
            f"there is no record at or after {timestamps[without[0]]} in {names(without)}; "
            "startingOffsetsByTimestampStrategy=latest would start at the end there",
        )
    return found | look(dict.fromkeys(without, LATEST)) if without else found


def at_offsets(offsets: Mapping[TopicPartition, int], option: str, look: Look, lost: Lost) -> PartitionOffsets:
    """An offset behind the last stable one is there, if the log reaches it: the query waits for its transaction."""
    special = {place: offset for place, offset in offsets.items() if offset in SPECIAL}
    plain = [place for place in offsets if place not in special]
    settled = look(special) if special else {}
    first = look(dict.fromkeys(plain, EARLIEST)) if plain else {}
    last = look.log_ends(plain) if plain else {}
    for place in plain:
        offset = offsets[place]
        if place not in first or place not in last:
            continue
        if not first[place] <= offset <= last[place]:
            lost(f"{option} names offset {offset} of {place}, which holds {first[place]} to {last[place]}")
        settled[place] = min(max(offset, first[place]), last[place])
    return settled


def names(places: Collection[TopicPartition], most: int = 5) -> str:
    shown = sorted(places)[:most]
    more = f" and {len(places) - most} more" if len(places) > most else ""
    return ", ".join(str(place) for place in shown) + more


# -- a running query -------------------------------------------------------------------------------------------------


def carry_on(
    start: Position,
    topics: Mapping[str, TopicView],
    partitions: Collection[TopicPartition],
    is_read: Callable[[TopicPartition], bool],
    lost: Lost,
) -> PartitionOffsets:
    """Where each partition that exists today is read on; EARLIEST for those that the checkpoint does not know."""
    strangers = {place for place in start.offsets if not is_read(place)}
    if strangers and len(strangers) == len(start.offsets):
        raise ForeignCheckpoint(
            f"the checkpoint holds offsets of {names(strangers)}, none of which this query reads: "
            "it belongs to another query; use another checkpointLocation"
        )
    if strangers:
        lost(f"the checkpoint holds offsets of {names(strangers)}, which this query does not read any more")
    begins = dict.fromkeys(partitions, EARLIEST)
    for topic in sorted({place.topic for place in start.offsets if place not in strangers}):
        known = {place: offset for place, offset in start.offsets.items() if place.topic == topic and is_read(place)}
        begins |= carry_topic_on(topic, known, start, topics.get(topic), lost)
    return begins


def carry_topic_on(
    topic: str, known: PartitionOffsets, start: Position, today: TopicView | None, lost: Lost
) -> PartitionOffsets:
    if today is None:
        lost(f"topic {topic} was deleted; it had been read up to {offsets_text(known)}")
        return {}
    before = start.topic_ids.get(topic)
    if before is not None and today.topic_id is not None and before != today.topic_id:
        lost(f"topic {topic} was deleted and created anew; the old one had been read up to {offsets_text(known)}")
        return {}
    gone = [place for place in known if place.partition not in today.leaders]
    if gone:
        lost(f"partitions {names(gone)} are gone")
    return {place: offset for place, offset in known.items() if place.partition in today.leaders}


def offsets_text(offsets: PartitionOffsets, most: int = 5) -> str:
    shown = ", ".join(f"{place.partition}: {offset}" for place, offset in sorted(offsets.items())[:most])
    return shown + (", …" if len(offsets) > most else "")
