"""Answers on their way out, over a scripted transport: in order, in pieces, with every file let go once."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from moldau.server.answer_writer import AnswerWriter
from moldau.server.buffers import Budget
from moldau.server.file_pieces import SHORT_OF_MEMORY_PIECE_BYTES, FilePiece

CONTENT = bytes(range(256)) * 1024


class Transport:
    def __init__(self, direct: socket.socket | None = None) -> None:
        self.writes: list[bytes] = []
        self.unsent = 0
        self._direct = direct

    def get_extra_info(self, name: str) -> object:
        return self._direct if name == "socket" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def write(self, data: bytes) -> None:
        self.writes.append(bytes(data))


class Host:
    def __init__(self) -> None:
        self.budget = Budget(1000)
        self.asked: list[tuple[Callable[[], bytearray], asyncio.Future[bytearray]]] = []

    def run_blocking(self, work: Callable[[], bytearray]) -> asyncio.Future[bytearray]:
        future: asyncio.Future[bytearray] = asyncio.get_running_loop().create_future()
        self.asked.append((work, future))
        return future

    async def read(self) -> None:
        """The thread does what it was asked for."""
        work, future = self.asked.pop(0)
        try:
            future.set_result(work())
        except OSError as error:
            future.set_exception(error)
        await asyncio.sleep(0)


class Segment:
    """A file that counts who has let it go."""

    def __init__(self, path: Path) -> None:
        self.fileno = os.open(path, os.O_RDONLY)
        self.released = 0

    def release(self) -> None:
        self.released += 1


class OnDisk(FilePiece):
    """Its pages are not in memory."""

    def read_now(self, limit: int) -> bytearray | None:
        return None


class Scene:
    def __init__(self, direct: socket.socket | None = None) -> None:
        self.transport, self.host = Transport(direct), Host()
        self.failures: list[BaseException] = []
        self.writer = AnswerWriter(cast(Any, self.transport), self.host, self.failures.append)

    def send(self, *pieces: bytes | FilePiece) -> None:
        self.writer.add(pieces)
        self.writer.pump()

    @property
    def sent(self) -> bytes:
        return b"".join(self.transport.writes)


@pytest.fixture
def segment(tmp_path: Path) -> Iterator[Segment]:
    path = tmp_path / "0.log"
    path.write_bytes(CONTENT)
    opened = Segment(path)
    yield opened
    os.close(opened.fileno)


def test_small_answers_are_one_write() -> None:
    scene = Scene()
    scene.send(b"a", b"b", b"c")
    assert scene.transport.writes == [b"abc"]
    assert scene.writer.is_empty


def test_records_stand_between_what_was_put_before_and_behind_them(segment: Segment) -> None:
    scene = Scene()
    scene.send(b"head", FilePiece(segment, 10, 20), b"tail")
    assert scene.transport.writes == [b"head", CONTENT[10:30], b"tail"]
    assert segment.released == 1


def test_a_full_socket_gets_nothing_more_until_it_has_room(segment: Segment) -> None:
    scene = Scene()
    scene.transport.unsent = 700
    scene.writer.pause()
    scene.send(b"head", FilePiece(segment, 0, 5))
    assert scene.sent == b"" and scene.host.budget.used == 700
    scene.writer.resume()
    assert scene.sent == b"head" + CONTENT[:5]
    assert scene.host.budget.used == 0 and segment.released == 1


def test_while_memory_is_short_records_are_read_in_small_pieces(segment: Segment) -> None:
    scene = Scene()
    scene.host.budget.take(1000)
    scene.send(FilePiece(segment, 0, len(CONTENT)))
    assert scene.sent == CONTENT
    assert max(map(len, scene.transport.writes)) == SHORT_OF_MEMORY_PIECE_BYTES


def test_a_read_that_would_block_goes_to_a_thread_and_what_follows_waits(segment: Segment) -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.send(b"head", OnDisk(segment, 0, 7), b"tail")
        assert scene.sent == b"head" and scene.writer.is_reading
        scene.writer.pump()
        assert len(scene.host.asked) == 1, "nobody asks twice"
        await scene.host.read()
        assert scene.transport.writes == [b"head", CONTENT[:7], b"tail"]
        assert segment.released == 1 and scene.writer.is_empty

    asyncio.run(scenario())


def test_the_end_lets_go_of_all_files_but_the_one_that_is_read(segment: Segment, tmp_path: Path) -> None:
    async def scenario() -> None:
        other = Segment(tmp_path / "0.log")
        scene = Scene()
        scene.send(OnDisk(segment, 0, 7), FilePiece(other, 0, 7), b"tail")
        scene.writer.close()
        assert (segment.released, other.released) == (0, 1), "a thread must not read from a closed file"
        await scene.host.read()
        assert (segment.released, other.released) == (1, 1)
        assert scene.sent == b"" and not scene.failures
        os.close(other.fileno)

    asyncio.run(scenario())


def test_a_connection_that_ends_gives_back_what_it_had_unsent() -> None:
    scene = Scene()
    scene.transport.unsent = 700
    scene.writer.pause()
    scene.writer.close()
    assert scene.host.budget.used == 0


def test_records_that_cannot_be_read_are_told_and_nothing_follows_them(segment: Segment) -> None:
    async def scenario() -> None:
        scene = Scene()
        beyond = len(CONTENT) + 10
        scene.send(b"head", FilePiece(segment, beyond, 5), FilePiece(segment, 0, 5), b"tail")
        await scene.host.read()
        assert scene.sent == b"head"
        assert [str(each) for each in scene.failures] == [
            "[Errno 5] the segment became shorter while it was being sent"
        ]
        assert segment.released == 2 and scene.writer.is_empty

    asyncio.run(scenario())


def test_a_read_that_fails_at_once_is_told_too(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(CONTENT)
    closed = Segment(path)
    os.close(closed.fileno)
    scene = Scene()
    scene.send(b"head", FilePiece(closed, 0, 5))
    assert scene.sent == b"head" and len(scene.failures) == 1 and closed.released == 1


def test_fresh_records_go_into_the_socket_without_being_read(segment: Segment) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        scene = Scene(ours)
        scene.send(FilePiece(segment, 0, 9, is_fresh=True))
        assert theirs.recv(100) == CONTENT[:9]
        assert scene.sent == b"" and segment.released == 1


def test_fresh_records_wait_their_turn_behind_what_the_transport_still_holds(segment: Segment) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        scene = Scene(ours)
        scene.transport.unsent = 1
        scene.send(FilePiece(segment, 0, 9, is_fresh=True))
        assert scene.sent == CONTENT[:9], "through the transport, or they would overtake it"
        theirs.setblocking(False)
        with pytest.raises(BlockingIOError):
            theirs.recv(1)


def test_what_a_socket_did_not_take_at_once_follows_through_the_transport(segment: Segment) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        scene = Scene(ours)
        scene.send(FilePiece(segment, 0, len(CONTENT), is_fresh=True))
        theirs.settimeout(30)
        begun = theirs.recv(len(CONTENT))
        theirs.setblocking(False)
        while len(begun) + len(scene.sent) < len(CONTENT):
            begun += theirs.recv(len(CONTENT))
        assert begun + scene.sent == CONTENT and scene.sent
        assert segment.released == 1
