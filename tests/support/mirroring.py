"""Two clusters and a mirror between them; what topics hold, read with librdkafka."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.mirror.running import Mirror, RunningFlow
from moldau.mirror.settings import read_settings
from moldau.mirror.topics import looked_up
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

Content = tuple[bytes | None, bytes | None, tuple[int, int], tuple[tuple[str, bytes | None], ...]]
"""Key, value, timestamp with its type, headers."""

QUICK = {
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "sync.topic.acls.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "sync.group.offsets.interval.seconds": "1",
}


def properties(clusters: Mapping[str, str], **more: str) -> dict[str, str]:
    """Addresses by alias; `more` has `__` for `.` and `_to_` for `->`."""
    found = {"clusters": ", ".join(clusters), **QUICK}
    found |= {f"{alias}.bootstrap.servers": address for alias, address in clusters.items()}
    return found | {key.replace("_to_", "->").replace("__", "."): value for key, value in more.items()}


@contextmanager
def mirroring(settings: Mapping[str, str]) -> Iterator[Mirror]:
    """The mirror's threads in this process."""
    mirror = Mirror(read_settings(settings))
    mirror.start()
    try:
        yield mirror
    finally:
        mirror.stop()


def flow(mirror: Mirror, name: str) -> RunningFlow:
    return next(each for each in mirror.flows if each.flow.name == name)


class MirrorProcess:
    """`moldau mirror start`, which may be killed."""

    def __init__(self, folder: Path, settings: Mapping[str, str], name: str = "mm2") -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.config = folder / f"{name}.properties"
        self.config.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._out: IO[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "moldau", "mirror", "start", str(self.config)]
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, preexec_fn=die_with_parent)  # noqa: PLW1509

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> int:
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        return self._process.wait(60)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None


def producer(address: str, **more: object) -> Producer:
    return Producer({"bootstrap.servers": address, "log_level": 0, **{k.replace("_", "."): v for k, v in more.items()}})


def contents(address: str, topic: str, partitions: int) -> list[list[Content]]:
    """What a reader of committed records finds in each partition, to the end."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    found: list[list[Content]] = [[] for _ in range(partitions)]
    open_partitions = set(range(partitions))
    consumer.assign([TopicPartition(topic, index, OFFSET_BEGINNING) for index in range(partitions)])
    try:
        while open_partitions:
            for message in consumer.consume(1000, 0.05):
                error = message.error()
                if error is None:
                    headers = tuple((name, value) for name, value in message.headers() or ())
                    found[message.partition() or 0].append(
                        (message.key(), message.value(), message.timestamp(), headers)  # type: ignore[arg-type]
                    )
                elif error.code() == KafkaError._PARTITION_EOF:
                    open_partitions.discard(message.partition() or 0)
                elif not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise AssertionError(str(error))
    finally:
        consumer.close()
    return found


def exists(address: str, topic: str, partitions: int) -> bool:
    """librdkafka would wait for half a minute after it has once seen a topic missing."""
    with Cluster(ClientSettings.from_properties({"bootstrap.servers": address})) as cluster:
        found = looked_up(cluster, [topic])
    return topic in found and len(found[topic].partitions) >= partitions


def wait_until_equal(
    source: str, topic: str, target: str, remote: str, partitions: int, seconds: float = 60.0
) -> list[list[Content]]:
    """Until the target has as many records as the source; then they must be the same, in order."""
    wait_until(lambda: exists(target, remote, partitions), f"{remote} exists", seconds=seconds)
    wanted = contents(source, topic, partitions)
    count = sum(map(len, wanted))
    found: list[list[Content]] = []

    def all_there() -> bool:
        nonlocal found
        found = contents(target, remote, partitions)
        return sum(map(len, found)) >= count

    wait_until(all_there, f"{remote} has {count} records", seconds=seconds)
    assert found == wanted
    return found
