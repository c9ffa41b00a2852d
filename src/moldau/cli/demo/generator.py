"""The process that writes the events: `python -m moldau.cli.demo.generator`, told what to do in one JSON argument."""

import json
import os
import sys
import threading
import time
from dataclasses import asdict
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from moldau.cli.demo import story
from moldau.cli.demo.events import Event, Story
from moldau.cli.demo.processes import say

REPORT_SECONDS = 0.5
FLUSH_SECONDS = 120


def main(argument: str) -> int:
    """Write the device table, then every event when it is due; returns the exit code."""
    task = json.loads(argument)
    threading.Thread(target=_end_with_the_parent, daemon=True).start()
    told = Story(task["seed"], task["count"], task["story_seconds"], task["start"])
    writer = _Writer(task["bootstrap"], task["topics"], told.start)
    for device in story.device_table():
        writer.write_now(story.DEVICES, device.device.encode(), json.dumps(asdict(device)).encode())
    writer.flush()
    say(kind="table", rows=len(story.device_table()))
    speed = told.seconds / task["seconds"]
    begun = reported = time.monotonic()
    for event in told.events():
        due = begun + min(event.at, told.seconds) / speed
        while (now := time.monotonic()) < due:
            writer.poll(min(due - now, REPORT_SECONDS))
        writer.write(event)
        if now - reported >= REPORT_SECONDS:
            reported = now
            say(kind="generated", written=writer.acknowledged)
    writer.flush()
    say(kind="generated", written=writer.acknowledged)
    say(kind="complete", written=writer.acknowledged, failed=writer.failed)
    return 1 if writer.failed else 0


class _Writer:
    def __init__(self, bootstrap: str, topics: dict[str, str], start: float) -> None:
        settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}
        self._producer = Producer(settings)
        self._topics = topics
        self._start = start
        self.acknowledged = 0
        self.failed = 0

    def write(self, event: Event) -> None:
        self.write_now(event.topic, event.key, event.value, round((self._start + event.at) * 1000))

    def write_now(self, topic: str, key: bytes, value: bytes, timestamp_ms: int = 0) -> None:
        while True:
            try:
                self._producer.produce(self._topics[topic], value, key, timestamp=timestamp_ms, on_delivery=self._count)
            except BufferError:  # the client's queue is full: let it send
                self._producer.poll(0.1)
            else:
                return

    def _count(self, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged += 1
        else:
            self.failed += 1

    def poll(self, seconds: float) -> None:
        self._producer.poll(seconds)

    def flush(self) -> None:
        self.failed += self._producer.flush(FLUSH_SECONDS)


def _end_with_the_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
