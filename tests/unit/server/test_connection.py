"""A connection over a scripted transport: frames in any pieces, answers in order, bounds kept."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
import tempfile
import tracemalloc
from collections.abc import Awaitable, Callable
from struct import pack
from typing import Any, cast

import pytest

from moldau.server.buffers import Budget, BufferPool
from moldau.server.connection import (
    MAX_HANDLED_PER_TURN,
    MAX_PIPELINED,
    SCRATCH_BYTES,
    AnswerGate,
    Connection,
    Frame,
    Slot,
)
from moldau.server.file_pieces import FilePiece
from moldau.wire.framing import SIZE


class Transport:
    def __init__(self) -> None:
        self.sent = b""
        self.closed = self.reading_paused = False

    def get_extra_info(self, name: str) -> object:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def write(self, data: bytes) -> None:
        self.sent += bytes(data)

    def get_write_buffer_size(self) -> int:
        return 100

    def pause_reading(self) -> None:
        self.reading_paused = True

    def resume_reading(self) -> None:
        self.reading_paused = False

    def is_closing(self) -> bool:
        return self.closed

    def close(self) -> None:
        self.closed = True

    abort = close


class Host:
    def __init__(self, dispatch: Callable[[Connection, Frame], None]) -> None:
        self.scratch = memoryview(bytearray(SCRATCH_BYTES))
        self.pool, self.budget, self.gate = BufferPool(), Budget(1_000_000), AnswerGate()
        self.intake = self.budget
        self.max_frame_bytes = 500_000
        self.dispatch = dispatch
        self.gone = False

    def opened(self, connection: Connection) -> None: ...

    def closed(self, connection: Connection) -> None:
        self.gone = True

    def run_blocking(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(None, work)


class Scene:
    """A connected client; `answer_at_once` echoes each request, otherwise slots are kept for the test to fill."""

    def __init__(self, answer_at_once: bool = True, park: bool = False, transport: Transport | None = None) -> None:
        self.frames: list[bytes] = []
        self.slots: list[Slot] = []
        self.host = Host(self._dispatch)
        self.transport = transport or Transport()
        self.connection = Connection(cast(Any, self.host), "PLAINTEXT")
        self.connection.connection_made(cast(Any, self.transport))
        self._answer_at_once, self._park = answer_at_once, park

    def _dispatch(self, connection: Connection, frame: Frame) -> None:
        data = bytes(frame.view)
        self.frames.append(data)
        slot = connection.reserve()
        if self._park:
            connection.park()
        frame.release()
        if self._answer_at_once:
            slot.answer([data])
        else:
            self.slots.append(slot)

    def receive(self, data: bytes) -> None:
        """As the event loop does it: into the buffer that the connection gives, as much as fits."""
        while data:
            buffer = self.connection.get_buffer(-1)
            taken = min(len(buffer), len(data))
            buffer[:taken] = data[:taken]
            self.connection.buffer_updated(taken)
            data = data[taken:]


def framed(*bodies: bytes) -> bytes:
    return b"".join(pack(">i", len(body)) + body for body in bodies)


def on_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(cast(Any, test()))

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


@pytest.mark.parametrize("seed", range(20))
def test_frames_arrive_whole_however_they_are_cut(seed: int) -> None:
    async def run() -> None:
        rng = random.Random(seed)
        bodies = [rng.randbytes(rng.choice((0, 1, 3, 50, 5000, 70_000, 200_000))) for _ in range(12)]
        stream = framed(*bodies)
        scene = Scene()
        position = 0
        while position < len(stream):
            size = rng.choice((1, 2, 5, 100, 30_000, 300_000))
            scene.receive(stream[position : position + size])
            position += size
        assert scene.frames == bodies
        assert scene.transport.sent == b"".join(bodies)
        assert scene.host.budget.used == 0

    asyncio.run(run())


@on_loop
async def test_answers_keep_the_order_of_the_requests() -> None:
    scene = Scene(answer_at_once=False)
    scene.receive(framed(b"a", b"b", b"c"))
    scene.slots[1].answer([b"B"])
    scene.slots[2].answer([b"C"])
    assert scene.transport.sent == b""
    scene.slots[0].answer([b"A"])
    assert scene.transport.sent == b"ABC"


@on_loop
async def test_a_parked_connection_handles_nothing_until_it_has_answered() -> None:
    scene = Scene(answer_at_once=False, park=True)
    scene.receive(framed(b"a", b"b", b"c"))
    assert scene.frames == [b"a"]
    assert scene.transport.reading_paused
    scene.slots[0].answer([b"A"])
    assert scene.frames == [b"a", b"b"]
    scene.slots[1].answer([b"B"])
    scene.slots[2].answer([b"C"])
    assert scene.transport.sent == b"ABC"
    assert not scene.transport.reading_paused


@on_loop
async def test_what_waits_is_neither_taken_apart_nor_copied_again_for_each_request() -> None:
    scene = Scene(answer_at_once=False, park=True)
    tracemalloc.start()
    try:
        scene.receive(framed(b"first", *[b""] * 16_000))
        held, _ = tracemalloc.get_traced_memory()
        assert held < 2 * SCRATCH_BYTES
        stash = scene.connection._stash
        for number in range(16_000):
            assert len(scene.frames) == number + 1
            scene.slots[number].answer([b"A"])
            while len(scene.frames) == number + 1:  # noqa: ASYNC110  # so many in a row that others have their turn
                await asyncio.sleep(0)
            assert scene.connection._stash in (stash, b"")
    finally:
        tracemalloc.stop()
    assert not scene.transport.reading_paused


@on_loop
async def test_requests_that_wait_are_counted_while_they_do() -> None:
    scene = Scene(answer_at_once=False, park=True)
    scene.receive(framed(b"a", b"b", b"c") + framed(b"d")[:-1])
    assert scene.connection.requests_waiting == 2
    scene.slots[0].answer([b"A"])
    assert scene.connection.requests_waiting == 1
    scene.slots[1].answer([b"B"])
    scene.slots[2].answer([b"C"])
    assert scene.connection.requests_waiting == 0


@on_loop
async def test_a_size_that_cannot_be_ends_the_count_of_what_waits() -> None:
    scene = Scene(answer_at_once=False, park=True)
    scene.receive(framed(b"a", b"b") + SIZE.pack(-4) + framed(b"c"))
    assert scene.connection.requests_waiting == 1


@on_loop
async def test_a_frame_that_was_on_its_way_waits_whole() -> None:
    """And what came behind it is read when its turn has come."""
    scene = Scene(answer_at_once=False)
    body = b"z" * 100_000
    scene.receive(framed(b"a", body)[:70_000])
    scene.slots[0].mute_ms = 1
    scene.slots[0].answer([b"A"])
    scene.receive(framed(b"a", body)[70_000:])
    assert scene.frames == [b"a"]
    assert scene.transport.reading_paused
    assert not scene.connection.idle
    while len(scene.frames) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0)
    assert scene.frames == [b"a", body]
    assert not scene.transport.reading_paused
    scene.receive(framed(b"c"))
    assert scene.frames == [b"a", body, b"c"]


@on_loop
async def test_a_frame_that_waits_is_given_back_with_its_connection() -> None:
    scene = Scene(answer_at_once=False)
    scene.receive(framed(b"a", b"z" * 100_000)[:70_000])
    scene.slots[0].mute_ms = 3_600_000
    scene.slots[0].answer([b"A"])
    scene.receive(framed(b"a", b"z" * 100_000)[70_000:])
    assert scene.host.budget.used == 100_000
    scene.connection.connection_lost(None)
    assert scene.host.budget.used == 0


@pytest.mark.parametrize("seed", range(20))
def test_requests_come_in_order_however_their_client_has_to_wait(seed: int) -> None:
    async def run() -> None:
        rng = random.Random(seed)
        bodies = [rng.randbytes(rng.choice((0, 1, 3, 50, 5000, 70_000))) for _ in range(40)]
        stream, position = framed(*bodies), 0
        scene = Scene(answer_at_once=False, park=bool(seed % 2))
        answered = 0
        while len(scene.frames) < len(bodies) or answered < len(bodies):
            if position < len(stream) and not scene.transport.reading_paused and rng.random() < 0.6:
                size = rng.choice((1, 5, 100, 30_000, SCRATCH_BYTES))
                buffer = scene.connection.get_buffer(-1)
                taken = min(len(buffer), size, len(stream) - position)
                buffer[:taken] = stream[position : position + taken]
                scene.connection.buffer_updated(taken)
                position += taken
            elif answered < len(scene.slots):
                scene.slots[answered].mute_ms = rng.choice((0, 0, 1))
                scene.slots[answered].answer([b"x"])
                answered += 1
            else:
                await asyncio.sleep(0)
        assert scene.frames == bodies
        assert not scene.transport.reading_paused
        assert scene.host.budget.used == 0

    asyncio.run(run())


@on_loop
async def test_so_many_requests_are_pipelined_and_no_more() -> None:
    scene = Scene(answer_at_once=False)
    scene.receive(framed(*[b"x"] * (MAX_PIPELINED + 5)))
    assert len(scene.frames) == MAX_PIPELINED
    assert scene.transport.reading_paused
    for slot in scene.slots[:]:
        slot.answer([b"y"])
    await asyncio.sleep(0)
    for slot in scene.slots[MAX_PIPELINED:]:
        slot.answer([b"y"])
    assert len(scene.transport.sent) == MAX_PIPELINED + 5


@on_loop
async def test_a_client_that_takes_no_answers_is_not_read_from() -> None:
    scene = Scene()
    original = scene.transport.write

    def write(sent: bytes) -> None:
        original(sent)
        scene.connection.pause_writing()

    scene.transport.write = write  # type: ignore[method-assign]
    scene.receive(framed(b"a", b"b", b"c"))
    assert scene.frames == [b"a"]
    assert scene.transport.reading_paused
    scene.connection.resume_writing()
    assert scene.frames == [b"a", b"b"]
    scene.connection.resume_writing()
    assert scene.transport.sent == b"abc"


@on_loop
async def test_a_flood_of_requests_gives_others_their_turn() -> None:
    scene = Scene()
    scene.receive(framed(*[b"x"] * (MAX_HANDLED_PER_TURN + 5)))
    assert len(scene.frames) == MAX_HANDLED_PER_TURN
    await asyncio.sleep(0)
    assert len(scene.frames) == MAX_HANDLED_PER_TURN + 5
    assert not scene.transport.reading_paused


@on_loop
async def test_a_size_out_of_bounds_closes_the_connection() -> None:
    for size in (-1, 500_001, 2**31 - 1):
        scene = Scene()
        scene.receive(pack(">i", size) + b"rest")
        assert scene.transport.closed
        assert scene.frames == []


@on_loop
async def test_a_frame_waits_while_the_budget_is_used_up() -> None:
    scene = Scene()
    scene.host.budget.take(1_000_000)
    body = b"z" * 100_000
    stream = framed(body)
    scene.receive(stream[:50_000])
    assert scene.transport.reading_paused
    scene.host.budget.give_back(1_000_000)
    assert not scene.transport.reading_paused
    scene.receive(stream[50_000:])
    assert scene.frames == [body]


@on_loop
async def test_a_frame_is_given_back_to_the_host_that_it_began_with() -> None:
    """A client that logs in has another one from then on."""
    scene = Scene()
    body = b"z" * 100_000
    scene.receive(framed(body)[:70_000])
    before, later = scene.host, Host(scene.host.dispatch)
    scene.connection.host = later
    scene.receive(framed(body)[70_000:])
    assert scene.frames == [body]
    assert (before.intake.used, later.intake.used) == (0, 0)


@on_loop
async def test_what_an_ended_connection_held_is_given_back() -> None:
    scene = Scene()
    scene.receive(framed(b"z" * 100_000)[:70_000])
    assert scene.host.budget.used == 100_000
    scene.connection.connection_lost(None)
    assert scene.host.budget.used == 0
    assert scene.host.gone


@on_loop
async def test_a_slow_reader_is_sent_no_more_than_it_takes() -> None:
    """Records are read from the file piece by piece, each when the socket has room again."""
    with tempfile.TemporaryFile() as file:
        data = random.Random(1).randbytes(3_500_000)
        file.write(data)
        file.flush()
        released: list[bool] = []

        class File:
            fileno = file.fileno()

            def release(self) -> None:
                released.append(True)

        scene = Scene(answer_at_once=False)
        scene.receive(framed(b"fetch"))
        original = scene.transport.write

        def write(sent: bytes) -> None:
            original(sent)
            scene.connection.pause_writing()

        scene.transport.write = write  # type: ignore[method-assign]
        scene.slots[0].answer([b"head", FilePiece(File(), 0, len(data))])
        assert scene.transport.sent == b"head"
        previous = 4
        while len(scene.transport.sent) < len(data) + 4:
            scene.connection.resume_writing()
            await asyncio.sleep(0)
            while scene.connection._writer.is_reading:  # noqa: ASYNC110  # a read that would block goes to a thread
                await asyncio.sleep(0)
            assert len(scene.transport.sent) - previous <= 1024 * 1024
            previous = len(scene.transport.sent)
        assert scene.transport.sent == b"head" + data
        assert released == [True]


class PlainTransport(Transport):
    """Over a real socket; what is written while the socket is full is kept, as a transport does."""

    def __init__(self, socket: socket.socket) -> None:
        super().__init__()
        self.socket = socket
        self.unsent = b""

    def get_extra_info(self, name: str) -> object:
        return self.socket if name == "socket" else super().get_extra_info(name)

    def write(self, data: bytes) -> None:
        super().write(data)
        self.unsent += bytes(data)
        self.drain()

    def drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self.unsent:
                self.unsent = self.unsent[self.socket.send(self.unsent) :]

    def get_write_buffer_size(self) -> int:
        return len(self.unsent)


@on_loop
async def test_fresh_records_go_from_the_file_into_the_socket_in_order() -> None:
    data = random.Random(7).randbytes(3_000_000)
    released: list[bool] = []
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryFile() as file, ours, theirs:
        file.write(data)
        file.flush()
        ours.setblocking(False)

        class File:
            fileno = file.fileno()

            def release(self) -> None:
                released.append(True)

        transport = PlainTransport(ours)
        scene = Scene(answer_at_once=False, transport=transport)
        scene.receive(framed(b"fetch", b"fetch"))
        half = len(data) // 2
        scene.slots[0].answer([b"head", FilePiece(File(), 0, half, is_fresh=True)])
        scene.slots[1].answer([b"next", FilePiece(File(), half, len(data) - half, is_fresh=True), b"tail"])
        expected = b"head" + data[:half] + b"next" + data[half:] + b"tail"
        received = b""
        while len(received) < len(expected):
            received += theirs.recv(1 << 20)
            transport.drain()
            await asyncio.sleep(0)
            while scene.connection._writer.is_reading:  # noqa: ASYNC110
                await asyncio.sleep(0)
            scene.connection.resume_writing()
        assert received == expected
        assert released == [True, True]
        assert len(transport.sent) < len(expected), "nothing of it went straight from the file"


@on_loop
async def test_a_closed_gate_joins_the_answers_of_a_connection() -> None:
    scene = Scene(answer_at_once=False)
    scene.receive(framed(b"a", b"b"))
    with scene.host.gate.together():
        scene.slots[0].answer([b"A"])
        with scene.host.gate.together():
            scene.slots[1].answer([b"B"])
        assert scene.transport.sent == b""
    assert scene.transport.sent == b"AB"


@on_loop
async def test_records_that_cannot_be_read_end_the_connection() -> None:
    released: list[bool] = []

    class Lost:
        fileno = -1

        def release(self) -> None:
            released.append(True)

    scene = Scene(answer_at_once=False)
    scene.receive(framed(b"fetch"))
    scene.slots[0].answer([b"head", FilePiece(Lost(), 0, 100)])
    assert scene.transport.sent == b"head"
    assert scene.transport.closed
    assert released == [True]


@on_loop
async def test_a_file_that_a_thread_reads_is_let_go_when_it_is_done() -> None:
    events: list[str] = []
    reading: asyncio.Future[bytearray] = asyncio.get_running_loop().create_future()

    class Cold(FilePiece):
        def read_now(self, limit: int) -> bytearray | None:
            return None

    class File:
        fileno = 0

        def release(self) -> None:
            events.append("released")

    scene = Scene(answer_at_once=False)
    scene.host.run_blocking = lambda work: reading  # type: ignore[method-assign]
    scene.receive(framed(b"fetch"))
    scene.slots[0].answer([Cold(File(), 0, 100)])
    scene.connection.connection_lost(None)
    assert events == []
    reading.set_result(bytearray(100))
    await asyncio.sleep(0)
    assert events == ["released"]
