"""Reading log files for `moldau log dump` and `moldau log verify`, without a broker and without changing anything."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from moldau.cli.log.segment_files import whole_batches
from moldau.cli.output import (
    DONE,
    FAILED,
    NOT_FOUND,
    WRONG_USAGE,
    Column,
    CommandError,
    Format,
    Table,
    progress,
    show,
)
from moldau.cli.records.record_format import Printer, Record, json_line
from moldau.cli.times import instant_text
from moldau.kernels import BatchCheck, BatchStatus, check_batch
from moldau.storage.index import OFFSET_ENTRY
from moldau.wire.batch import BatchHeader, CorruptBatchError
from moldau.wire.compression import Codec, DecompressionError
from moldau.wire.records import Batch, iter_records

SEGMENT: Final = ".log"
INDEX: Final = ".index"
SOUND: Final = (BatchStatus.OK, BatchStatus.COMPRESSED, BatchStatus.BAD_OFFSETS)
"""BAD_OFFSETS is how a compacted batch looks: records were taken out of it."""


@dataclass(frozen=True, slots=True)
class Found:
    """One batch of a segment; `problem` is empty if it is sound."""

    position: int
    header: BatchHeader | None
    batch: Batch | None
    problem: str = ""


def segments(paths: Sequence[Path]) -> list[Path]:
    """The segments that are named: files, or all those in the folder of a partition or of a broker, in order."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            inside = sorted(path.rglob(f"*{SEGMENT}"), key=lambda each: (str(each.parent), each.name))
            if not inside:
                raise CommandError(f"no log is in {path}", "expected <log directory>/<topic>-<partition>", NOT_FOUND)
            found += inside
        elif path.suffix == SEGMENT and path.is_file():
            found.append(path)
        elif path.exists():
            raise CommandError(f"{path} is no segment", "their names end in .log", WRONG_USAGE)
        else:
            raise CommandError(f"{path} does not exist", exit_code=NOT_FOUND)
    return found


def walk(path: Path) -> Iterator[Found]:
    """Every batch up to the first that cannot be read on from."""
    end, size = 0, path.stat().st_size
    for position, batch in whole_batches(path):
        yield Found(position, batch.header, batch, problem_of(batch.data))
        end = position + batch.header.size
    if end < size:
        yield Found(end, None, None, f"{size - end} bytes at the end are no whole batch")


def problem_of(data: bytes | memoryview) -> str:
    status = BatchStatus(BatchCheck(*check_batch(data, 0, len(data))).status)
    return "" if status in SOUND else status.name.lower().replace("_", " ")


# -- dump ----------------------------------------------------------------------------------------------------------


def dump(paths: Sequence[Path], records: bool, printer: Printer | None, output: Format) -> int:
    """Batches as tables or JSON; with `records` the records themselves, as a template prints them or a line of JSON."""
    files = segments(paths)
    if records:
        sound = [dump_records(path, printer or json_line) for path in files]
        return DONE if all(sound) else FAILED
    found = {path: [replace(each, batch=None) for each in walk(path)] for path in files}
    document = [batch_document(path, each) for path, batches in found.items() for each in batches]
    show(output, document, lambda: [batch_table(path, batches) for path, batches in found.items()])
    return FAILED if any(each.problem for batches in found.values() for each in batches) else DONE


def batch_table(path: Path, found: Sequence[Found]) -> Table:
    columns = ("position", "offsets", "records", "bytes", "epoch", "producer", "codec", "kind", "max time", "problem")
    table = Table([Column(name, right=name in ("position", "records", "bytes")) for name in columns], str(path))
    for each in found:
        table.add(*batch_row(each))
    return table


def batch_document(path: Path, found: Found) -> dict[str, Any]:
    document: dict[str, Any] = {"file": str(path), "position": found.position}
    if found.header is not None:
        header = found.header
        document |= {
            "base_offset": header.base_offset,
            "last_offset": header.last_offset,
            "records": header.count,
            "bytes": header.size,
            "leader_epoch": header.leader_epoch,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "codec": codec_name(header),
            "transactional": header.is_transactional,
            "control": header.is_control,
            "max_timestamp": header.max_timestamp,
        }
    return document | {"problem": found.problem or None}


def codec_name(header: BatchHeader) -> str:
    return Codec(header.codec).name.lower() if header.codec in list(Codec) else str(header.codec)


def batch_row(found: Found) -> list[object]:
    if found.header is None:
        return [found.position, *[""] * 8, found.problem]
    header = found.header
    kinds = [name for name, holds in (("txn", header.is_transactional), ("control", header.is_control)) if holds]
    producer = "" if header.producer_id < 0 else f"{header.producer_id}/{header.producer_epoch}"
    return [
        found.position,
        f"{header.base_offset}..{header.last_offset}",
        header.count,
        header.size,
        header.leader_epoch,
        producer,
        codec_name(header),
        " ".join(kinds),
        instant_text(header.max_timestamp),
        found.problem,
    ]


def dump_records(path: Path, printer: Printer) -> bool:
    topic, _, partition = path.absolute().parent.name.rpartition("-")
    sound = True
    for each in walk(path):
        if each.problem or each.batch is None:
            sound = False
            print(f"{path}, position {each.position}: {each.problem}", file=sys.stderr)
            continue
        if each.batch.header.is_control:
            continue
        for record in readable(path, each.batch):
            shown = Record(
                topic=topic,
                partition=int(partition) if partition.isdigit() else -1,
                offset=record.offset,
                timestamp=record.timestamp,
                timestamp_type=each.batch.header.timestamp_type + 1,
                key=record.key,
                value=record.value,
                headers=list(record.headers),
            )
            sys.stdout.buffer.write(printer(shown))
    sys.stdout.flush()
    return sound


def readable(path: Path, batch: Batch) -> Iterator[Any]:
    try:
        yield from iter_records(batch)
    except (CorruptBatchError, DecompressionError) as error:
        where = f"{path}: the batch at offset {batch.header.base_offset}"
        raise CommandError(f"{where} cannot be read: {error}") from None


# -- verify --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Verified:
    """What was found in one segment and its index."""

    file: str
    first_offset: int = -1
    next_offset: int = -1
    batches: int = 0
    records: int = 0
    bytes: int = 0
    problems: list[str] = field(default_factory=list)


def verify(paths: Sequence[Path], output: Format) -> int:
    """Reads every batch, decompresses it, and compares the index with what is there."""
    files = segments(paths)
    done = []
    with progress("checking", sum(path.stat().st_size for path in files)) as advance:
        for path in files:
            done.append(verify_segment(path))
            advance(sum(each.bytes for each in done))
    damaged = [each for each in done if each.problems]

    def tables() -> list[Table]:
        names = ("file", "offsets", "batches", "records", "bytes", "problems")
        table = Table([Column(name, right=name in ("batches", "records", "bytes")) for name in names])
        for each in done:
            span = f"{each.first_offset}..{each.next_offset}" if each.batches else ""
            table.add(each.file, span, each.batches, each.records, each.bytes, "; ".join(each.problems))
        return [table]

    show(output, [asdict(each) for each in done], tables)
    return FAILED if damaged else DONE


def verify_segment(path: Path) -> Verified:
    seen = Verified(str(path), bytes=path.stat().st_size)
    starts = {}
    for found in walk(path):
        if found.problem:
            seen.problems.append(f"position {found.position}: {found.problem}")
        if found.header is None or found.batch is None:
            continue
        header = found.header
        if seen.batches and header.base_offset < seen.next_offset:
            seen.problems.append(f"position {found.position}: offset {header.base_offset} comes again")
        if not found.problem:
            seen.records += count_records(found.batch, found.position, seen.problems)
        starts[found.position] = header.last_offset
        seen.first_offset = header.base_offset if seen.first_offset < 0 else seen.first_offset
        seen.next_offset = header.last_offset + 1
        seen.batches += 1
    seen.problems += index_problems(path, starts)
    return seen


def count_records(batch: Batch, position: int, problems: list[str]) -> int:
    try:
        return sum(1 for _ in iter_records(batch))
    except (CorruptBatchError, DecompressionError) as error:
        problems.append(f"position {position}: {error}")
        return 0


def index_problems(path: Path, last_offsets: dict[int, int]) -> list[str]:
    """Each entry must name a batch's position and last offset; a reserved index ends in zeros."""
    index = path.with_suffix(INDEX)
    if not index.exists():
        return [] if not last_offsets else ["its index is missing; the broker makes it anew at start"]
    base, problems = int(path.stem), []
    data = index.read_bytes()
    for number, (relative, position) in enumerate(OFFSET_ENTRY.iter_unpack(data[: len(data) // 8 * 8])):
        if number and (relative, position) == (0, 0):
            break
        if last_offsets.get(position) != base + relative:
            problems.append(f"index entry {number} names offset {base + relative} at {position}, which is not there")
    return problems
