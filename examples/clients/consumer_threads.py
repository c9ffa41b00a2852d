"""The guide's three ways to read with several threads: a consumer per thread, consumers that feed workers through a
queue, and few consumers with a pool of workers each.

Threads of the first kind commit what they have handled. Workers end out of order, so the other two commit only up to
the first record that is not finished (`Finished`).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Mapping

from moldau import Consumer
from moldau.clients.records import ConsumerRecord, TopicPartition

Handle = Callable[[ConsumerRecord], None]
WAITING = 100
"""Records between a consumer and its workers; a full queue makes the consumer wait."""


class Finished:
    """Which offset may be committed, while records of a partition end in any order."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: dict[TopicPartition, int] = {}
        self._done: dict[TopicPartition, set[int]] = {}
        self._order: dict[TopicPartition, list[int]] = {}

    def begin(self, record: ConsumerRecord) -> None:
        with self._lock:
            self._order.setdefault(record.topic_partition, []).append(record.offset)

    def end(self, record: ConsumerRecord) -> None:
        place = record.topic_partition
        with self._lock:
            done = self._done.setdefault(place, set())
            done.add(record.offset)
            order = self._order[place]
            while order and order[0] in done:
                done.remove(order[0])
                self._next[place] = order.pop(0) + 1

    def offsets(self) -> dict[TopicPartition, int]:
        """The next ones, behind all that is finished without a gap."""
        with self._lock:
            return dict(self._next)


def consumer_per_thread(
    properties: Mapping[str, object], topic: str, handle: Handle, threads: int, stop: threading.Event
) -> None:
    """The easiest: order within a partition is kept; no more threads than partitions have work."""

    def run() -> None:
        with Consumer(properties) as consumer:
            consumer.subscribe([topic])
            while not stop.is_set():
                for record in consumer.poll(0.2):
                    handle(record)
                consumer.commit()

    together([threading.Thread(target=run) for _ in range(threads)])


def queue_and_workers(
    properties: Mapping[str, object], topic: str, handle: Handle, workers: int, stop: threading.Event
) -> None:
    """One consumer feeds a queue; workers scale by themselves, and order is theirs to break."""
    waiting: queue.Queue[ConsumerRecord | None] = queue.Queue(WAITING)
    finished = Finished()

    def work() -> None:
        while (record := waiting.get()) is not None:
            handle(record)
            finished.end(record)

    pool = [threading.Thread(target=work) for _ in range(workers)]
    for thread in pool:
        thread.start()
    with Consumer({**properties, "enable.auto.commit": False}) as consumer:
        consumer.subscribe([topic])
        while not stop.is_set():
            for record in consumer.poll(0.2):
                finished.begin(record)
                waiting.put(record)
            commit(consumer, finished)
        for _ in pool:
            waiting.put(None)
        for thread in pool:
            thread.join()
        commit(consumer, finished)


def commit(consumer: Consumer, finished: Finished) -> None:
    mine = consumer.assignment()
    offsets = {place: offset for place, offset in finished.offsets().items() if place in mine}
    if offsets:
        consumer.commit(offsets)


def few_consumers_many_workers(
    properties: Mapping[str, object],
    topic: str,
    handle: Handle,
    consumers: int,
    workers: int,
    stop: threading.Event,
) -> None:
    """Both: each consumer has a pool of its own."""
    runs = [
        threading.Thread(target=queue_and_workers, args=(properties, topic, handle, workers, stop))
        for _ in range(consumers)
    ]
    together(runs)


def together(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
