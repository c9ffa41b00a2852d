"""Answers that kio cannot read: its schema of DescribeTransactions knows no time of -1, the start of no transaction.

int32 throttle time, then per transaction: int16 error, string id, string state, int32 time-out, int64 start time,
int64 producer id, int16 producer epoch, per topic: string name, int32 partitions. All compact and tagged.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

Plain = Any


class Reader:
    def __init__(self, body: bytes) -> None:
        self._body, self._at = body, 0

    @property
    def left(self) -> int:
        return len(self._body) - self._at

    def number(self, layout: str) -> int:
        (value,) = struct.unpack_from(layout, self._body, self._at)
        self._at += struct.calcsize(layout)
        return int(value)

    def uvarint(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(">B")
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def text(self) -> str:
        size = self.uvarint() - 1
        self._at += size
        return self._body[self._at - size : self._at].decode()

    def items(self, read: Callable[[], Plain]) -> list[Plain]:
        return [read() for _ in range(self.uvarint() - 1)]

    def no_tags(self) -> None:
        if self.uvarint():
            raise AssertionError("an answer with tags that nobody knows")


def describe_transactions(body: bytes) -> Plain:
    reader = Reader(body)

    def topic() -> Plain:
        found = {"topic": reader.text(), "partitions": reader.items(lambda: reader.number(">i"))}
        reader.no_tags()
        return found

    def transaction() -> Plain:
        found = {
            "error_code": ErrorCode(reader.number(">h")).name.upper(),
            "transactional_id": reader.text(),
            "transaction_state": reader.text(),
            "transaction_timeout": reader.number(">i"),
            "transaction_start_time": reader.number(">q"),
            "producer_id": reader.number(">q"),
            "producer_epoch": reader.number(">h"),
            "topics": reader.items(topic),
        }
        reader.no_tags()
        return found

    answer = {"throttle_time": reader.number(">i"), "transaction_states": reader.items(transaction)}
    reader.no_tags()
    if reader.left:
        answer["bytes after the answer"] = reader.left
    return answer


HAND_DECODED: Final[dict[str, Callable[[bytes], Plain]]] = {"describe_transactions": describe_transactions}
