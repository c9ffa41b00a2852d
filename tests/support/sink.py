"""The exactly-once sink without Spark: batches cut into tasks, attempts that can be killed at any request."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import confluent_kafka
import pyarrow as pa

from moldau.client import cluster as cluster_module
from moldau.client.connection import Connection
from moldau.spark.option_table import Use
from moldau.spark.writing import links as links_module
from moldau.spark.writing.driver import TaskReport, commit_batch
from moldau.spark.writing.identity import Attempt, SinkIdentity
from moldau.spark.writing.links import Links
from moldau.spark.writing.options import parse_write_options
from moldau.spark.writing.rows import Layout
from moldau.spark.writing.task import Clock, ExactWriter

Tasks = Sequence[Sequence[str]]
"""The rows of a batch, task by task."""


class Killed(BaseException):
    """The process is gone: no handler of ours may run."""


class KillSwitch:
    """Kills at the n-th request of all connections, before it is sent or after it was answered."""

    def __init__(self) -> None:
        self.requests = 0
        self.names: list[str] = []
        self.kill_at: int | None = None
        self.after_answer = False

    def arm(self, kill_at: int | None, after_answer: bool = False) -> None:
        self.requests, self.names = 0, []
        self.kill_at, self.after_answer = kill_at, after_answer

    def connection_class(self) -> type[Connection]:
        switch = self

        class MortalConnection(Connection):
            def _write(self, request: Any, answer_class: Any, version: int) -> Any:
                switch.requests += 1
                switch.names.append(type(request).__name__)
                if switch.kill_at == switch.requests and not switch.after_answer:
                    raise Killed
                return super()._write(request, answer_class, version)

            def _read(self, pending: Any) -> Any:
                answer = super()._read(pending)
                if switch.kill_at == switch.requests and switch.after_answer:
                    raise Killed
                return answer

        return MortalConnection

    def install(self, monkeypatch: Any) -> None:
        mortal = self.connection_class()
        monkeypatch.setattr(cluster_module, "Connection", mortal)
        monkeypatch.setattr(links_module, "Connection", mortal)


@dataclass
class Sink:
    """One query's sink."""

    bootstrap: str
    topic: str
    query: str
    options: dict[str, str] = field(default_factory=dict)
    is_eager: bool = False
    """The transaction opens, and the broker knows, with the first row."""

    def __post_init__(self) -> None:
        given = {"kafka.bootstrap.servers": self.bootstrap, "topic": self.topic, **self.options}
        self.write_options = parse_write_options(given, Use.STREAM_WRITE)
        if self.is_eager:
            self.write_options = replace(self.write_options, batch_bytes=1, request_bytes=1, stage_bytes=1)
        self.identity = SinkIdentity(self.write_options.prefix, self.query, self.write_options.sink)
        self.layout = Layout({"value": 0}, self.topic)

    def task(
        self, links: Links, attempt: Attempt, batches: Iterator[pa.RecordBatch], clock: Clock | None = None
    ) -> TaskReport:
        writer = ExactWriter(self.write_options, self.layout, links, self.identity, attempt, clock or Clock())
        return TaskReport(self.identity, attempt, writer.run(batches))

    def tasks(self, links: Links, run: str, batch: int, tasks: Tasks, write: str | None = None) -> list[TaskReport]:
        return [
            self.task(links, Attempt(run, write or f"{run}/{batch}", batch, number), iter([rows_of(rows)]))
            for number, rows in enumerate(tasks)
        ]

    def batch(self, run: str, batch: int, tasks: Tasks, write: str | None = None) -> list[TaskReport]:
        """All of a batch, in a process of its own."""
        links = Links(self.write_options.client)
        try:
            reports = self.tasks(links, run, batch, tasks, write)
            commit_batch(self.write_options, reports, links)
            return reports
        finally:
            links.close()

    def with_options(self, **more: str) -> Sink:
        return replace(self, options={**self.options, **more})

    def eager(self) -> Sink:
        return replace(self, is_eager=True)


def rows_of(values: Sequence[str]) -> pa.RecordBatch:
    return pa.record_batch([pa.array([value.encode() for value in values], pa.binary())], names=["value"])


def cut(values: Sequence[str], tasks: int) -> list[list[str]]:
    """As a deterministic source would cut them."""
    return [list(values[number::tasks]) for number in range(tasks)]


def read_committed(bootstrap: str, topic: str, seconds: float = 60.0) -> Counter[str]:
    """Every committed value of a topic and how often it is there; fails where a transaction is still open."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "nobody",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    try:
        places = [
            confluent_kafka.TopicPartition(topic, partition, 0)
            for partition in consumer.list_topics(topic, seconds).topics[topic].partitions
        ]
        consumer.assign(places)
        found: Counter[str] = Counter()
        ended: set[int] = set()
        while len(ended) < len(places):
            message = consumer.poll(seconds)
            assert message is not None, f"{topic}: no answer"
            error = message.error()
            if error is None:
                found[(message.value() or b"").decode()] += 1
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
            else:
                raise AssertionError(str(error))
        return found
    finally:
        consumer.close()
