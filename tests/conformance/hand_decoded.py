"""Answers that kio cannot read: its schemas know no time of -1, the start of no transaction and the end of no token.

DescribeTransactions: int32 throttle time, then per transaction: int16 error, string id, string state, int32 time-out,
int64 start time, int64 producer id, int16 producer epoch, per topic: string name, int32 partitions. All compact and
tagged.

CreateDelegationToken: int16 error, strings owner's type and name (from version 3 also the requester's), int64 issued
at, expires at, ends at, string id, bytes hmac, int32 throttle time. Renew- and ExpireDelegationToken: int16 error,
int64 expires at, int32 throttle time. Compact and tagged from version 2.
"""

import struct
from collections.abc import Callable
from typing import Any, Final

from kio.schema.errors import ErrorCode

Plain = Any
FIRST_COMPACT, FIRST_WITH_REQUESTER = 2, 3


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

    def old_text(self) -> str:
        size = self.number(">h")
        self._at += size
        return self._body[self._at - size : self._at].decode()

    def items(self, read: Callable[[], Plain]) -> list[Plain]:
        return [read() for _ in range(self.uvarint() - 1)]

    def no_tags(self) -> None:
        if self.uvarint():
            raise AssertionError("an answer with tags that nobody knows")


def describe_transactions(body: bytes, version: int) -> Plain:
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


def created_token(body: bytes, version: int) -> Plain:
    reader = Reader(body)
    text = reader.text if version >= FIRST_COMPACT else reader.old_text
    answer: dict[str, Plain] = {"error_code": ErrorCode(reader.number(">h")).name.upper()}
    names = ["principal_type", "principal_name"]
    if version >= FIRST_WITH_REQUESTER:
        names += ["token_requester_principal_type", "token_requester_principal_name"]
    answer |= {name: text() for name in names}
    answer |= {name: reader.number(">q") for name in ("issue_timestamp", "expiry_timestamp", "max_timestamp")}
    answer["token_id"] = text()
    answer["hmac_bytes"] = reader.uvarint() - 1 if version >= FIRST_COMPACT else reader.number(">i")
    if answer["hmac_bytes"]:
        raise AssertionError("a token where there should be none")
    return _ended(reader, answer, version)


def changed_token(body: bytes, version: int) -> Plain:
    reader = Reader(body)
    error = ErrorCode(reader.number(">h")).name.upper()
    return _ended(reader, {"error_code": error, "expiry_timestamp": reader.number(">q")}, version)


def _ended(reader: Reader, answer: dict[str, Plain], version: int) -> Plain:
    answer["throttle_time"] = reader.number(">i")
    if version >= FIRST_COMPACT:
        reader.no_tags()
    if reader.left:
        answer["bytes after the answer"] = reader.left
    return answer


HAND_DECODED: Final[dict[str, Callable[[bytes, int], Plain]]] = {
    "describe_transactions": describe_transactions,
    "create_delegation_token": created_token,
    "renew_delegation_token": changed_token,
    "expire_delegation_token": changed_token,
}
