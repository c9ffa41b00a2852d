"""Dead letters: records that could not be converted, transformed or written, with the reason in their headers.

The headers are Connect's, `__connect.errors.topic` and so on, if `errors.deadletterqueue.context.headers.enable` is
set. One that a target refuses is sent before the target's transaction ends: it may come twice after a crash, but is
not missing from both sides.
"""

from __future__ import annotations

import base64
import json
import logging
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from moldau.client.librdkafka import translate
from moldau.connect.interface import SinkRecord

if TYPE_CHECKING:
    from confluent_kafka import Producer

    from moldau.connect.task import Job

log = logging.getLogger(__name__)

PREFIX: Final = "__connect.errors."
TASK_PUT: Final = "TASK_PUT"
SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class DeadLetter:
    topic: str
    partition: int
    offset: int
    stage: str
    kind: str
    message: str
    trace: str
    key: str | None
    """In base 64, as the value."""
    value: str | None
    headers: list[tuple[str, str | None]]
    where: str | None = None
    """The class that refused it, where the stage alone does not say it."""
    task: int = 0
    is_sent: bool = False

    @classmethod
    def of(cls, row: Mapping[str, Any], error: Mapping[str, str], task: int) -> DeadLetter:
        headers = [(each["key"], encoded(each["value"])) for each in row["_raw_headers"] or ()]
        return cls(
            row["_source_topic"], row["_source_partition"], row["offset"],
            error["stage"], error["class"], error["message"], f"{error['class']}: {error['message']}",
            encoded(row["_raw_key"]), encoded(row["_raw_value"]), headers, error["where"], task,
        )  # fmt: skip

    @classmethod
    def of_record(cls, record: SinkRecord, problem: Exception, task: int) -> DeadLetter:
        """The record as it was read, whatever converters and transforms have made of it."""
        if record.raw is None:
            raise TypeError(
                f"{record.source} at offset {record.offset}: refuse() takes a record that write() was given"
            )
        headers = [(name, encoded(value)) for name, value in record.raw.headers]
        trace = "".join(traceback.format_exception(problem))
        return cls(
            record.source.topic, record.partition, record.offset, TASK_PUT, type(problem).__name__, str(problem), trace,
            encoded(record.raw.key), encoded(record.raw.value), headers, None, task,
        )  # fmt: skip

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> DeadLetter:
        return cls(**json.loads(text))

    def context(self, connector: str, classes: Mapping[str, str]) -> list[tuple[str, bytes]]:
        found = {
            "topic": self.topic,
            "partition": str(self.partition),
            "offset": str(self.offset),
            "connector.name": connector,
            "task.id": str(self.task),
            "stage": self.stage,
            "class.name": self.where or classes.get(self.stage, self.stage),
            "exception.class.name": self.kind,
            "exception.message": self.message,
            "exception.stacktrace": self.trace,
        }
        return [(f"{PREFIX}{name}", text.encode()) for name, text in found.items()]


def encoded(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


def decoded(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def make_topic(job: Job) -> None:
    """With the replication that is asked for, but not more than there are brokers."""
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({**translate({**job.kafka})})
    known = admin.list_topics(timeout=SECONDS)
    if job.errors.dead_letters in known.topics:
        return
    fresh = NewTopic(job.errors.dead_letters, 1, min(job.errors.dead_letter_replication, len(known.brokers)))
    try:
        admin.create_topics([fresh])[job.errors.dead_letters].result(SECONDS)
    except KafkaException as error:
        log.warning("%s: the topic of dead letters could not be made: %s", job.name, error)


@dataclass(frozen=True, slots=True)
class LetterTopic:
    """Where dead letters go, as Spark's tasks are told it."""

    connector: str
    topic: str
    with_context: bool
    classes: Mapping[str, str]
    kafka: Mapping[str, str]

    @classmethod
    def of(cls, job: Job) -> LetterTopic | None:
        errors = job.errors
        if not errors.dead_letters:
            return None
        kafka = {**job.kafka, **job.producer}
        return cls(job.name, errors.dead_letters, errors.dead_letter_headers, job.classes, kafka)

    def send(self, letters: Iterable[DeadLetter]) -> None:
        """Returns when they are acknowledged."""
        with LetterWriter(self) as writer:
            writer.send(letters)


class LetterWriter:
    def __init__(self, topic: LetterTopic) -> None:
        self._topic = topic
        self._producer: Producer | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer = None

    def send(self, letters: Iterable[DeadLetter]) -> None:
        """Returns when they are acknowledged."""
        from confluent_kafka import Producer

        where = self._topic
        if self._producer is None:
            self._producer = Producer({**translate({**where.kafka}), "enable.idempotence": True, "linger.ms": 0})
        failed: list[str] = []
        for letter in letters:
            headers: list[tuple[str, str | bytes | None]] = [(name, decoded(value)) for name, value in letter.headers]
            if where.with_context:
                headers += letter.context(where.connector, where.classes)
            self._producer.produce(
                where.topic,
                decoded(letter.value),
                decoded(letter.key),
                headers=headers,
                on_delivery=lambda error, _: None if error is None else failed.append(str(error)),
            )
        left = self._producer.flush(SECONDS)
        if failed or left:
            raise OSError(f"dead letters could not be written to {where.topic}: {failed or 'no answer in time'}")


@dataclass(frozen=True, slots=True)
class LetterLog:
    """`errors.log.enable`."""

    connector: str
    with_content: bool

    @classmethod
    def of(cls, job: Job) -> LetterLog | None:
        return cls(job.name, job.errors.log_records) if job.errors.log else None

    def tell(self, letter: DeadLetter) -> None:
        shown = f", key {decoded(letter.key)!r}, value {decoded(letter.value)!r}" if self.with_content else ""
        log.error(
            "%s: %s of %s-%d at offset %d: %s%s",
            self.connector, letter.stage, letter.topic, letter.partition, letter.offset, letter.message, shown,
        )  # fmt: skip


def dead_letters(job: Job, letters: Sequence[DeadLetter]) -> None:
    """Logs them, and sends those that no task has sent; returns when they are acknowledged."""
    told = LetterLog.of(job)
    if told is not None:
        for letter in letters:
            told.tell(letter)
    waiting = [letter for letter in letters if not letter.is_sent]
    topic = LetterTopic.of(job)
    if waiting and topic is not None:
        topic.send(waiting)
