"""Messages out of librdkafka in pieces: what was fetched and not handed out yet, and where that leaves each partition.

The position of a partition is the first of its messages that still waits here, else librdkafka's own. So nothing has
to be counted for each record. A seek holds from the next poll on: messages of its partition that came before it are
dropped, and it is tried until librdkafka takes it (it refuses while a partition is still being set up)."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from moldau.clients.errors import AuthorizationFailed, NoOffset, Wakeup, failure
from moldau.clients.records import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Message

SLICE_SECONDS: Final = 0.05
"""How long librdkafka waits at a time; a wakeup is seen after this at the latest."""
NO_POSITION: Final = -1001
BEGINNING: Final = -2
END: Final = -1
PASSING: Final = frozenset({"_STATE", "_IN_PROGRESS", "_TIMED_OUT", "_OUTDATED", "_PREV_IN_PROGRESS"})

log = logging.getLogger(__name__)


def start_without_group(reset: object) -> int:
    """Where a partition begins: nothing is stored without a group, so no coordinator has to be asked."""
    if reset in ("earliest", "smallest", "beginning"):
        return BEGINNING
    return NO_POSITION if reset == "error" else END


class Reader:
    def __init__(self, client: Any, most_records: int, monotonic: Callable[[], float]) -> None:
        self._client = client
        self._most_records = most_records
        self._monotonic = monotonic
        self.woken = threading.Event()
        self.cut_short = threading.Event()
        """Set while nobody waits any more for the fetch that is under way."""
        self.messages: list[Message] = []
        self.handed_out = 0
        """So many of `messages` belong to the application already."""
        self.seeks: dict[TopicPartition, int] = {}
        self.paused: set[TopicPartition] = set()
        """Sought only when they go on: librdkafka resumes a partition where it was, whatever was sought meanwhile."""

    def wakeup(self) -> None:
        self.woken.set()

    def check_woken(self) -> None:
        if self.woken.is_set():
            self.woken.clear()
            raise Wakeup("wakeup() was called")

    def fetch(self, seconds: float) -> list[Message]:
        """The next messages, none of which counts as handed out. Empty after so many seconds, or where it is cut short;
        Wakeup if woken."""
        deadline = self._monotonic() + seconds
        self.messages, self.handed_out = [], 0
        while True:
            self.check_woken()
            left = deadline - self._monotonic()
            found = self._look(min(SLICE_SECONDS, max(left, 0.0)))
            if found:
                self.messages = found
                return found
            if left <= 0 or self.cut_short.is_set():
                return found

    def _look(self, seconds: float) -> list[Message]:
        self.apply_seeks()
        found: list[Message] = self._client.consume(self._most_records, 0)
        if not found:
            first = self._client.poll(seconds)
            if first is None:
                return []
            # `consume` would wait for a full batch; what is there besides the first is there now.
            found = [first, *self._client.consume(self._most_records - 1, 0)] if self._most_records > 1 else [first]
        if any(message.error() is not None for message in found):
            found = self._without_errors(found)
        if self.seeks:
            found = [message for message in found if place_of(message) not in self.seeks]
        return found

    def _without_errors(self, messages: Iterable[Message]) -> list[Message]:
        """Java's consumer waits for topics that are not there, and so does this; what will not pass is raised."""
        good = []
        problem: Exception | None = None
        for message in messages:
            error = message.error()
            if error is None:
                good.append(message)
                continue
            told = failure(error, "cannot read", topic=message.topic(), partition=message.partition())
            if isinstance(told, AuthorizationFailed | NoOffset) or told.fatal:
                problem = problem or told
            else:
                log.warning("%s", told)
        if problem is not None:
            self.messages = good
            self.rewind({place_of(message) for message in good})
            raise problem
        return good

    # -- positions -----------------------------------------------------------------------------------------------

    def waiting(self) -> dict[TopicPartition, int]:
        """The first offset of each partition that was fetched and not handed out."""
        first: dict[TopicPartition, int] = {}
        for message in self.messages[self.handed_out :]:
            first.setdefault(place_of(message), message.offset())  # type: ignore[arg-type]
        return first

    def positions(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The next offset of each that has one: a record was read, or somebody sought."""
        import confluent_kafka

        wanted = [confluent_kafka.TopicPartition(*place) for place in partitions]
        known = {
            TopicPartition(found.topic, found.partition): found.offset
            for found in (self._client.position(wanted) if wanted else ())
            if found.offset >= 0
        }
        waiting = {place: offset for place, offset in self.waiting().items() if place in set(partitions)}
        sought = {place: offset for place, offset in self.seeks.items() if place in set(partitions) and offset >= 0}
        found = {**known, **waiting, **sought}
        return {place: offset for place, offset in found.items() if self.seeks.get(place, 0) >= 0}

    # -- moving --------------------------------------------------------------------------------------------------

    def seek(self, place: TopicPartition, offset: int) -> None:
        self.drop({place})
        self.seeks[place] = offset

    def drop(self, places: Collection[TopicPartition]) -> None:
        """Forgets what waits of these partitions."""
        rest = self.messages[self.handed_out :]
        self.messages[self.handed_out :] = [message for message in rest if place_of(message) not in places]

    def rewind(self, places: Collection[TopicPartition]) -> None:
        """What waits of these partitions will be fetched again."""
        for place, offset in self.waiting().items():
            if place in places:
                self.seek(place, offset)

    def forget(self, places: Collection[TopicPartition]) -> None:
        """They belong to somebody else now."""
        self.drop(places)
        for place in places:
            self.seeks.pop(place, None)
            self.paused.discard(place)

    def apply_seeks(self) -> None:
        import confluent_kafka

        for place, offset in list(self.seeks.items()):
            if place in self.paused:
                continue
            try:
                self._client.seek(confluent_kafka.TopicPartition(*place, offset))
            except confluent_kafka.KafkaException as error:
                cause: Any = error.args[0]
                if cause.name() not in PASSING:
                    del self.seeks[place]
                    raise failure(error, f"cannot seek to {offset}", topic=place[0], partition=place[1]) from None
            else:
                del self.seeks[place]


def place_of(message: Message) -> TopicPartition:
    return TopicPartition(message.topic(), message.partition())  # type: ignore[arg-type]
