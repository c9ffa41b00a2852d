"""Writing records for `moldau produce`."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from moldau.cli.connection import pairs
from moldau.cli.output import DONE, FAILED, INTERRUPTED, WRONG_USAGE, CommandError, note, plural, progress, warn
from moldau.cli.records.old_times import warned_of
from moldau.cli.records.record_format import FormatError, Record, from_json, unescape
from moldau.cli.times import instant_ms

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

    from moldau.cli.connection import Connection
    from moldau.cli.records.registered_values import Encoding

LOOK_SECONDS: Final = 0.2
SHOWN_FAILURES: Final = 5
STDIN_MARK: Final = "-"


@dataclass(frozen=True, slots=True)
class Shape:
    """How input becomes records."""

    key: str | None
    key_separator: str | None
    headers: Sequence[str]
    null: str | None
    partition: int | None
    keep_partitions: bool
    timestamp: str | None
    as_json: bool
    encoding: Encoding | None = None


def encoding(
    cluster: Connection, url: str, topic: str, key_schema: str | None, value_schema: str | None
) -> Encoding | None:
    if key_schema is None and value_schema is None:
        return None
    from moldau.cli.records.registered_values import Encoding
    from moldau.cli.registry_access import access_to
    from moldau.clients.schema_registry import SchemaRegistry

    registry = SchemaRegistry(access_to("--registry", url, cluster.registry))
    return Encoding(registry, topic, key_schema, value_schema)


class Reading:
    """Makes records of lines; one that cannot be made names its line."""

    def __init__(self, shape: Shape, now_ms: int) -> None:
        self._shape = shape
        self._separator = None if shape.key_separator is None else unescape(shape.key_separator)
        self._null = None if shape.null is None else shape.null.encode()
        self._headers = [(name, value.encode()) for name, value in pairs(shape.headers, "--header").items()]
        self._timestamp = -1 if shape.timestamp is None else instant_ms(shape.timestamp, now_ms)
        if self._separator == b"":
            raise CommandError("--key-separator is empty", exit_code=WRONG_USAGE)

    def record(self, line: bytes, number: int) -> Record:
        try:
            encoding = self._shape.encoding
            names = () if encoding is None else encoding.names
            made = from_json(line, names) if self._shape.as_json else self._from_line(line)
            if self._shape.key is not None:
                made = replace(made, key=self._shape.key.encode())
            if encoding is not None:
                made = encoding.encoded(made)
        except FormatError as error:
            raise CommandError(f"line {number}: {error}", exit_code=WRONG_USAGE) from None
        return replace(
            made,
            partition=self._partition(made),
            timestamp=self._timestamp if self._timestamp >= 0 else made.timestamp,
            headers=[*made.headers, *self._headers],
        )

    def _partition(self, made: Record) -> int:
        if self._shape.partition is not None:
            return self._shape.partition
        return made.partition if self._shape.keep_partitions else -1

    def _from_line(self, line: bytes) -> Record:
        if self._separator is None:
            return Record(value=self._nullable(line))
        key, found, value = line.partition(self._separator)
        if not found:
            raise FormatError(f"no key separator {self._separator.decode(errors='replace')!r} in it")
        return Record(key=self._nullable(key), value=self._nullable(value))

    def _nullable(self, text: bytes) -> bytes | None:
        return None if text == self._null else text


class Deliveries:
    """What became of the records."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self.written = 0
        self.failed = 0

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused(error)
            return
        self.written += 1
        if self._as_json:
            place = {"topic": message.topic(), "partition": message.partition(), "offset": message.offset()}
            print(json.dumps({**place, "timestamp": message.timestamp()[1]}))

    def refused(self, error: KafkaError) -> None:
        self.failed += 1
        if self.failed <= SHOWN_FAILURES:
            warn(f"a record was not written: {error.str()}")


def produce(
    cluster: Connection,
    topic: str,
    shape: Shape,
    settings: Mapping[str, Any],
    values: Sequence[str],
    file: Path | None,
    rate: float | None,
    as_json: bool,
) -> int:
    if values and file is not None:
        raise CommandError("values and --file were both given", "leave one out", WRONG_USAGE)
    now_ms = time.time_ns() // 1_000_000
    reading = Reading(shape, now_ms)
    check_topic(cluster, topic, shape.partition)
    producer = cluster.producer(**settings)
    deliveries = Deliveries(as_json)
    code = DONE
    stopped: Exception | None = None
    try:
        with lines(values, file) as source:
            records = (reading.record(line, number) for number, line in source)
            send_all(producer, topic, warned_of(cluster, topic, records, now_ms), deliveries, rate)
    except KeyboardInterrupt:
        code = INTERRUPTED
    except Exception as error:
        stopped = error
    finally:
        unsent = flush(producer)
    if isinstance(stopped, CommandError):
        raise halfway(stopped, deliveries)
    if stopped is not None:
        summary(deliveries, unsent, FAILED)
        raise stopped
    return summary(deliveries, unsent, code)


def halfway(stopped: CommandError, deliveries: Deliveries) -> CommandError:
    """What ended it, with another exit code where something was written before."""
    if not deliveries.written:
        return stopped
    before = f"{plural(deliveries.written, 'record')} before it {'was' if deliveries.written == 1 else 'were'} written"
    return CommandError(f"{stopped}; {before}", exit_code=FAILED)


def check_topic(cluster: Connection, topic: str, partition: int | None) -> None:
    """A topic that does not exist is made by the broker, if it does that; otherwise it is told now, not per record."""
    from moldau.cli.calls.topics import looked_for
    from moldau.cli.refusals import metadata, unknown_topic

    found = metadata(cluster).topics.get(topic)
    if found is None:
        refused = looked_for(cluster, topic)
        if refused is not None and refused.name() not in ("LEADER_NOT_AVAILABLE", "UNKNOWN_TOPIC_OR_PART"):
            raise CommandError(f"topic {topic!r}: {refused.str()}", exit_code=WRONG_USAGE)
        if refused is not None and refused.name() == "UNKNOWN_TOPIC_OR_PART":
            raise unknown_topic(cluster, topic)
    elif partition is not None and partition not in found.partitions:
        hint = f"it has {len(found.partitions)}, numbered from 0"
        raise CommandError(f"topic {topic!r} has no partition {partition}", hint, WRONG_USAGE)


@contextlib.contextmanager
def lines(values: Sequence[str], file: Path | None) -> Iterator[Iterable[tuple[int, bytes]]]:
    """Numbered lines without their ends, from the command line, a file with a bar, or stdin."""
    if values:
        yield enumerate((value.encode() for value in values), 1)
    elif file is None or str(file) == STDIN_MARK:
        if sys.stdin.isatty():
            note("type records, one a line; Ctrl-D ends")
        yield numbered(sys.stdin.buffer)
    else:
        try:
            opened = file.open("rb")
        except OSError as error:
            raise CommandError(f"cannot read {file}: {error.strerror}", exit_code=WRONG_USAGE) from error
        with opened, progress(file.name, file.stat().st_size) as advance:
            yield watched(opened, advance)


def numbered(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(stream, 1):
        yield number, line.removesuffix(b"\n").removesuffix(b"\r")


def watched(stream: BinaryIO, advance: Any) -> Iterator[tuple[int, bytes]]:
    for number, line in numbered(stream):
        yield number, line
        if number % 1000 == 0:
            advance(stream.tell() if stream.seekable() else number)


def send_all(
    producer: Producer, topic: str, records: Iterable[Record], deliveries: Deliveries, rate: float | None
) -> None:
    from confluent_kafka import KafkaException

    started = time.monotonic()
    for number, record in enumerate(records):
        if rate is not None:
            wait_until(started + number / rate, producer)
        try:
            send(producer, topic, record, deliveries)
        except KafkaException as refusal:
            # The client has refused it by itself (it is too large, say): the same to the user as if the broker had.
            error: KafkaError = refusal.args[0]
            if error.fatal():
                raise
            deliveries.refused(error)
        producer.poll(0)


def send(producer: Producer, topic: str, record: Record, deliveries: Deliveries) -> None:
    """Waits where the queue is full: input is read as fast as the broker takes it."""
    options: dict[str, Any] = {"on_delivery": deliveries, "headers": list(record.headers)}
    if record.partition >= 0:
        options["partition"] = record.partition
    if record.timestamp >= 0:
        options["timestamp"] = record.timestamp
    while True:
        try:
            producer.produce(topic, record.value, record.key, **options)
            return
        except BufferError:
            producer.poll(LOOK_SECONDS)


def wait_until(moment: float, producer: Producer) -> None:
    while (ahead := moment - time.monotonic()) > 0:
        producer.poll(min(ahead, LOOK_SECONDS))


def flush(producer: Producer) -> int:
    """How many records are still on their way; librdkafka gives each up after its delivery time-out."""
    left = len(producer)
    with contextlib.suppress(KeyboardInterrupt):
        while left:
            left = producer.flush(LOOK_SECONDS)
    return left


def summary(deliveries: Deliveries, unsent: int, code: int) -> int:
    problems = [f"{deliveries.failed:,} failed"] if deliveries.failed else []
    problems += [f"{unsent:,} given up"] if unsent else []
    sys.stdout.flush()
    note(", ".join([f"{plural(deliveries.written, 'record')} written", *problems]))
    return FAILED if problems and code == DONE else code
