"""Reading records for `moldau consume` and `moldau tail`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.output import INTERRUPTED, NOT_FOUND, WRONG_USAGE, CommandError, note, warn
from moldau.cli.positions import END, START, Position, Range, ranges
from moldau.cli.record_format import FormatError, Printer, Record, counted, json_line, template

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

    from moldau.cli.admin import Place
    from moldau.cli.connect import Connection

BATCH: Final = 500
LOOK_SECONDS: Final = 0.2
"""Short waits, so that Ctrl-C is heard and the end is noticed."""
GROUP_REST_SECONDS: Final = 5.0
"""A group that is at its end has nothing for us: without --follow we leave after so long a silence."""
VALUE_LINE: Final = r"%v\n"
KEY_LINE: Final = r"%k\t%v\n"


@dataclass(frozen=True, slots=True)
class Wanted:
    topics: Sequence[str]
    partitions: Sequence[int]
    begin: str
    end: str
    follow: bool
    count: int | None
    grep: str | None
    isolation: str


def printer(as_json: bool, given: str | None, keys: bool, null: str) -> Printer:
    if as_json and (given is not None or keys):
        raise CommandError("--output json prints everything", "leave --format and --keys out", WRONG_USAGE)
    if as_json:
        return json_line
    try:
        return template(given if given is not None else KEY_LINE if keys else VALUE_LINE, null.encode())
    except FormatError as error:
        raise CommandError(f"--format: {error}", exit_code=WRONG_USAGE) from None


class Tally:
    """What was read, for the last line."""

    def __init__(self, printing: Printer, grep: str | None, count: int | None) -> None:
        self._print = printing
        self._pattern = compiled(grep)
        self._limit = count
        self._started = time.monotonic()
        self.read = 0
        self.printed = 0

    def wants(self) -> int:
        """How many records it would take at most at once; none when there were enough."""
        return BATCH if self._limit is None else min(BATCH, self._limit - self.printed)

    def enough(self) -> bool:
        return self._limit is not None and self.printed >= self._limit

    def take(self, message: Message) -> None:
        self.read += 1
        record = record_of(message)
        if self._pattern is not None and not matches(self._pattern, record):
            return
        self.printed += 1
        sys.stdout.buffer.write(self._print(record))

    def tell(self) -> None:
        seconds = max(time.monotonic() - self._started, 1e-9)
        matching = "" if self.printed == self.read else f", {self.printed:,} of them shown"
        note(f"{counted(self.read)} read{matching} in {seconds:.1f} s")


def compiled(grep: str | None) -> re.Pattern[bytes] | None:
    if grep is None:
        return None
    try:
        return re.compile(grep.encode())
    except re.error as error:
        raise CommandError(f"--grep {grep!r} is no regular expression: {error}", exit_code=WRONG_USAGE) from None


def matches(pattern: re.Pattern[bytes], record: Record) -> bool:
    headers = [part for name, value in record.headers for part in (name.encode(), value)]
    return any(part is not None and pattern.search(part) for part in (record.key, record.value, *headers))


def record_of(message: Message) -> Record:
    kind, timestamp = message.timestamp()
    headers: Any = message.headers() or ()
    return Record(
        topic=message.topic() or "",
        partition=_number(message.partition()),
        offset=_number(message.offset()),
        timestamp=timestamp if kind else -1,
        timestamp_type=kind,
        key=_data(message.key()),
        value=_data(message.value()),
        headers=[(name, _data(value)) for name, value in headers],
    )


def _number(value: int | None) -> int:
    return -1 if value is None else value


def _data(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


# -- by offsets ----------------------------------------------------------------------------------------------------


def consume(cluster: Connection, wanted: Wanted, printing: Printer, summary: bool) -> int:
    """From one position to another, without a group."""
    if wanted.follow and wanted.end != END:
        raise CommandError("--follow has no end", "leave --to or --follow out", WRONG_USAGE)
    now_ms = time.time_ns() // 1_000_000
    begin, end = Position.parse(wanted.begin, now_ms), Position.parse(wanted.end, now_ms)
    tally = Tally(printing, wanted.grep, wanted.count)
    places = chosen_places(cluster, wanted)
    found = ranges(cluster.admin(), places, begin, end, wanted.isolation == "read_committed")
    consumer = cluster.consumer(
        **{
            "group.id": "moldau-consume",
            "enable.auto.commit": False,
            "isolation.level": wanted.isolation,
            "enable.partition.eof": True,
        }
    )
    with ending(consumer, tally, summary) as end_code:
        if not tally.enough():
            read_places(consumer, found, wanted.follow, tally)
    return end_code[0]


def chosen_places(cluster: Connection, wanted: Wanted) -> list[Place]:
    from moldau.cli.admin import Place, describe_topics

    described = describe_topics(cluster.admin(), list(dict.fromkeys(wanted.topics)))
    places = []
    for name, topic in described.items():
        there = sorted(partition.id for partition in topic.partitions)
        missing = sorted(set(wanted.partitions) - set(there))
        if missing:
            hint = f"it has {len(there)}, numbered from 0"
            raise CommandError(f"topic {name!r} has no partition {missing[0]}", hint, NOT_FOUND)
        places += [Place(name, number) for number in there if not wanted.partitions or number in wanted.partitions]
    return places


def read_places(consumer: Consumer, wanted: dict[Place, Range], follow: bool, tally: Tally) -> None:
    from confluent_kafka import TopicPartition

    from moldau.cli.admin import Place

    left = {place: span for place, span in wanted.items() if follow or span.first < span.last}
    consumer.assign([TopicPartition(place.topic, place.partition, span.first) for place, span in left.items()])
    while left and not tally.enough():
        for message in consumer.consume(BATCH, LOOK_SECONDS):
            place = Place(str(message.topic()), _number(message.partition()))
            if is_end(message):
                # Also where a transaction's marker stands last: no record carries the last offset.
                if not follow and place in left and _number(message.offset()) >= left[place].last:
                    leave(consumer, left, place)
                continue
            if place not in left:
                continue
            offset = _number(message.offset())
            if follow or offset < left[place].last:
                tally.take(message)
            if not follow and offset + 1 >= left[place].last:
                leave(consumer, left, place)
            if tally.enough():
                return
        sys.stdout.flush()


def leave(consumer: Consumer, left: dict[Place, Range], place: Place) -> None:
    from confluent_kafka import TopicPartition

    del left[place]
    consumer.incremental_unassign([TopicPartition(place.topic, place.partition)])


# -- as a member of a group ----------------------------------------------------------------------------------------


def consume_as_member(cluster: Connection, wanted: Wanted, group: str, printing: Printer, summary: bool) -> int:
    """From where the group stands; positions of printed records are committed."""
    if wanted.partitions or wanted.end != END or wanted.begin not in (START, END):
        hint = "a group reads from its own positions: leave --partition and --to out; --from may be start or end"
        raise CommandError("--group does not go with these", hint, WRONG_USAGE)
    tally = Tally(printing, wanted.grep, wanted.count)
    chosen_places(cluster, wanted)
    consumer = cluster.consumer(
        **{
            "group.id": group,
            "auto.offset.reset": "earliest" if wanted.begin == START else "latest",
            "enable.auto.offset.store": False,
            "isolation.level": wanted.isolation,
        }
    )
    with ending(consumer, tally, summary) as end_code:
        consumer.subscribe(list(wanted.topics))
        read_as_member(consumer, wanted.follow, tally)
    return end_code[0]


def read_as_member(consumer: Consumer, follow: bool, tally: Tally) -> None:
    heard = time.monotonic()
    while not tally.enough():
        messages = consumer.consume(tally.wants(), LOOK_SECONDS)
        for message in messages:
            if is_end(message):
                continue
            tally.take(message)
            consumer.store_offsets(message)
            heard = time.monotonic()
        sys.stdout.flush()
        if not follow and consumer.assignment() and time.monotonic() - heard > GROUP_REST_SECONDS:
            return


# -- both ----------------------------------------------------------------------------------------------------------


def is_end(message: Message) -> bool:
    """Whether this is news instead of a record; news that cannot pass ends the command."""
    from confluent_kafka import KafkaException

    error: Any = message.error()
    if error is None:
        return False
    if error.name() != "_PARTITION_EOF" and not error.retriable() and not error.name().startswith("_"):
        raise KafkaException(error)
    if error.name() != "_PARTITION_EOF":
        warn(str(error.str()))
    return True


@contextmanager
def ending(consumer: Consumer, tally: Tally, summary: bool) -> Iterator[list[int]]:
    """Closes the consumer and says what was read, also after Ctrl-C; the list holds the exit code."""
    code = [0]
    try:
        yield code
    except KeyboardInterrupt:
        code[0] = INTERRUPTED
    finally:
        sys.stdout.flush()
        consumer.close()
        if summary:
            tally.tell()
