"""What stands in logs: a batch of one offset and leader epoch is the same wherever it stands, and so is all before it.

Each replica's log is read as it grows; of each batch its predecessor is kept, so that equal batches mean equal
beginnings.
"""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from moldau.storage.log import PartitionLog
from moldau.storage.producer_replay import rebuild_producers
from moldau.storage.producer_state import ProducerEntry, ProducerStates
from moldau.storage.segment_list import SegmentList
from moldau.wire.control import decode_end_transaction_marker
from moldau.wire.records import iter_batches, iter_records

PIECE_BYTES = 1 << 20

#: Topic, and partition.
Place = tuple[UUID, int]
#: Epoch, first offset, next offset and CRC.
Batch = tuple[int, int, int, int]


class Stood(NamedTuple):
    """A batch where it stands. `before`: leader epoch and offset of the one before it."""

    crc: int
    next_offset: int
    before: tuple[int, int]


FIRST = (-1, -1)


class Histories:
    def __init__(self) -> None:
        self._batches: dict[tuple[Place, int, int], Stood] = {}
        self._read: dict[PartitionLog, list[tuple[int, int, int]]] = {}

    def look(self, place: Place, log: PartitionLog) -> str | None:
        """What is wrong with what this replica has taken since."""
        known = self._read.setdefault(log, [])
        if known and known[-1][2] == log.log_end_offset and known[-1][0] == log.leader_epochs.latest:
            return None
        found = self._found(log, known)
        before = known[-1][:2] if known else FIRST
        for epoch, offset, next_offset, crc in found:
            stood = Stood(crc, next_offset, before)
            other = self._batches.setdefault((place, epoch, offset), stood)
            # what was read from the middle of a log has no predecessor
            if other != stood and (other[:2] != stood[:2] or FIRST not in (other.before, before)):
                return f"offset {offset} of epoch {epoch} is {stood} here and {other} elsewhere"
            before = (epoch, offset)
            known.append((epoch, offset, next_offset))
        return None

    def _found(self, log: PartitionLog, known: list[tuple[int, int, int]]) -> list[Batch]:
        """What stands behind the last batch that is known and still there."""
        while known and known[-1][2] > log.log_end_offset:
            known.pop()
        if known and known[-1][1] >= log.log_start_offset:
            found = batches_of(log, known[-1][1])
            if found and found[0][:3] == known[-1]:
                return found[1:]
        known.clear()  # cut further back meanwhile, and grown again
        return batches_of(log, log.log_start_offset)


def batches_of(log: PartitionLog, start: int) -> list[Batch]:
    found = []
    for data in pieces(log, start):
        for batch in iter_batches(data):
            header = batch.header
            if header.base_offset >= start:
                found.append((header.leader_epoch, header.base_offset, header.next_offset, header.crc))
    return found


def pieces(log: PartitionLog, start: int) -> list[bytes]:
    found, offset = [], start
    while offset < log.log_end_offset:
        part = log.read(offset, PIECE_BYTES, log.log_end_offset)
        found.append(log._files.pread(part.file.fileno, part.length, part.position))
        offset = part.next_offset
    return found


def content(log: PartitionLog, start: int) -> bytes:
    return b"".join(pieces(log, start))


def wrong_producers(log: PartitionLog) -> str | None:
    """The state of producers is that which the log amounts to."""
    again = ProducerStates(log.topic_partition, log.producers.expiry_ms)
    again.clear(log.log_start_offset)
    rebuild_producers(log._files, SegmentList(list(log.segments)), again, log.log_start_offset, log.log_end_offset)
    kept, rebuilt = dict(log.producers.items()), dict(again.items())
    if kept.keys() != rebuilt.keys() or not all(map(agree, kept.values(), map(rebuilt.__getitem__, kept))):
        return f"producers are {kept}, and the log amounts to {rebuilt}"
    return None


def wrong_order(log: PartitionLog) -> str | None:
    """Of each producer: epochs never fall, an epoch begins with its first batch and has no gap, and whose markers are
    here is never an older coordinator than before.
    """
    last: dict[int, tuple[int, int]] = {}
    coordinators: dict[int, int] = {}
    for data in pieces(log, log.log_start_offset):
        for batch in iter_batches(data):
            header = batch.header
            producer, epoch, offset = header.producer_id, header.producer_epoch, header.base_offset
            if producer < 0:
                continue
            known_epoch, next_sequence = last.get(producer, (epoch, header.base_sequence))
            if epoch < known_epoch:
                return f"offset {offset} is of epoch {epoch} of producer {producer}, behind epoch {known_epoch}"
            if epoch > known_epoch:
                next_sequence = 0
            if header.is_control:
                marker = decode_end_transaction_marker(next(iter_records(batch)))
                assert marker is not None
                if marker.coordinator_epoch < coordinators.get(producer, marker.coordinator_epoch):
                    return f"the marker at {offset} is of an older coordinator than the one before: {marker}"
                coordinators[producer] = marker.coordinator_epoch
            elif header.base_sequence >= 0:
                if header.base_sequence != next_sequence:
                    return f"offset {offset} is number {header.base_sequence} of {producer}, not {next_sequence}"
                next_sequence += header.next_offset - header.base_offset
            last[producer] = (epoch, next_sequence)
    return None


def agree(kept: ProducerEntry, rebuilt: ProducerEntry) -> bool:
    """A snapshot, which has Kafka's form, knows no batches before the last one, and of that one the time of whatever
    came last from its producer, be it a marker."""
    count = len(kept.batches)
    known = [batch[:-1] for batch in kept.batches]
    same_end = known == [batch[:-1] for batch in rebuilt.batches[-count:]] if count else not rebuilt.batches
    return same_end and kept[:-1] == rebuilt[:-1]
