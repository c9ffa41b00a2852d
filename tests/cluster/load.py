"""A producer that never pauses and remembers what it was promised: which record was acknowledged where."""

from __future__ import annotations

import threading
import time
from types import TracebackType
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.looking import QUIET, read_all
from tests.cluster.worries import Worries
from tests.support.waiting import wait_until

#: librdkafka reports a record as delivered without an offset where an earlier try turns out to have succeeded.
UNKNOWN = -1


class Load:
    """Numbers to a topic with acks=all, from a thread of its own; keys spread them over the partitions."""

    def __init__(self, cluster: LocalCluster, topic: str, per_second: float = 1000.0) -> None:
        self._cluster, self._topic = cluster, topic
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failed: list[str] = []
        self.worries = Worries()
        self.longest_gap = 0.0
        """Between two acknowledgements, in seconds, since it was last set to nothing."""
        self._last = time.monotonic()
        self._pause = 1 / per_second
        self._stopping = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 1,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "message.timeout.ms": 120_000,
                "error_cb": self.worries.hear,
                **QUIET,
            }
        )
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Load:
        self._thread.start()
        self.goes_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        left = self._producer.flush(120.0)
        if kind is None:
            assert (left, self.failed) == (0, []), f"{left} records without an answer, failed: {self.failed[:10]}"
            self.worries.check()

    def goes_on(self, more: int = 50) -> None:
        """Waits until so many further records are acknowledged."""
        goal = len(self.acknowledged) + more
        wait_until(lambda: len(self.acknowledged) >= goal, f"{more} more acknowledged records", 90.0)

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            try:
                self._producer.produce(self._topic, str(number), key=str(number % 97), on_delivery=self._delivered)
                number += 1
            except BufferError:
                self._stopping.wait(0.01)
            self._producer.poll(0)
            self._stopping.wait(self._pause)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            partition, offset = message.partition(), message.offset()
            assert partition is not None
            self.acknowledged[int(value_of(message))] = partition, UNKNOWN if offset is None else offset
            now = time.monotonic()
            self.longest_gap, self._last = max(self.longest_gap, now - self._last), now

    def assert_nothing_lost_or_doubled(self) -> None:
        found = read_all(self._cluster, self._topic)
        values = [int(value) for records in found.values() for _, value in records]
        assert len(values) == len(set(values)), "a record is there twice"
        places = {int(value): (partition, offset) for partition, records in found.items() for offset, value in records}
        lost = {number: place for number, place in self.acknowledged.items() if not fits(places.get(number), place)}
        assert lost == {}, f"{len(lost)} of {len(self.acknowledged)} acknowledged records are not where they were"
        for partition, records in found.items():
            for key in range(97):
                numbers = [int(value) for _, value in records if int(value) % 97 == key]
                assert numbers == sorted(numbers), f"out of order in partition {partition}"


def fits(found: tuple[int, int] | None, promised: tuple[int, int]) -> bool:
    return found == promised or (promised[1] == UNKNOWN and found is not None and found[0] == promised[0])


def value_of(message: Message) -> Any:
    return message.value()
