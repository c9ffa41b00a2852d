from collections.abc import Mapping
from typing import Final

from typing_extensions import Buffer

from moldau.kernels.signatures import (
    BatchFields,
    BatchPlace,
    BytesSource,
    ColumnsTaken,
    CommitTopic,
    NumbersSource,
    PackedCommit,
    RecordFields,
    RecordsFields,
    RecordSpan,
    RowSources,
)

CRC32C_BY: Final[str]

def crc32c(data: Buffer, value: int = 0, /) -> int: ...
def crc32c_portable(data: Buffer, value: int = 0, /) -> int: ...
def check_batch(data: Buffer, position: int, limit: int, with_records: bool = True, /) -> BatchFields: ...
def check_records(payload: Buffer, count: int, base_timestamp: int, /) -> RecordsFields: ...
def scan_batches(data: Buffer, position: int, limit: int, /) -> list[BatchPlace]: ...
def check_run(
    data: Buffer, position: int, limit: int, next_offset: int, leader_epoch: int, room: int, /
) -> tuple[int, int, int, int]: ...
def locate_batch(data: Buffer, position: int, limit: int, target_offset: int, /) -> int: ...
def seek_batch(data: Buffer, position: int, limit: int, target_offset: int, /) -> tuple[bool, int]: ...
def decode_records(payload: Buffer, count: int, /) -> list[RecordFields]: ...
def records_spans(payload: Buffer, count: int, /) -> list[RecordSpan]: ...
def seek_timestamp(
    payload: Buffer, count: int, base_timestamp: int, target: int, least_offset_delta: int = 0, /
) -> tuple[int, int] | None: ...
def json_lines(column: BytesSource, rows: int, /) -> tuple[Buffer, tuple[int, ...]]: ...
def skim_batches(data: Buffer, position: int, limit: int, /) -> tuple[int, int, int]: ...

class RecordColumns:
    def __new__(
        cls, want: int, row_bytes: int = 0, low_timestamp: int = ..., high_timestamp: int = ..., /
    ) -> RecordColumns: ...
    @property
    def rows(self) -> int: ...
    @property
    def bytes(self) -> int: ...
    def append_run(
        self,
        data: Buffer,
        position: int,
        limit: int,
        start: int,
        stop: int,
        room: int,
        check_crc: bool,
        stop_at_transactional: bool,
        /,
    ) -> tuple[int, int, int]: ...
    def append_batch(self, head: Buffer, payload: Buffer, start: int, stop: int, room: int, /) -> int: ...
    def take(self) -> ColumnsTaken: ...

def murmur2(data: Buffer, /) -> int: ...
def route_rows(
    length: int,
    key: BytesSource | None,
    topics: Buffer | None,
    counts: Buffer,
    partitions: NumbersSource | None,
    seen: Buffer,
    /,
) -> bytes: ...
def order_rows(routes: Buffer, route_count: int, /) -> tuple[bytes, list[int]]: ...
def encode_records(
    rows: RowSources,
    length: int,
    order: Buffer,
    start: int,
    stop: int,
    default_timestamp: int,
    base_timestamp: int | None,
    first_delta: int,
    room: int,
    /,
) -> tuple[bytes, int, int, int]: ...
def digest_rows(
    rows: RowSources, length: int, topics: Buffer | None, salts: Buffer, partitions: NumbersSource | None, /
) -> int: ...
def pack_commit(
    frame: Buffer,
    version: int,
    topics: Mapping[bytes, CommitTopic | None],
    now_ms: int,
    most: int,
    longest_note: int,
    room_for_notes: int,
    /,
) -> PackedCommit | None: ...
