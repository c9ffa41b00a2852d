"""A consumer group of two that follows a topic through every fault and remembers what it saw where."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException

GROUP = "followers"
MEMBERS = 2

Place = tuple[int, int]


class Readers:
    def __init__(self, bootstrap: str, topic: str) -> None:
        self.seen: dict[Place, str] = {}
        self.changed: list[str] = []
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=self._follow, args=(bootstrap, topic), daemon=True) for _ in range(MEMBERS)
        ]
        for thread in self._threads:
            thread.start()

    def _follow(self, bootstrap: str, topic: str) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        consumer.subscribe([topic])
        while not self._over.is_set():
            for message in consumer.consume(100, timeout=0.2):
                partition, offset, value = message.partition(), message.offset(), message.value()
                if message.error() is None and partition is not None and offset is not None and value is not None:
                    self._note((partition, offset), value.decode() if isinstance(value, bytes) else value)
            try:
                consumer.commit(asynchronous=True)
            except KafkaException:
                continue  # nothing new to commit, or the group is moving: what was read is read again
        consumer.close()

    def _note(self, place: Place, value: str) -> None:
        before = self.seen.setdefault(place, value)
        if before != value:
            self.changed.append(f"{place}: first {before}, later {value}")

    def check(self, written: Mapping[Place, str]) -> None:
        assert self.changed == [], "what was read once has changed"
        differing = {place: value for place, value in self.seen.items() if written.get(place) != value}
        assert differing == {}, f"read, but not there at the end: {list(differing.items())[:10]}"
        unseen = set(written) - set(self.seen)
        assert unseen == set(), f"never read: {sorted(unseen)[:10]}"

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()
