"""Indexes and producer snapshots, printed and checked as kafka-dump-log does."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from moldau.cli.kafka.options import ToolError
from moldau.storage.index import OFFSET_ENTRY, TIME_ENTRY

TXN_ENTRY: Final = Struct(">hqqqq")


class Problems:
    """What does not fit, told at the end."""

    def __init__(self) -> None:
        self._groups: dict[str, list[str]] = {}

    def add(self, heading: str, line: str) -> None:
        self._groups.setdefault(heading, []).append(line)

    def note(self, line: str) -> None:
        sys.stdout.flush()
        print(line, file=sys.stderr)

    def not_consecutive(self, path: Path, before: int, after: int) -> None:
        self.add(f"Non-consecutive offsets in {path.absolute()}", f"  {before} is followed by {after}")

    def tell(self) -> None:
        for heading, lines in self._groups.items():
            print(heading, *lines, sep="\n", file=sys.stderr)


def start_offset(path: Path) -> int:
    name = path.name.partition(".")[0]
    if not name.isdigit():
        raise ToolError(f"{path}: the name of a segment's file begins with its first offset")
    return int(name)


def entries_of(path: Path, entry: Struct) -> list[tuple[int, ...]]:
    data = path.read_bytes()
    return list(entry.iter_unpack(data[: len(data) - len(data) % entry.size]))


def used(entries: list[tuple[int, ...]], relative: int) -> Iterator[tuple[int, ...]]:
    """Up to the first entry of zeros: after a crash, and in a file of reserved space, many may follow."""
    for number, entry in enumerate(entries):
        if number and entry[relative] == 0:
            return
        yield entry


def check_size(path: Path, entry: Struct, what: str) -> None:
    size = path.stat().st_size
    if size % entry.size:
        raise ToolError(
            f"{what} file {path} is corrupt, found {size} bytes which is neither positive nor a multiple of "
            f"{entry.size}"
        )


def dump_offset_index(path: Path, sanity_only: bool, verify_only: bool, problems: Problems) -> None:
    base = start_offset(path)
    entries = entries_of(path, OFFSET_ENTRY)
    if not entries:
        print(f"{path} is empty.")
        return
    if sanity_only:
        last = base + entries[-1][0]
        if last < base:
            raise ToolError(
                f"Corrupt index found, index file ({path}) has non-zero size but the last offset is {last} "
                f"which is less than the base offset {base}"
            )
        check_size(path, OFFSET_ENTRY, "Index")
        print(f"{path} passed sanity check.")
        return
    log = path.with_suffix(".log")
    mismatches = {}
    for relative, position in used(entries, 0):
        offset = base + relative
        found = batch_end(log, position)
        if found != offset:
            mismatches[offset] = found
        if not verify_only:
            print(f"offset: {offset} position: {position}")
    for offset in sorted(mismatches, reverse=True):
        line = f"  Index offset: {offset}, log offset: {mismatches[offset]}"
        problems.add(f"Mismatches in :{path.absolute()}", line)


def batch_end(log: Path, position: int) -> int:
    from moldau.wire.batch import HEADER_SIZE, parse_header

    with log.open("rb") as file:
        file.seek(position)
        head = file.read(HEADER_SIZE)
    return parse_header(head).last_offset if len(head) == HEADER_SIZE else -1


def dump_time_index(path: Path, sanity_only: bool, verify_only: bool, problems: Problems) -> None:
    base = start_offset(path)
    entries = entries_of(path, TIME_ENTRY)
    if sanity_only:
        check_time_index(path, base, entries)
        print(f"{path} passed sanity check.")
        return
    largest = batch_times(path.with_suffix(".log"))
    previous = -1
    for timestamp, relative in used(entries, 1):
        offset = base + relative
        check_time_entry(path, timestamp, offset, previous, largest, problems)
        if not verify_only:
            print(f"timestamp: {timestamp} offset: {offset}")
        previous = timestamp


def check_time_index(path: Path, base: int, entries: list[tuple[int, ...]]) -> None:
    if entries:
        (first, _), (last, relative) = entries[0], entries[-1]
        if last < first:
            raise ToolError(
                f"Corrupt time index found, time index file ({path}) has non-zero size but the last timestamp is "
                f"{last} which is less than the first timestamp {first}"
            )
        if relative < 0:
            raise ToolError(
                f"Corrupt time index found, time index file ({path}) has non-zero size but the last offset is "
                f"{base + relative} which is less than the first offset {base}"
            )
    check_size(path, TIME_ENTRY, "Time index")


def check_time_entry(
    path: Path, timestamp: int, offset: int, previous: int, largest: dict[int, int], problems: Problems
) -> None:
    absolute = path.absolute()
    found = next((last for last in largest if last >= offset), -1)
    if found != offset:
        heading = f"The following indexed offsets are not found in :{absolute}"
        problems.add(heading, f"Indexed offset: {offset}, found log offset: {found}")
        return
    if largest[found] != timestamp:
        heading = f"Found timestamp mismatch in :{absolute}"
        problems.add(heading, f"  Index timestamp: {timestamp}, log timestamp: {largest[found]}")
    if previous >= timestamp:
        heading = f"Found out of order timestamp in :{absolute}"
        problems.add(heading, f"  Index timestamp: {timestamp}, Previously indexed timestamp: {previous}")


def batch_times(log: Path) -> dict[int, int]:
    """The largest timestamp of each batch, by its last offset."""
    from moldau.cli.kafka.dump_records import batches_of
    from moldau.wire.records import iter_records

    return {
        batch.header.last_offset: max((record.timestamp for record in iter_records(batch)), default=-1)
        for _, batch in batches_of(log, sys.maxsize)
    }


def dump_txn_index(path: Path) -> None:
    for version, producer_id, first, last, stable in entries_of(path, TXN_ENTRY):
        print(
            f"version: {version} producerId: {producer_id} firstOffset: {first} lastOffset: {last} "
            f"lastStableOffset: {stable}"
        )


def dump_snapshot(path: Path, problems: Problems) -> None:
    from moldau.storage.producer_snapshots import CorruptSnapshotError, decode_snapshot

    try:
        producers = decode_snapshot(path.read_bytes())
    except CorruptSnapshotError as error:
        problems.note(f"Snapshot {path} is corrupt: {error}")
        return
    for producer_id, entry in producers:
        open_since = f"OptionalLong[{entry.txn_first_offset}]" if entry.txn_first_offset >= 0 else "OptionalLong.empty"
        text = (
            f"producerId: {producer_id} producerEpoch: {entry.epoch} coordinatorEpoch: {entry.coordinator_epoch} "
            f"currentTxnFirstOffset: {open_since} lastTimestamp: {entry.last_timestamp}"
        )
        if entry.batches:
            mark = entry.batches[0]
            text += (
                f" firstSequence: {mark.first_sequence} lastSequence: {mark.last_sequence} "
                f"lastOffset: {mark.last_offset} offsetDelta: {mark.offset_delta} timestamp: {mark.timestamp}"
            )
        print(text)
