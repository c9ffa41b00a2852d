"""What `aio.Producer.send` returns, and which sends have failed without anybody's knowledge.

A blocking send raises where it is called what is wrong with the record. One of asyncio learns that later, in the
producer's thread: a transaction must not be committed then, as if the record had never been sent, nor `close` be silent
about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from moldau.clients.delivery import REMEMBERED_FAILURES, Callback, Delivery
from moldau.clients.errors import DeliveryFailed, UndeliveredRecords
from moldau.clients.records import RecordMetadata

if TYPE_CHECKING:
    from contextvars import Context


class Fate(asyncio.Future[RecordMetadata]):
    """It knows whether somebody asks for it: waits, or wants to be called. Who gave up waiting has not asked."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_delivery: Callback | None) -> None:
        super().__init__(loop=loop)
        self._on_delivery = on_delivery
        self._delivery: Delivery | None = None
        self.asked = on_delivery is not None
        self.looked_at = False

    def follow(self, delivery: Delivery) -> None:
        """In the producer's thread."""
        self._delivery = delivery
        if self.asked:
            delivery._seen = True
        delivery._watch(self._reported)

    def _reported(self, delivery: Delivery) -> None:
        self.get_loop().call_soon_threadsafe(self._settle, delivery)

    def fail(self, error: BaseException, *, told: bool) -> None:
        """`told`: by `close`, if nobody asks, so asyncio need not."""
        if not self.done():
            self.set_exception(error)
            if self._on_delivery is not None or (told and not self.asked):
                super().exception()

    def _settle(self, delivery: Delivery) -> None:
        metadata, error = delivery._outcome()
        if error is not None:
            self.fail(error, told=True)
        elif metadata is not None and not self.done():
            self.set_result(metadata)
        if self._on_delivery is not None:
            self._on_delivery(metadata, error)

    def _ask(self) -> None:
        self.asked = True
        if self._delivery is not None:
            self._delivery._seen = True

    # -- as a future -------------------------------------------------------------------------------------------------

    def add_done_callback(self, fn: Callable[[Self], object], /, *, context: Context | None = None) -> None:
        self._ask()
        super().add_done_callback(fn, context=context)

    def result(self) -> RecordMetadata:
        self._look()
        return super().result()

    def exception(self) -> BaseException | None:
        self._look()
        return super().exception()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self.done():
            self._look()
        return (yield from super().__await__())

    def _look(self) -> None:
        if self.done() and not self.cancelled():
            self._ask()
            self.looked_at = True

    def cancel(self, msg: Any = None) -> bool:
        if not super().cancel(msg):
            return False
        if self._on_delivery is None:
            self.asked = False
            if self._delivery is not None:
                self._delivery._seen = False
        return True


class Failed(NamedTuple):
    fate: Fate
    error: Exception


class Unsent:
    """Sends that failed before there was a delivery: so many are kept, of the rest asyncio tells."""

    def __init__(self) -> None:
        self._kept: list[Failed] = []
        self._of_transaction: list[Failed] | None = None

    def add(self, fate: Fate, error: Exception) -> bool:
        """Whether it is kept."""
        kept = self._kept if self._of_transaction is None else self._of_transaction
        if len(kept) >= REMEMBERED_FAILURES and self._of_transaction is not None:
            kept[:] = [each for each in kept if not each.fate.looked_at]
        if len(kept) >= REMEMBERED_FAILURES:
            return False
        kept.append(Failed(fate, error))
        return True

    def begin(self) -> None:
        """Of a transaction."""
        self._of_transaction = []

    def in_transaction(self) -> Exception | None:
        """One of which the application does not know yet."""
        return next((each.error for each in self._of_transaction or () if not each.fate.looked_at), None)

    def end(self, *, aborted: bool) -> None:
        """Of a transaction; what was lost in one that is aborted is no loss."""
        ended, self._of_transaction = self._of_transaction or [], None
        if not aborted:
            self._kept += ended[: REMEMBERED_FAILURES - len(self._kept)]

    def told_with(self, lost: UndeliveredRecords | None) -> UndeliveredRecords | None:
        """Those that nobody asked about, beside what the cluster did not take."""
        unasked = [as_lost(each.error) for each in self._kept if not each.fate.asked]
        if not unasked:
            return lost
        if lost is None:
            return UndeliveredRecords(unasked, len(unasked))
        return UndeliveredRecords([*lost.failures, *unasked], lost.count + len(unasked))


def as_lost(error: Exception) -> DeliveryFailed:
    return error if isinstance(error, DeliveryFailed) else DeliveryFailed("record not sent", cause=str(error))
