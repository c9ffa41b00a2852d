"""Records for the iteration of `aio`: one thread fetches and decodes them, the event loop hands them out one by one.

As in the blocking form, none counts as read before the next one is asked for. The two never touch a consumer at the
same time: whoever takes a record sees to it that nothing else is under way.
"""

from __future__ import annotations

from collections.abc import Sequence

from moldau.clients.consumer import Consumer
from moldau.clients.records import ConsumerRecord


class Batch:
    """What is there, waited for so many seconds; raises Wakeup as a poll does."""

    def __init__(self, consumer: Consumer, seconds: float) -> None:
        self._consumer = consumer
        with consumer._used():
            consumer._in_hand = 0
            consumer._reader.check_woken()
            self._messages = consumer._rest() or consumer._messages(seconds)
            self.records = consumer._decoded(self._messages)

    def take(self, record: ConsumerRecord) -> Sequence[ConsumerRecord]:
        """The record as interceptors leave it; from now on it counts as handed out. Nothing where a seek, a pause or a
        wakeup came before."""
        reader, messages = self._consumer._reader, self._messages
        place = reader.handed_out
        if reader.messages is not messages or reader.woken.is_set():
            return ()
        if place >= len(messages) or messages[place] is not record._message:
            return ()
        reader.handed_out = place + 1
        self._consumer._in_hand = 1
        return self._consumer._intercepted([record]) if self._consumer._chain else (record,)


def give_back(consumer: Consumer) -> None:
    """What was handed out last reached nobody: it is read again."""
    with consumer._used():
        reader = consumer._reader
        reader.handed_out = max(0, reader.handed_out - consumer._in_hand)
        consumer._in_hand = 0
        reader.rewind(reader.waiting())
