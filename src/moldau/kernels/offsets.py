"""Pure-Python twin of `_offsets.h`, where the layouts stand: OffsetCommit requests to batches of the offsets' topic."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from moldau.kernels.python import crc32c

if TYPE_CHECKING:
    from collections.abc import Mapping

    from typing_extensions import Buffer

    from moldau.kernels.signatures import CommitTopic, PackedCommit

_NO_RETENTION_FROM: Final = 5
_THROTTLE_FROM: Final = 3
_LEADER_EPOCH_FROM: Final = 6
_INSTANCE_FROM: Final = 7
_FLEXIBLE_FROM: Final = 8
_TOPIC_IDS_FROM: Final = 10
_ID_SIZE: Final = 16
_LONGEST_STRING: Final = 32767
_LARGEST_COUNT: Final = 0x7FFFFFFF
_NO_RETENTION: Final = b"\xff" * 8
_NO_EPOCH: Final = b"\xff" * 4
_HEAD_SIZE: Final = 8
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_BEFORE_CRC: Final = Struct(">qiib")
_BEHIND_CRC: Final = Struct(">hiqqqhii")


class _Otherwise(Exception):
    """For the long way: it is not of the kind that is taken."""


def pack_commit(
    frame: Buffer,
    version: int,
    topics: Mapping[bytes, CommitTopic | None],
    now_ms: int,
    most: int,
    longest_note: int,
    room_for_notes: int,
    /,
) -> PackedCommit | None:
    packing = _Packing(bytes(memoryview(frame).cast("B")), version, now_ms, most, longest_note, room_for_notes)
    try:
        return packing.run(topics)
    except _Otherwise:
        return None


class _Packing:
    def __init__(
        self, data: bytes, version: int, now_ms: int, most: int, longest_note: int, room_for_notes: int
    ) -> None:
        self._data, self._at = data, 0
        self._version, self._flexible = version, version >= _FLEXIBLE_FROM
        self._now_ms, self._now = now_ms, now_ms.to_bytes(8, "big", signed=True)
        self._most, self._longest_note, self._room_for_notes = most, longest_note, room_for_notes
        self._count = 0
        self._records = bytearray()
        self._answer = bytearray()

    def run(self, topics: Mapping[bytes, CommitTopic | None]) -> PackedCommit:
        fixed = self._take(_HEAD_SIZE)
        client = self._legacy_string()
        if client is not None and not client.isascii():
            raise _Otherwise
        self._no_tags()
        group = self._string()
        (generation,) = _INT32.unpack(self._take(4))
        member = self._string()
        instance = self._nullable_string() if self._version >= _INSTANCE_FROM else None
        if self._version < _NO_RETENTION_FROM and self._take(8) != _NO_RETENTION:
            raise _Otherwise
        count = self._array()
        self._answer += fixed[4:] + (b"\0" if self._flexible else b"")
        self._answer += bytes(4) if self._version >= _THROTTLE_FROM else b""
        self._put_array(count)
        offsets: dict[str, dict[int, bytes]] = {}
        for _ in range(count):
            self._topic(group, topics, offsets)
        self._end()
        if self._at != len(self._data):
            raise _Otherwise
        texts = _text(group), _text(member), None if instance is None else _text(instance)
        answer = _INT32.pack(len(self._answer)) + self._answer
        return texts[0], generation, texts[1], texts[2], self._batch(), answer, offsets, self._count

    # --- the parts of a commit ---

    def _topic(
        self, group: bytes, topics: Mapping[bytes, CommitTopic | None], offsets: dict[str, dict[int, bytes]]
    ) -> None:
        start = self._at
        key = self._take(_ID_SIZE) if self._version >= _TOPIC_IDS_FROM else self._string()
        self._answer += self._data[start : self._at]
        found = topics[key]
        if found is None:
            raise _Otherwise
        name, topic_id, partitions = found
        raw_name = name.encode()
        if len(raw_name) > _LONGEST_STRING:
            raise _Otherwise
        count = self._array()
        self._put_array(count)
        values = offsets.setdefault(name, {})
        head = b"\0\1" + _INT16.pack(len(group)) + group + _INT16.pack(len(raw_name)) + raw_name
        for _ in range(count):
            self._partition(head, topic_id, partitions, values)
        self._end()

    def _partition(self, head: bytes, topic_id: bytes, partitions: int, values: dict[int, bytes]) -> None:
        raw_index, offset = self._take(4), self._take(8)
        epoch = self._take(4) if self._version >= _LEADER_EPOCH_FROM else _NO_EPOCH
        metadata = self._nullable_string() or b""
        self._no_tags()
        index = int.from_bytes(raw_index, "big")
        if index >= partitions or self._count >= self._most:
            raise _Otherwise
        if len(metadata) > min(self._longest_note, self._room_for_notes) or not metadata.isascii():
            raise _Otherwise
        self._room_for_notes -= len(metadata)
        value = b"\0\4" + offset + epoch + _uvarint(len(metadata) + 1) + metadata + self._now
        value += bytes((1, 0, _ID_SIZE)) + topic_id
        values[index] = value
        key = head + raw_index
        record = b"\0\0" + _size(self._count) + _size(len(key)) + key + _size(len(value)) + value + b"\0"
        self._records += _size(len(record)) + record
        self._answer += raw_index + (b"\0\0\0" if self._flexible else b"\0\0")
        self._count += 1

    def _batch(self) -> bytearray:
        last = self._count - 1
        covered = _BEHIND_CRC.pack(0, last, self._now_ms, self._now_ms, -1, -1, -1, self._count) + self._records
        length = 4 + 1 + 4 + len(covered)
        return bytearray(_BEFORE_CRC.pack(0, length, -1, 2) + crc32c(covered).to_bytes(4, "big") + covered)

    # --- fields ---

    def _take(self, size: int) -> bytes:
        start, self._at = self._at, self._at + size
        if self._at > len(self._data):
            raise _Otherwise
        return self._data[start : self._at]

    def _uvarint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
        else:
            raise _Otherwise
        if value >> 32:
            raise _Otherwise
        return value

    def _legacy_string(self) -> bytes | None:
        (length,) = _INT16.unpack(self._take(2))
        if length < -1:
            raise _Otherwise
        return None if length < 0 else self._take(length)

    def _nullable_string(self) -> bytes | None:
        if not self._flexible:
            return self._legacy_string()
        length = self._uvarint() - 1
        if length > _LONGEST_STRING:
            raise _Otherwise
        return None if length < 0 else self._take(length)

    def _string(self) -> bytes:
        found = self._nullable_string()
        if found is None:
            raise _Otherwise
        return found

    def _array(self) -> int:
        count: int = self._uvarint() - 1 if self._flexible else _INT32.unpack(self._take(4))[0]
        if not 0 < count < _LARGEST_COUNT + (not self._flexible):
            raise _Otherwise
        return count

    def _no_tags(self) -> None:
        if self._flexible and self._take(1) != b"\0":
            raise _Otherwise

    def _put_array(self, count: int) -> None:
        self._answer += _uvarint(count + 1) if self._flexible else _INT32.pack(count)

    def _end(self) -> None:
        """Of a structure that stands in the answer, too."""
        self._no_tags()
        if self._flexible:
            self._answer.append(0)


def _text(raw: bytes) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        raise _Otherwise from None


def _uvarint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _size(value: int) -> bytes:
    """As records have it: zig-zag; none of ours is negative."""
    return _uvarint(value << 1)
