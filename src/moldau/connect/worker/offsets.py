"""Offsets of connectors over REST: read, set, forgotten."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.connect.interface import order_of
from moldau.connect.sources import fence_all
from moldau.connect.task import Job
from moldau.connect.worker.errors import bad_request
from moldau.connect.worker.generations import generations_now
from moldau.connect.worker.positions import PositionTables, group_offsets, set_group_offsets
from moldau.types.ids import TopicPartition

TOPIC, PARTITION, OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"
MISSING: Final = "Partitions / offsets need to be provided for an alter offsets request"


def read(job: Job, tables: PositionTables) -> dict[str, Any]:
    if job.is_source:
        found = tables.table(job.offsets_topic).of_connector(job.offsets_name)
        return {"offsets": [{"partition": partition, "offset": position} for partition, position in found]}
    return {
        "offsets": [
            {"partition": {TOPIC: place.topic, PARTITION: place.partition}, "offset": {OFFSET: offset}}
            for place, offset in sorted(group_offsets(job).items())
        ]
    }


def alter(job: Job, tables: PositionTables, body: Mapping[str, Any]) -> dict[str, str]:
    given = body.get("offsets")
    if not given:
        raise bad_request(MISSING)
    pairs = [(each.get("partition"), each.get("offset")) for each in given]
    if job.is_source:
        alter_source(job, tables, pairs)
    else:
        alter_sink(job, tables, parsed(pairs))
    return {"message": "The offsets for this connector have been altered successfully"}


def reset(job: Job, tables: PositionTables) -> dict[str, str]:
    if job.is_source:
        fence_all(job, ())  # what it would commit until then is to be forgotten too
        found = tables.table(job.offsets_topic).of_connector(job.offsets_name)
        alter_source(job, tables, [(partition, None) for partition, _ in found])
    else:
        alter_sink(job, tables, dict.fromkeys(group_offsets(job)))
    return {"message": "The offsets for this connector have been reset successfully"}


def alter_source(job: Job, tables: PositionTables, pairs: list[tuple[Any, Any]]) -> None:
    source = job.source()
    try:
        for partition, position in pairs:
            if not isinstance(partition, Mapping):
                raise bad_request("The partition for a source connector offset cannot be null or missing")
            source.validate_position(partition, position)
    except ValueError as problem:
        raise bad_request(str(problem)) from None
    finally:
        source.close()
    if pairs:
        # A worker that was paused while the connector was stopped does not know, and would write over it.
        fence_all(job, ())
        tables.table(job.offsets_topic).set(job.offsets_name, pairs)


def alter_sink(job: Job, tables: PositionTables, offsets: Mapping[TopicPartition, int | None]) -> None:
    generations = generations_now(job, tables.table(job.offsets_topic), {place.topic for place in offsets})
    orders = {
        place: None if offset is None else order_of(generations[place.topic], offset)
        for place, offset in offsets.items()
    }
    sink = job.sink()
    try:
        sink.alter(orders)
    finally:
        sink.close()
    set_group_offsets(job, offsets)


def parsed(pairs: list[tuple[Any, Any]]) -> dict[TopicPartition, int | None]:
    found: dict[TopicPartition, int | None] = {}
    for partition, offset in pairs:
        if partition is None:
            raise bad_request("The partition for a sink connector offset cannot be null or missing")
        if TOPIC not in partition or PARTITION not in partition:
            raise bad_request(
                f"The partition for a sink connector offset must contain the keys '{TOPIC}' and '{PARTITION}'"
            )
        if partition[TOPIC] is None:
            raise bad_request("Kafka topic names must be valid strings and may not be null")
        if partition[PARTITION] is None:
            raise bad_request("Kafka partitions must be valid numbers and may not be null")
        number = whole(partition[PARTITION], "partition", "Partition")
        place = TopicPartition(str(partition[TOPIC]), number)
        if offset is None:
            found[place] = None
            continue
        if OFFSET not in offset:
            raise bad_request(f"The offset for a sink connector should either be null or contain the key '{OFFSET}'")
        found[place] = whole(offset[OFFSET], "offset", "Offset")
    return found


def whole(value: Any, what: str, capital: str) -> int:
    try:
        return int(str(value))
    except ValueError:
        raise bad_request(
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{value}'. {capital} values "
            "for sink connectors need to be integers."
        ) from None
