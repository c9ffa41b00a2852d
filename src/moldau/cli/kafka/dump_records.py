"""The batches and records of a segment, printed as kafka-dump-log prints them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.cli.kafka.dump_indexes import Problems, start_offset
from moldau.cli.kafka.options import ToolError
from moldau.cli.log.segment_files import whole_batches
from moldau.kernels import crc32c
from moldau.wire.batch import (
    ATTRIBUTES_AT,
    LOG_APPEND_TIME,
    MAGIC_V2,
    BatchHeader,
    CorruptBatchError,
    add_to_sequence,
)
from moldau.wire.compression import DecompressionError
from moldau.wire.control import ControlType, decode_control_type, decode_end_transaction_marker
from moldau.wire.records import Batch, Record, iter_records

CODECS: Final = {0: "none", 1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
READ_AHEAD: Final = 1 << 20

Parsed = tuple[str | None, str | None]
RecordParser = Callable[[Record], Parsed]


@dataclass(frozen=True, slots=True)
class Shown:
    records: bool
    contents: bool
    metadata: bool
    parse: RecordParser


class LogDump:
    def __init__(self, path: Path, shown: Shown, limit: int, problems: Problems) -> None:
        self._path = path
        self._shown = shown
        self._limit = limit
        self._problems = problems
        self._last_offset = -1

    def run(self, whole: bool) -> None:
        print(f"Log starting offset: {start_offset(self._path)}")
        end = 0
        for position, batch in batches_of(self._path, self._limit):
            print_batch(batch, position)
            if self._shown.records:
                self._print_records(batch)
            end = position + batch.header.size
        trailing = self._path.stat().st_size - end
        if trailing > 0 and whole:
            print(f"Found {trailing} invalid bytes at the end of {self._path.name}")

    def _print_records(self, batch: Batch) -> None:
        header = batch.header
        try:
            for record in iter_records(batch):
                if record.offset != self._last_offset + 1:
                    self._problems.not_consecutive(self._path, self._last_offset, record.offset)
                self._last_offset = record.offset
                text = metadata_of(header, record) if self._shown.metadata else ""
                if self._shown.contents and not header.is_control:
                    text += self._contents(record)
                print(text)
        except (CorruptBatchError, DecompressionError) as error:
            raise ToolError(f"{self._path}: the batch at offset {header.base_offset} cannot be read: {error}") from None

    def _contents(self, record: Record) -> str:
        key, content = self._shown.parse(record)
        prefix = " " if self._shown.metadata else "| "
        text = ""
        if key is not None:
            text, prefix = f"{prefix}key: {key}", " "
        return text if content is None else f"{text}{prefix}payload: {content}"


def batches_of(path: Path, limit: int) -> Iterator[tuple[int, Batch]]:
    for position, batch in whole_batches(path, limit):
        if batch.header.magic < MAGIC_V2:
            raise ToolError(f"{path}: record format v{batch.header.magic} at position {position} is not read here")
        yield position, batch


def print_batch(batch: Batch, position: int) -> None:
    header = batch.header
    horizon = "OptionalLong.empty" if header.delete_horizon is None else f"OptionalLong[{header.delete_horizon}]"
    valid = crc32c(memoryview(batch.data)[ATTRIBUTES_AT:]) == header.crc
    print(
        f"baseOffset: {header.base_offset} lastOffset: {header.last_offset} count: {header.count} "
        f"baseSequence: {header.base_sequence} lastSequence: {header.last_sequence} "
        f"producerId: {header.producer_id} producerEpoch: {header.producer_epoch} "
        f"partitionLeaderEpoch: {header.leader_epoch} isTransactional: {truth(header.is_transactional)} "
        f"isControl: {truth(header.is_control)} deleteHorizonMs: {horizon} position: {position} "
        f"{time_name(header)}: {header.max_timestamp} size: {header.size} magic: {header.magic} "
        f"compresscodec: {CODECS.get(header.codec, header.codec)} crc: {header.crc} isvalid: {truth(valid)}"
    )


def metadata_of(header: BatchHeader, record: Record) -> str:
    delta = record.offset - header.base_offset
    sequence = -1 if header.base_sequence < 0 else add_to_sequence(header.base_sequence, delta)
    headers = ",".join(key for key, _ in record.headers)
    text = (
        f"| offset: {record.offset} {time_name(header)}: {record.timestamp} keySize: {size_of(record.key)} "
        f"valueSize: {size_of(record.value)} sequence: {sequence} headerKeys: [{headers}]"
    )
    return text + control_text(record) if header.is_control else text


def control_text(record: Record) -> str:
    marker = decode_end_transaction_marker(record)
    if marker is not None:
        return f" endTxnMarker: {'COMMIT' if marker.commit else 'ABORT'} coordinatorEpoch: {marker.coordinator_epoch}"
    kind = decode_control_type(record.key)
    return f" controlType: {ControlType(kind).name}({int(kind)})"


def time_name(header: BatchHeader) -> str:
    return "LogAppendTime" if header.timestamp_type == LOG_APPEND_TIME else "CreateTime"


def size_of(data: bytes | None) -> int:
    return -1 if data is None else len(data)


def truth(value: bool) -> str:
    return "true" if value else "false"


# -- contents ------------------------------------------------------------------------------------------------------


def record_parser(offsets: bool, transactions: bool, key_decoder: str, value_decoder: str) -> RecordParser:
    if offsets or transactions:
        return coordinator_parser(transactions)
    read_key, read_value = decoder(key_decoder), decoder(value_decoder)

    def parse(record: Record) -> Parsed:
        key = None if record.key is None else read_key(record.key)
        return key, None if record.value is None else read_value(record.value)

    return parse


def decoder(name: str) -> Callable[[bytes], str]:
    from moldau.cli.kafka.formatters import READERS

    short = name.rpartition(".")[2].removesuffix("Decoder")
    if short in ("String", "Default"):
        return READERS["String"]
    if short in ("Long", "Integer"):
        return READERS[short]
    raise ToolError(f"{name}: Java classes cannot be loaded here; known are String, Long, Integer and DefaultDecoder")


def coordinator_parser(transactions: bool) -> RecordParser:
    from moldau.cli.kafka.coordinator_json import group_record_json, transaction_record_json, with_readable_members

    read = transaction_record_json if transactions else group_record_json

    def parse(record: Record) -> Parsed:
        if record.key is None:
            raise ToolError(
                f"Failed to decode message at offset {record.offset} using the specified decoder "
                "(message had a missing key)"
            )
        try:
            found = read(record.key, record.value)
        except ValueError as error:
            return f"Error at offset {record.offset}, skipping. {error}", None
        if found is None:
            kind = int.from_bytes(record.key[:2], "big", signed=True)
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        if not transactions:
            found = with_readable_members(found)
        key, content = found["key"], found["value"]
        key_text = compact({"type": str(key["type"]), "data": key["data"]})
        if content is None:
            return key_text, "<DELETE>"
        return key_text, compact({"version": str(content["version"]), "data": content["data"]})

    return parse


def compact(document: object) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
