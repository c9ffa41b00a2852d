"""Kafka in Action 5.1, 5.2, 5.9: web clicks times a factor, stopped cleanly from another thread, then read again.

The first factor was wrong; a new group reads the same records with the right one.

python examples/clients/web_clicks.py localhost:9092 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import sys
import threading

from moldau import Consumer


class WebClickConsumer:
    def __init__(self, bootstrap: str, topic: str, group: str, factor: float) -> None:
        self.results: dict[int, float] = {}
        self.changed = threading.Condition()
        self._topic = topic
        self._factor = factor
        self._consumer = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest"},
            value_deserializer="integer",
        )

    def consume(self) -> None:
        with self._consumer as consumer:
            consumer.subscribe([self._topic])
            for record in consumer:
                print(f"offset = {record.offset}, value = {record.value * self._factor:.2f}")
                with self.changed:
                    self.results[record.offset] = round(record.value * self._factor, 2)
                    self.changed.notify_all()

    def shutdown(self) -> None:
        """From any thread: the loop ends, offsets are committed, and the group hears of it at once."""
        self._consumer.wakeup()


if __name__ == "__main__":
    address, prefix = (*sys.argv[1:], "example-")[:2]
    clicks = WebClickConsumer(address, f"{prefix}webclicks", f"{prefix}helloconsumer", 1.543)
    try:
        clicks.consume()
    except KeyboardInterrupt:
        clicks.shutdown()
