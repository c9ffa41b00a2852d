"""Offset commits as bytes that stand ready before the watch begins, one under way on each connection. A client that
encoded and decoded them meanwhile would be slower than what it measures.

    request   size, api key 8, version 9, correlation id, client id | no tags | body
    answer    size, correlation id | no tags | body: with the same codes it is the same bytes for every group
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from struct import Struct

from bench.load import LoadFailed
from moldau.client.settings import parse_address
from moldau.types.errors import ErrorCode
from moldau.wire.codec import decode, encode
from moldau.wire.framing import FIXED_HEADER, SIZE
from moldau.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from moldau.wire.primitives import string

#: The last version that names topics instead of giving their ids.
VERSION = 9
CLIENT_ID = string("bench")
ANSWER_HEAD = Struct(">iib")
ROOM_BYTES = 64 * 1024
SECONDS = 60.0


def commit_frame(number: int, group: str, topic: str, partitions: int) -> bytes:
    """`number` is the offset that is committed, and the correlation id."""
    entries = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=number, committed_metadata="")
        for index in range(partitions)
    ]
    request = OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=entries)])
    frame = FIXED_HEADER.pack(request.API_KEY, VERSION, number) + CLIENT_ID + b"\0" + encode(request, VERSION)
    return SIZE.pack(len(frame)) + frame


class Committers:
    def __init__(self, sockets: Sequence[socket.socket]) -> None:
        self._sockets = sockets
        self._room = memoryview(bytearray(ROOM_BYTES))
        #: Bodies of answers that were looked at and have no error.
        self._good: set[bytes] = set()

    def commit_all(self, frames: Sequence[bytes]) -> int:
        """Gives how many were committed."""
        sockets, count = self._sockets, len(self._sockets)
        for number, frame in enumerate(frames):
            connection = sockets[number % count]
            if number >= count:
                self._hear(connection, frames[number - count])
            connection.sendall(frame)
        for number in range(max(0, len(frames) - count), len(frames)):
            self._hear(sockets[number % count], frames[number])
        return len(frames)

    def _hear(self, connection: socket.socket, frame: bytes) -> None:
        room = self._room
        filled = connection.recv_into(room)
        while filled < ANSWER_HEAD.size or filled < SIZE.unpack_from(room)[0] + SIZE.size:
            more = connection.recv_into(room[filled:])
            if not more:
                raise LoadFailed("the broker has closed a connection")
            filled += more
        if room[SIZE.size : SIZE.size * 2] != frame[8:12]:
            raise LoadFailed("an answer belongs to another request")
        body = bytes(room[ANSWER_HEAD.size : filled])
        if body not in self._good:
            self._judge(body)
            self._good.add(body)

    def _judge(self, body: bytes) -> None:
        answer, _ = decode(OffsetCommitResponse, VERSION, body, 0)
        codes = {partition.error_code for topic in answer.topics for partition in topic.partitions}
        if codes != {ErrorCode.NONE}:
            raise LoadFailed(f"a commit was answered with {', '.join(ErrorCode(code).name for code in codes)}")


@contextmanager
def committers(address: str, count: int) -> Iterator[Committers]:
    with ExitStack() as stack:
        sockets = [
            stack.enter_context(socket.create_connection(parse_address(address), timeout=SECONDS)) for _ in range(count)
        ]
        for each in sockets:
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield Committers(sockets)
