"""Reading records for `moldau consume` and `moldau tail`."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.cli import hidden
from moldau.cli.calls.answers import for_client, place_of
from moldau.cli.output import FAILED, INTERRUPTED, NOT_FOUND, WRONG_USAGE, CommandError, note, plural, warn
from moldau.cli.records import reading
from moldau.cli.records.positions import END, START, Position, ranges
from moldau.cli.records.record_format import FormatError, Printer, Record, json_line, template
from moldau.cli.refusals import described_topics, metadata
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message
    from confluent_kafka import TopicPartition as ClientPartition

    from moldau.cli.connection import Connection
    from moldau.cli.records.registered_values import Decoding
    from moldau.cli.sides import Sides

UNASSIGNED_REST_SECONDS: Final = 5.0
"""A group with more members than partitions has nothing for us: without --follow we leave after so long."""
PATIENCE_SECONDS: Final = 10.0
"""Whoever waits for a group for longer wants to know."""
ASSIGNMENT_SECONDS: Final = 330.0
"""Members have five minutes (max.poll.interval.ms) to give up what they hold."""
PATTERN_MARKS: Final = "*?"
PATTERN_STAR: Final = re.escape("*")
PATTERN_ONE: Final = re.escape("?")
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
    decoding: Decoding | None = None


def decoding(cluster: Connection, sides: Sides | None, url: str) -> Decoding | None:
    if sides is None:
        return None
    from moldau.cli.records.registered_values import Decoding
    from moldau.cli.registry_access import access_to
    from moldau.clients.schema_registry import SchemaRegistry

    return Decoding(SchemaRegistry(access_to("--registry", url, cluster.registry)), sides)


def printer(as_json: bool, given: str | None, keys: bool, null: str, decoded: Sequence[str] = ()) -> Printer:
    if as_json and (given is not None or keys):
        raise CommandError("--output json prints everything", "leave --format and --keys out", WRONG_USAGE)
    if as_json:
        return lambda record: json_line(record, decoded)
    try:
        return template(given if given is not None else KEY_LINE if keys else VALUE_LINE, null.encode())
    except FormatError as error:
        raise CommandError(f"--format: {error}", exit_code=WRONG_USAGE) from None


class Tally:
    """What was read, for the last line."""

    def __init__(self, printing: Printer, wanted: Wanted) -> None:
        self._print = printing
        self._pattern = compiled(wanted.grep)
        self._limit = wanted.count
        self._decoding = wanted.decoding
        self.left_out = 0
        self._started = time.monotonic()
        self.read = 0
        self.printed = 0

    def wants(self) -> int:
        """How many records it would take at most at once; none when there were enough."""
        return reading.BATCH if self._limit is None else min(reading.BATCH, self._limit - self.printed)

    def enough(self) -> bool:
        return self._limit is not None and self.printed >= self._limit

    def take(self, message: Message) -> None:
        self.read += 1
        record = record_of(message)
        if self._decoding is not None:
            decoded = self._decoded(self._decoding, record)
            if decoded is None:
                return
            record = decoded
        if self._pattern is not None and not matches(self._pattern, record):
            return
        self.printed += 1
        sys.stdout.buffer.write(self._print(record))

    def _decoded(self, decoding: Decoding, record: Record) -> Record | None:
        from moldau.cli.records.registered_values import NotDecoded

        try:
            return decoding.decoded(record)
        except NotDecoded as error:
            self.left_out += 1
            sys.stdout.flush()
            warn(str(error))
            return None

    def tell(self) -> None:
        seconds = max(time.monotonic() - self._started, 1e-9)
        matching = "" if self.printed == self.read else f", {self.printed:,} of them shown"
        missing = f", {self.left_out:,} could not be decoded" if self.left_out else ""
        note(f"{plural(self.read, 'record')} read{matching}{missing} in {seconds:.1f} s")


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
        partition=reading.number(message.partition()),
        offset=reading.number(message.offset()),
        timestamp=timestamp if kind else -1,
        timestamp_type=kind,
        key=_data(message.key()),
        value=_data(message.value()),
        headers=[(name, _data(value)) for name, value in headers],
    )


def _data(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


# -- by offsets ----------------------------------------------------------------------------------------------------


def consume(cluster: Connection, wanted: Wanted, printing: Printer, summary: bool) -> int:
    """From one position to another, without a group."""
    if wanted.follow and wanted.end != END:
        raise CommandError("--follow has no end", "leave --to or --follow out", WRONG_USAGE)
    now_ms = time.time_ns() // 1_000_000
    begin, end = Position.parse(wanted.begin, now_ms), Position.parse(wanted.end, now_ms)
    tally = Tally(printing, wanted)
    places = chosen_places(cluster, wanted)
    found = ranges(cluster, places, begin, end, wanted.isolation)
    consumer = reading.reader(cluster, wanted.isolation)
    with ending(consumer, tally, summary) as end_code:
        if not tally.enough():
            print_all(reading.in_ranges(consumer, found, wanted.follow), tally)
    return end_code[0]


def print_all(arriving: Iterable[list[Message]], tally: Tally) -> None:
    for messages in arriving:
        for message in messages:
            tally.take(message)
            if tally.enough():
                return
        sys.stdout.flush()


def is_pattern(name: str) -> bool:
    """No topic has such a character in its name."""
    return any(mark in name for mark in PATTERN_MARKS)


def matching_topics(cluster: Connection, names: Sequence[str]) -> list[str]:
    """The topics that are named; a pattern stands for all that match, without those of the platform itself."""
    found: dict[str, None] = {}
    known = [name for name in sorted(metadata(cluster).topics) if not hidden.hidden_topic(name)]
    for name in names:
        matching = [each for each in known if re.match(subscription(name), each)] if is_pattern(name) else [name]
        if not matching:
            raise CommandError(f"no topic matches {name!r}", "`moldau topic list` shows what there is", NOT_FOUND)
        found |= dict.fromkeys(matching)
    return list(found)


def subscription(name: str) -> str:
    """A topic, or a pattern as the regular expression that librdkafka takes: topics that come later belong to it."""
    if not is_pattern(name):
        return name
    return f"^{re.escape(name).replace(PATTERN_STAR, '.*').replace(PATTERN_ONE, '.')}$"


def chosen_places(cluster: Connection, wanted: Wanted) -> list[TopicPartition]:
    described = described_topics(cluster, matching_topics(cluster, wanted.topics))
    places = []
    for name, topic in described.items():
        there = sorted(partition.id for partition in topic.partitions)
        missing = sorted(set(wanted.partitions) - set(there))
        if missing:
            hint = f"it has {len(there)}, numbered from 0"
            raise CommandError(f"topic {name!r} has no partition {missing[0]}", hint, NOT_FOUND)
        places += [
            TopicPartition(name, number) for number in there if not wanted.partitions or number in wanted.partitions
        ]
    return places


# -- as a member of a group ----------------------------------------------------------------------------------------


def consume_as_member(cluster: Connection, wanted: Wanted, group: str, printing: Printer, summary: bool) -> int:
    """From where the group stands; positions of printed records are committed."""
    if wanted.partitions or wanted.end != END or wanted.begin not in (START, END):
        hint = "a group reads from its own positions: leave --partition and --to out; --from may be start or end"
        raise CommandError("--group does not go with these", hint, WRONG_USAGE)
    tally = Tally(printing, wanted)
    chosen_places(cluster, wanted)
    consumer = cluster.consumer(
        **{
            "group.id": group,
            "auto.offset.reset": "earliest" if wanted.begin == START else "latest",
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "isolation.level": wanted.isolation,
        }
    )
    share = Share(time.monotonic())
    with ending(consumer, tally, summary) as end_code:
        consumer.subscribe(
            [subscription(name) for name in wanted.topics],
            on_assign=share.gained,
            on_revoke=share.lost,
            on_lost=share.lost,
        )
        read_as_member(consumer, share, wanted.follow, tally)
    return end_code[0]


@dataclass(slots=True)
class Share:
    """What of a group's partitions is ours, and which of them we have read to their end."""

    since: float
    """When it began or changed last."""
    clock: Callable[[], float] = time.monotonic
    given: bool = False
    places: set[TopicPartition] = field(default_factory=set)
    ended: set[TopicPartition] = field(default_factory=set)

    def gained(self, consumer: Consumer, partitions: Sequence[ClientPartition]) -> None:
        self._change(True, self.places | _places(partitions))

    def lost(self, consumer: Consumer, partitions: Sequence[ClientPartition]) -> None:
        self._change(False, self.places - _places(partitions))

    def _change(self, given: bool, places: set[TopicPartition]) -> None:
        self.given, self.places, self.since = given, places, self.clock()
        self.ended &= places

    def waiting_seconds(self) -> float:
        """How long the group has owed us an answer."""
        return 0.0 if self.given else self.clock() - self.since

    def is_read(self) -> bool:
        if self.given and not self.places:
            return self.clock() - self.since > UNASSIGNED_REST_SECONDS
        return self.given and self.ended >= self.places


def _places(partitions: Sequence[ClientPartition]) -> set[TopicPartition]:
    return {place_of(each) for each in partitions}


def read_as_member(consumer: Consumer, share: Share, follow: bool, tally: Tally) -> None:
    told = False
    while not tally.enough():
        for message in consumer.consume(tally.wants(), reading.LOOK_SECONDS):
            place = reading.place_of(message)
            if reading.is_news(message):
                if reading.is_end(message) and place in share.places:
                    share.ended.add(place)
                    # Behind the markers of transactions too: nothing is left to read, so no lag is left.
                    consumer.store_offsets(offsets=[for_client(place, reading.number(message.offset()))])
                continue
            share.ended.discard(place)
            tally.take(message)
            if place in share.places:
                consumer.store_offsets(message)
        sys.stdout.flush()
        if not follow and share.is_read():
            return
        if share.waiting_seconds() > PATIENCE_SECONDS and not told:
            told = True
            note("the group has given us no partitions yet: its members are taking turns, or one of them is busy")
        if not follow and share.waiting_seconds() > ASSIGNMENT_SECONDS:
            hint = "`moldau group describe --members` shows who is in it"
            raise CommandError(f"the group gave us no partitions within {ASSIGNMENT_SECONDS:.0f} s", hint, FAILED)


# -- both ----------------------------------------------------------------------------------------------------------


@contextmanager
def ending(consumer: Consumer, tally: Tally, summary: bool) -> Iterator[list[int]]:
    """Closes the consumer and says what was read, also after Ctrl-C; the list holds the exit code."""
    code = [0]
    try:
        yield code
    except KeyboardInterrupt:
        code[0] = INTERRUPTED
    finally:
        if tally.left_out and not code[0]:
            code[0] = FAILED
        sys.stdout.flush()
        consumer.close()
        if summary:
            tally.tell()
