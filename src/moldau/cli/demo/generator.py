"""The process that writes the events: `python -m moldau.cli.demo.generator`, told what to do in one JSON argument."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

from confluent_kafka import KafkaError, Message, Producer

from moldau.cli.demo import story
from moldau.cli.demo.clients import quiet
from moldau.cli.demo.events import Event, Story
from moldau.cli.demo.processes import say

REPORT_SECONDS = 0.5
FLUSH_SECONDS = 120
PAUSE_SECONDS = 0.1
HOLD_SHARE = 0.7
TRICKLE_SECONDS = 120
FOREVER = 3600.0


def main(argument: str) -> int:
    """Write the device table, then every event when it is due; returns the exit code."""
    task = json.loads(argument)
    released = threading.Event()
    threading.Thread(target=_obey, args=(released,), daemon=True).start()
    told = Story(task["seed"], task["count"], task["story_seconds"], task["start"])
    writer = _Writer(task["bootstrap"], task["topics"], told.start)
    for device in story.device_table():
        writer.write_now(story.DEVICES, device.device.encode(), json.dumps(asdict(device)).encode())
    writer.flush()
    say(kind="table", rows=writer.acknowledged)
    writer.acknowledged = 0
    pace = Pace(told.seconds, task["seconds"], released.is_set, time.monotonic)
    reported = time.monotonic()
    for event in told.events():
        while (wait := pace.seconds_until(min(event.at, told.seconds))) > 0:
            writer.poll(min(wait, PAUSE_SECONDS))
        writer.write(event)
        if time.monotonic() - reported >= REPORT_SECONDS:
            reported = time.monotonic()
            say(kind="generated", written=writer.acknowledged)
    writer.flush()
    say(kind="generated", written=writer.acknowledged)
    say(kind="complete", written=writer.acknowledged, failed=writer.failed)
    return 1 if writer.failed else 0


class Pace:
    """How far the story may have come: at its speed, but from `HOLD_SHARE` on ever slower until released.

    Spark takes its time to start on a slow machine; the story must not be over before the job was killed once.
    """

    def __init__(self, length: float, seconds: float, released: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._length = length
        self._speed = length / seconds
        self._released = released
        self._clock = clock
        self._last = clock()
        self._story = 0.0

    def seconds_until(self, at: float) -> float:
        """How long to wait until this moment of the story; not more than 0 when it has come."""
        now = self._clock()
        speed = self._speed
        if self._story > self._length * HOLD_SHARE and not self._released():
            speed = min(speed, max(self._length - self._story, 0.0) / TRICKLE_SECONDS)
        self._story += (now - self._last) * speed
        self._last = now
        return (at - self._story) / speed if speed else FOREVER


class _Writer:
    def __init__(self, bootstrap: str, topics: dict[str, str], start: float) -> None:
        self._producer = Producer(quiet(bootstrap) | {"enable.idempotence": True, "linger.ms": 20})
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
        unsent = self._producer.flush(FLUSH_SECONDS)
        self.failed += unsent


def _obey(released: threading.Event) -> None:
    for line in sys.stdin:
        if line.strip() == "go on":
            released.set()
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
