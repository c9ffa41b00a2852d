"""One client connection: bytes in, frames to the dispatcher, answers out in the order of the requests.

Life cycle: made by a listener, lives on the event loop, dies with the socket. Only Produce requests are pipelined: a
slot is reserved for each and filled when its records are written. Any other request that cannot be answered at once
parks the connection: what the client has sent meanwhile waits here, as bytes that nobody has looked at, and reading
stops, as Kafka mutes a channel. Nobody else is held up by it.

Received bytes land in one scratch shared by all connections, so that an idle one owns no buffer; a frame that does
not fit is received straight into a buffer of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from mmap import mmap
from typing import TYPE_CHECKING, Protocol, cast

from moldau.security.context import ANONYMOUS, ClientIdentity
from moldau.server.answer_writer import AnswerWriter, release_files
from moldau.server.buffers import Budget, BufferPool
from moldau.server.busy import Stopwatch
from moldau.server.file_pieces import Piece
from moldau.types.addresses import canonical
from moldau.wire.framing import SIZE

if TYPE_CHECKING:
    from moldau.security.authentication.login import Login

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
    #: What requests that are being received may hold: of the same, or of what strangers have for themselves.
    intake: Budget
    gate: AnswerGate

    @property
    def max_frame_bytes(self) -> int: ...

    def dispatch(self, connection: Connection, frame: Frame) -> None: ...

    def opened(self, connection: Connection) -> None: ...

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

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is answered meanwhile goes out at the end, with one write for each connection."""
        if self.closed:
            yield
            return
        self.closed = True
        try:
            yield
        finally:
            self.open()

    def open(self) -> None:
        self.closed = False
        if self._held:
            held, self._held = self._held, {}
            for connection in held:
                connection.slot_filled()


class Shortcut(Protocol):
    """A handler's own way to serve requests that look like those it has seen on this connection."""

    def take(self, connection: Connection, frame: Frame) -> bool:
        """Whether the request was taken; if not, nothing of it was touched."""
        ...


class Cancellable(Protocol):
    def cancel(self) -> object: ...


class Frame:
    """A request's bytes and the buffer behind them, given back once nobody reads them any more, to the host that the
    connection had when they began."""

    __slots__ = ("_buffer", "_host", "size", "view")

    def __init__(self, view: memoryview, buffer: mmap | None, host: ConnectionHost) -> None:
        self.view = view
        self.size = len(view)
        self._buffer = buffer
        self._host = host

    def release(self) -> None:
        if self._buffer is not None:
            self._host.pool.give_back(self._buffer)
            self._host.intake.give_back(self.size)
            self._buffer = None


class Slot(Stopwatch):
    """The place of one answer in the order of answers, and the time that it takes to find it."""

    __slots__ = ("connection", "mute_ms", "pieces")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.pieces: Sequence[Piece] | None = None
        self.mute_ms = 0
        self.busy_seconds = 0.0
        self._busy_since = None

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
        "_dispatching", "_filled", "_frame", "_frame_host", "_frame_size", "_frame_view", "_handled", "_is_deaf",
        "_late_frame", "_loop", "_muted", "_next_turn_due", "_parked", "_reading_paused", "_slots", "_stash",
        "_stash_at", "_stash_is_due", "_transport", "_waits_for_budget", "_writer", "client", "host", "last_active",
        "login", "open", "shortcut", "waiting",
    )  # fmt: skip

    def __init__(self, host: ConnectionHost, listener: str) -> None:
        self.host = host
        self.client = ClientIdentity(ANONYMOUS, listener, "unknown")
        #: How far the client has got in saying who it is; None where nobody asks.
        self.login: Login | None = None
        self.last_active = 0.0
        self.open = False
        self._transport: asyncio.Transport = cast(asyncio.Transport, None)
        self._loop = asyncio.get_running_loop()
        # inward
        #: What was received in vain, from `_stash_at` on: a frame that is not whole, or frames whose turn has to come.
        self._stash = b""
        self._stash_at = 0
        self._stash_is_due = False
        self._frame: mmap | None = None
        self._frame_view: memoryview = NO_BYTES
        self._frame_host = host
        self._frame_size = 0
        self._filled = 0
        #: One that was being received when the connection was told to wait.
        self._late_frame: Frame | None = None
        self._parked = False
        #: What a parked request waits for; given up with the connection.
        self.waiting: Cancellable | None = None
        self._reading_paused = False
        self._is_deaf = False
        self._waits_for_budget = False
        self._dispatching = False
        self._handled = 0
        self._next_turn_due = False
        #: Asked before anybody parses a request; an API may have one for all connections, too.
        self.shortcut: Shortcut | None = None
        # outward
        self._slots: list[Slot] = []
        self._writer: AnswerWriter = cast(AnswerWriter, None)
        self._muted = 0

    # --- life ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):  # who has gone already has none
            self.client.address = canonical(peer[0])
        self.last_active = self._loop.time()
        self._writer = AnswerWriter(self._transport, self.host, self._records_unreadable)
        self.open = True
        self.host.opened(self)

    @property
    def has_begun(self) -> bool:
        """Whether its end is told to the host."""
        return bool(self._transport)

    def connection_lost(self, error: Exception | None) -> None:
        self.open = False
        self.host.closed(self)
        if self.waiting is not None:
            self.waiting.cancel()
            self.waiting = None
        self._drop_input()
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
    def requests_waiting(self) -> int:
        stashed = count_frames(self._stash, self._stash_at) if self._stash_is_due else 0
        return stashed + (self._late_frame is not None)

    @property
    def answers_waiting(self) -> int:
        """Those behind one that is not known yet, and what the client has not taken."""
        return sum(slot.pieces is not None for slot in self._slots) + (not self._writer.is_empty)

    @property
    def is_receiving(self) -> bool:
        """Whether a part of a request is here, and memory for the rest of it."""
        return self._frame is not None

    @property
    def idle(self) -> bool:
        """Whether nothing of a request is under way, so that a draining broker may close it."""
        return not self._slots and self._writer.is_empty and not self._is_behind

    @property
    def _is_behind(self) -> bool:
        """Whether requests are here that nobody has handled."""
        return self._stash_is_due or self._late_frame is not None

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
            frame = Frame(self._frame_view[: self._frame_size], self._frame, self._frame_host)
            self._frame, self._frame_view = None, NO_BYTES
            self._received_frame(frame)

    def eof_received(self) -> bool:
        return False

    def _received_in_scratch(self, nbytes: int) -> None:
        data = self.host.scratch[:nbytes]
        if self._stash:
            data = memoryview(self._stash[self._stash_at :] + bytes(data))
        self._take_frames(data, 0)

    def _take_frames(self, data: memoryview, position: int) -> None:
        end = len(data)
        while self.open and not self._is_deaf and end - position >= 4:
            if self._must_wait():
                self._stash_is_due = True
                break
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
                if self._begin_frame(size, data[start:]):
                    position = end
                break
            position = start + size
            self._dispatch(Frame(memoryview(bytearray(data[start:position])), None, self.host))
        if position == end or not self.open or self._is_deaf:
            self._stash, self._stash_at = b"", 0
        elif data.obj is self._stash:
            self._stash_at = position
        else:
            self._stash, self._stash_at = bytes(data[position:]), 0
        if self._stash_is_due:
            self._update_reading()

    def _begin_frame(self, size: int, head: memoryview) -> bool:
        """Whether there is memory for it; else it is called for when there is."""
        host = self.host
        if host.intake.exhausted:
            self._waits_for_budget = True
            self._update_reading()
            host.intake.when_free(self._budget_free)
            return False
        host.intake.take(size, self)
        self._frame = host.pool.take(size)
        self._frame_host = host
        self._frame_view = memoryview(self._frame)
        self._frame_size = size
        self._filled = len(head)
        self._frame_view[: self._filled] = head
        return True

    def _budget_free(self) -> None:
        self._waits_for_budget = False
        if self.open:
            self._take_stash()
            self._update_reading()

    def _take_stash(self) -> None:
        self._stash_is_due = False
        self._take_frames(memoryview(self._stash), self._stash_at)

    def _drop_input(self) -> None:
        if self._frame is not None:
            Frame(self._frame_view[: self._frame_size], self._frame, self._frame_host).release()
            self._frame = None
        if self._late_frame is not None:
            self._late_frame.release()
            self._late_frame = None
        self._stash, self._stash_at, self._stash_is_due = b"", 0, False

    def _received_frame(self, frame: Frame) -> None:
        if self._must_wait():
            self._late_frame = frame
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
        return self._parked or self._muted > 0 or self._writer.is_paused or len(self._slots) >= MAX_PIPELINED

    def _next_turn(self) -> None:
        self._next_turn_due = False
        self._handled = 0
        self._catch_up()

    def _dispatch(self, frame: Frame) -> None:
        """A request may answer earlier ones on its way: what waits behind it must not overtake it then."""
        self._dispatching = True
        self._handled += 1
        try:
            self.host.dispatch(self, frame)
        finally:
            self._dispatching = False

    def _update_reading(self) -> None:
        pause = self._waits_for_budget or self._is_behind or self._is_deaf
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

    def listen_no_more(self) -> None:
        """Nothing that follows is read, nor what was read kept: the client is only told something yet."""
        self._is_deaf = True
        self._drop_input()
        self._update_reading()

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
        if self._is_behind and not self._dispatching:
            self._catch_up()

    def _drop_slots(self) -> None:
        while self._slots and self._slots[0].pieces is not None:
            release_files(self._slots.pop(0).pieces or ())

    def _catch_up(self) -> None:
        if self._late_frame is not None and self.open and not self._must_wait():
            frame, self._late_frame = self._late_frame, None
            self._dispatch(frame)
        if self._stash_is_due and self.open:
            self._take_stash()
        if self.open:
            self._update_reading()

    def _mute(self, milliseconds: int) -> None:
        """Several answers may do so: the longest time counts."""
        self._muted += 1
        self._loop.call_later(milliseconds / 1000, self._unmute)

    def _unmute(self) -> None:
        self._muted -= 1
        if not self._muted:
            self._catch_up()

    # --- outward ---

    def pause_writing(self) -> None:
        self._writer.pause()

    def resume_writing(self) -> None:
        self.last_active = self._loop.time()
        self._writer.resume()
        if self._is_behind and not self._dispatching:
            self._catch_up()

    def _records_unreadable(self, error: BaseException) -> None:
        """The head of the answer is already sent: only closing tells the client that the rest will not come."""
        log.error("%s: closing: cannot read an answer's records: %s", self.client.address, error)
        self.abort()


def count_frames(data: bytes, position: int) -> int:
    """Those that are whole, up to one whose size cannot be."""
    count = 0
    while len(data) - position >= SIZE.size:
        (size,) = SIZE.unpack_from(data, position)
        position += SIZE.size + size
        if size < 0 or position > len(data):
            break
        count += 1
    return count
