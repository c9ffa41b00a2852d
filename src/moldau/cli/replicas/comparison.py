"""Whether all replicas of partitions hold the same record batches: read from each of them, compared up to what is
committed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from moldau.cli.calls import replicas
from moldau.client.errors import ClientError
from moldau.wire.batch import HEADER_SIZE, parse_header

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.types.ids import TopicPartition
    from moldau.wire.schema import Buffer


@dataclass(frozen=True, slots=True)
class Batch:
    last_offset: int
    crc: int


@dataclass(frozen=True, slots=True)
class Part:
    """What one replica sent."""

    batches: tuple[Batch, ...]
    high_watermark: int


@dataclass(frozen=True, slots=True)
class Compared:
    next_offset: int
    """Up to here all replicas have been seen to be equal, or to differ in what `differences` says."""
    differences: tuple[str, ...]
    parted: bool = False
    """Their offsets differ: from there on nothing can be compared."""


def compare(offset: int, parts: Mapping[int, Part]) -> Compared:
    """Batch by batch, as long as each replica has one that is committed."""
    differences: list[str] = []
    brokers = sorted(parts)
    for batches in zip(*(committed(parts[broker]) for broker in brokers), strict=False):
        first = batches[0]
        for broker, batch in zip(brokers[1:], batches[1:], strict=True):
            if batch.last_offset != first.last_offset:
                text = f": replica {brokers[0]}'s offset {first.last_offset} doesn't match "
                text += f"replica {broker}'s offset {batch.last_offset}"
                return Compared(offset, (*differences, text), parted=True)
            if batch.crc != first.crc:
                differences.append(
                    f" has unmatched checksum at offset {batch.last_offset}; replica {brokers[0]}'s checksum "
                    f"{first.crc}; replica {broker}'s checksum {batch.crc}"
                )
        offset = first.last_offset + 1
    return Compared(offset, tuple(differences))


def committed(part: Part) -> Iterator[Batch]:
    for batch in part.batches:
        if batch.last_offset >= part.high_watermark:
            return
        yield batch


def batches_in(records: Buffer | None) -> tuple[Batch, ...]:
    """The last one may be cut off."""
    if records is None:
        return ()
    view = memoryview(records)
    found = []
    position = 0
    while position + HEADER_SIZE <= len(view):
        header = parse_header(view, position)
        if position + header.size > len(view):
            break
        found.append(Batch(header.last_offset, header.crc))
        position += header.size
    return tuple(found)


def fetched(
    cluster: Connection, broker: int, offsets: Mapping[TopicPartition, int], max_bytes: int, max_wait_ms: int
) -> dict[TopicPartition, Part]:
    """From one broker, from these offsets on; what it does not answer for now is left out."""
    try:
        found = replicas.read(cluster, broker, offsets, max_bytes, max_wait_ms)
    except ClientError:
        return {}
    return {place: Part(batches_in(each.records), each.high_watermark) for place, each in found.items()}
