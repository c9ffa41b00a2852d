"""What the examples of mirroring share: a mirror as a process, records in and out."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

from moldau.testing import Broker

SECONDS = 60.0
READER = {
    "enable.auto.commit": False,
    "isolation.level": "read_committed",
    "value.deserializer": "string",
    "metadata.max.age.ms": 1000,
}
# Looks and translates every second, so that the example need not be watched for minutes.
QUICK = {
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
}


@contextmanager
def mirror(clusters: Mapping[str, Broker], **flows: str) -> Iterator[Path]:
    """`connect-mirror-maker` with a property file; `flows` has `_to_` for `->` and `__` for `.`."""
    lines = {"clusters": ", ".join(clusters), **QUICK}
    lines |= {f"{alias}.bootstrap.servers": broker.bootstrap for alias, broker in clusters.items()}
    lines |= {key.replace("_to_", "->").replace("__", "."): value for key, value in flows.items()}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mm2.properties"
        file.write_text("".join(f"{key} = {value}\n" for key, value in lines.items()))
        with (Path(folder) / "log").open("w") as log:
            process = subprocess.Popen([sys.executable, "-m", "moldau", "mirror", "start", str(file)], stderr=log)
            try:
                yield file
            finally:
                process.terminate()
                process.wait(SECONDS)


def write(broker: Broker, topic: str, values: Iterable[str]) -> None:
    with broker.producer(key_serializer="string", value_serializer="string") as producer:
        for value in values:
            producer.send(topic, value, key=value)


def read(broker: Broker, group: str, topics: Iterable[str] | re.Pattern[str], count: int) -> list[str]:
    """The next so many values for a group, committed."""
    found: list[str] = []
    with broker.consumer(READER, group_id=group) as consumer:
        consumer.subscribe(topics)
        for record in consumer.records(SECONDS):
            found.append(record.value)
            if len(found) == count:
                break
        consumer.commit()
    if len(found) < count:
        raise SystemExit(f"{len(found)} of {count} records came")
    return found


def wait(look: Callable[[], bool], what: str) -> None:
    deadline = monotonic() + SECONDS
    while not look():
        if monotonic() > deadline:
            raise SystemExit(f"not within {SECONDS:g} s: {what}")
        sleep(0.1)


__all__ = ("Broker", "mirror", "read", "wait", "write")
