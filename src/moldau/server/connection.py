"""One client connection: bytes in, frames to the dispatcher, answers out in the order of the requests.

Life cycle: made by a listener, lives on the event loop, dies with the socket. Only Produce requests are pipelined: a
slot is reserved for each and filled when its records are written. Any other request that cannot be answered at once
parks the connection: what the client sends meanwhile waits here, and reading stops, as Kafka mutes a channel. Nobody
else is held up by it.

Received bytes land in one scratch shared by all connections, so that an idle one owns no buffer; a frame that does
not fit is received straight into a buffer of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from mmap import mmap
from typing import TYPE_CHECKING, Protocol, cast

from moldau.security.context import ANONYMOUS, ClientIdentity
from moldau.server.answer_writer import AnswerWriter, release_files
from moldau.server.answers import Piece
from moldau.server.buffers import Budget, BufferPool
from moldau.wire.framing import SIZE

if TYPE_CHECKING:
    from moldau.server.quick_produce import ProduceRoutes

log = logging.getLogger("moldau.server.connection")

SCRATCH_BYTES = 64 * 1024
NO_BYTES = memoryview(b"")
MAX_PIPELINED = 256
#: A client that sends thousands of small requests at once must not keep the loop from everybody else.
MAX_HANDLED_PER_TURN = 256


class ConnectionHost(Protocol):
    """What a connection needs of the node."""

    scratch: memoryview
    pool: BufferPool
    budget: Budget
    gate: AnswerGate
    max_frame_bytes: int

    def dispatch(self, connection: Connection, frame: Frame) -> None: ...

    def opened(self, connection: Connection) -> bool: ...

    def closed(self, connection: Connection) -> None: ...

    def run_blocking(self, work: Callable[[], bytearray]) -> asyncio.Future[bytearray]: ...


class AnswerGate:
    """While it is closed, connections with answers to send are collected, so that each sends all of them in one
    write.
    """

    __slots__ = ("_held", "closed")

    def __init__(self) -> None:
        self.closed = False
        self._held: dict[Connection, None] = {}

    def hold(self, connection: Connection) -> None:
        self._held[connection] = None

    def open(self) -> None:
        self.closed = False
        if self._held:
            held, self._held = self._held, {}
            for connection in held:
                connection.slot_filled()


class Cancellable(Protocol):
    def cancel(self) -> None: ...


class Frame:
    """A request's bytes and the buffer behind them, given back once nobody reads them any more."""

    __slots__ = ("_buffer", "_connection", "size", "view")

    def __init__(self, view: memoryview, buffer: mmap | None, connection: Connection) -> None:
        self.view = view
        self.size = len(view)
        self._buffer = buffer
        self._connection = connection

    def release(self) -> None:
        if self._buffer is not None:
            host = self._connection.host
            host.pool.give_back(self._buffer)
            host.budget.give_back(self.size)
            self._buffer = None


class Slot:
    """The place of one answer in the order of answers."""

    __slots__ = ("connection", "mute_ms", "pieces")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pieces: Sequence[Piece] | None = None
        self.mute_ms = 0

    def answer(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces
        self.connection.slot_filled()

    def disconnect(self) -> None:
        self.pieces = ()
        self.connection.close()


class Connection(asyncio.BufferedProtocol):
    """There may be tens of thousands that say nothing, so an idle one is small: slots, and lists for its queues, which
    stay short; an empty deque is eleven times as large as an empty list.
    """

    __slots__ = (
        "_backlog", "_dispatching", "_filled", "_frame", "_frame_size", "_frame_view", "_handled", "_loop",
        "_muted", "_next_turn_due", "_parked", "_reading_paused", "_slots", "_stash", "_transport", "_waits_for_budget",
        "_writer", "client", "host", "last_active", "open", "produce_routes", "waiting",
    )  # fmt: skip

    def __init__(self, host: ConnectionHost, listener: str) -> None:
        self.host = host
        self.client = ClientIdentity(ANONYMOUS, listener, "unknown")
        self.last_active = 0.0
        self.open = False
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._loop = asyncio.get_running_loop()
        # inward
        self._stash = b""
        self._frame: mmap | None = None
        self._frame_view: memoryview = NO_BYTES
        self._frame_size = 0
        self._filled = 0
        self._backlog: list[Frame] = []
        self._parked = False
        #: What a parked request waits for; given up with the connection.
        self.waiting: Cancellable | None = None
        self._reading_paused = False
        self._waits_for_budget = False
        self._dispatching = False
        self._handled = 0
        self._next_turn_due = False
        self.produce_routes: ProduceRoutes | None = None
        # outward
        self._slots: list[Slot] = []
        self._writer: AnswerWriter = cast(AnswerWriter, None)
        self._muted = False

    # --- life ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        self.client.address = peer[0] if isinstance(peer, tuple) else "unknown"
        self.last_active = self._loop.time()
        self._writer = AnswerWriter(self._transport, self.host, self._records_unreadable)
        self.open = True
        if not self.host.opened(self):
            self.close()

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self.host.closed(self)
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None
        self._drop_incomplete_frame()
        for frame in self._backlog:
            frame.release()
        self._backlog.clear()
        self._writer.close()
        for slot in self._slots:
            release_files(slot.pieces or ())
            slot.pieces = ()
        self._slots.clear()

    def close(self) -> None:
        """Closes once what was already handed to the socket is sent."""
        if self.open:
            self.open = False
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    @property
    def answers_pending(self) -> bool:
        """Whether a request of the client is being worked on."""
        return bool(self._slots)

    @property
    def idle(self) -> bool:
        """Whether nothing of a request is under way, so that a draining broker may close it."""
        return not self._slots and self._writer.is_empty and not self._backlog

    # --- inward ---

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return self._frame_view[self._filled : self._frame_size]
        return self.host.scratch

    def buffer_updated(self, nbytes: int) -> None:
        self.last_active = self._loop.time()
        self._handled = 0
        if self._frame is None:
            self._received_in_scratch(nbytes)
            return
        self._filled += nbytes
        if self._filled == self._frame_size:
            frame = Frame(self._frame_view[: self._frame_size], self._frame, self)
            self._frame, self._frame_view = None, NO_BYTES
            self._received_frame(frame)

    def eof_received(self) -> bool:
        return False

    def _received_in_scratch(self, nbytes: int) -> None:
        data = self.host.scratch[:nbytes]
        if self._stash:
            data = memoryview(self._stash + bytes(data))
            self._stash = b""
        self._take_frames(data)

    def _take_frames(self, data: memoryview) -> None:
        position, end = 0, len(data)
        while self.open and end - position >= 4:
            (size,) = SIZE.unpack_from(data, position)
            if size < 0 or size > self.host.max_frame_bytes:
                log.warning(
                    "%s: closing: a request of %d bytes was announced, socket.request.max.bytes is %d",
                    self.client.address, size, self.host.max_frame_bytes,
                )  # fmt: skip
                self.close()
                return
            start = position + 4
            if start + size > end:
                self._begin_frame(size, data[start:])
                return
            position = start + size
            self._received_frame(Frame(memoryview(bytearray(data[start:position])), None, self))
        if self.open and position < end:
            self._stash = bytes(data[position:])

    def _begin_frame(self, size: int, head: memoryview) -> None:
        if self.host.budget.exhausted:
            self._stash = SIZE.pack(size) + bytes(head)
            self._waits_for_budget = True
            self._update_reading()
            self.host.budget.when_free(self._budget_free)
            return
        self.host.budget.take(size)
        self._frame = self.host.pool.take(size)
        self._frame_view = memoryview(self._frame)
        self._frame_size = size
        self._filled = len(head)
        self._frame_view[: self._filled] = head

    def _budget_free(self) -> None:
        self._waits_for_budget = False
        if self.open:
            stash, self._stash = self._stash, b""
            self._take_frames(memoryview(stash))
            self._update_reading()

    def _drop_incomplete_frame(self) -> None:
        if self._frame is not None:
            Frame(self._frame_view[: self._frame_size], self._frame, self).release()
            self._frame = None

    def _received_frame(self, frame: Frame) -> None:
        if self._backlog or self._must_wait():
            self._backlog.append(frame)
            self._update_reading()
        else:
            self._dispatch(frame)

    def _must_wait(self) -> bool:
        """Whether the next request has to wait: for the answers before it, for the client to take them, or its turn."""
        if self._handled >= MAX_HANDLED_PER_TURN:
            if not self._next_turn_due:
                self._next_turn_due = True
                self._loop.call_soon(self._next_turn)
            return True
        return self._parked or self._muted or self._writer.is_paused or len(self._slots) >= MAX_PIPELINED

    def _next_turn(self) -> None:
        self._next_turn_due = False
        self._handled = 0
        self._serve_backlog()

    def _dispatch(self, frame: Frame) -> None:
        """A request may answer earlier ones on its way: what waits behind it must not overtake it then."""
        self._dispatching = True
        self._handled += 1
        try:
            self.host.dispatch(self, frame)
        finally:
            self._dispatching = False

    def _update_reading(self) -> None:
        pause = bool(self._backlog) or self._waits_for_budget
        if pause != self._reading_paused and not self._transport.is_closing():
            self._reading_paused = pause
            if pause:
                self._transport.pause_reading()
            else:
                self._transport.resume_reading()

    # --- requests in flight ---

    def reserve(self) -> Slot:
        slot = Slot(self)
        self._slots.append(slot)
        return slot

    def park(self) -> None:
        """Nothing that follows is handled until the reserved slots are answered."""
        self._parked = True

    def slot_filled(self) -> None:
        if self.host.gate.closed:
            self.host.gate.hold(self)
            return
        if not self.open:
            self._drop_slots()
            return
        slots = self._slots
        while slots and slots[0].pieces is not None:
            slot = slots.pop(0)
            self._writer.add(slot.pieces or ())
            if slot.mute_ms:
                self._mute(slot.mute_ms)
        self._writer.pump()
        if not slots:
            self._parked = False
            self.waiting = None
        if self._backlog and not self._dispatching:
            self._serve_backlog()

    def _drop_slots(self) -> None:
        while self._slots and self._slots[0].pieces is not None:
            release_files(self._slots.pop(0).pieces or ())

    def _serve_backlog(self) -> None:
        while self._backlog and self.open and not self._must_wait():
            self._dispatch(self._backlog.pop(0))
        if self.open:
            self._update_reading()

    def _mute(self, milliseconds: int) -> None:
        self._muted = True
        self._loop.call_later(milliseconds / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted = False
        self._serve_backlog()

    # --- outward ---

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self.last_active = self._loop.time()
        self._writer.resume()
        if self._backlog and not self._dispatching:
            self._serve_backlog()

    def _records_unreadable(self, error: BaseException) -> None:
        """The head of the answer is already sent: only closing tells the client that the rest will not come."""
        log.error("%s: closing: cannot read an answer's records: %s", self.client.address, error)
        self.abort()
