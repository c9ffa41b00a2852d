"""Lets Apache Kafka compact a scripted partition three times and keeps its segments before and after each pass.

    python -m tests.peers.record_compaction tests/unit/storage/recorded_compaction

The script has every codec, superseded and surviving keys, tombstones, an idempotent producer whose records are all
superseded, transactions that commit, abort and overlap. The first pass removes and sets delete horizons, the second
gives horizons to markers that lost their data, the third comes after all horizons.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from tests.peers.apache_kafka import ApacheKafka
from tests.support.waiting import wait_until

TOPIC = "compacted"
DAY_MS = 86_400_000
# In the future, so that the markers, which carry the real time, never make a segment roll.
FIRST_MS = 4_000_000_000_000
DELETE_RETENTION_MS = 8_000
NEVER = str(2**62)
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "3600000",
    "min.cleanable.dirty.ratio": "1.0",
    "min.compaction.lag.ms": NEVER,
    "delete.retention.ms": str(DELETE_RETENTION_MS),
    "message.timestamp.after.max.ms": NEVER,
    "file.delete.delay.ms": "100",
}
BROKER_CONFIG = {"log.cleaner.backoff.ms": 500, "log.initial.task.delay.ms": 500}
KEPT_SUFFIXES = (".log", ".txnindex")

Records = Sequence[tuple[bytes, bytes | None]]


class Script:
    """Writes the partition; each step is a day after the one before and so begins a segment."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._now = FIRST_MS
        self.idempotent = self.producer("none", {"enable.idempotence": True})

    def producer(self, codec: str, settings: Mapping[str, object] | None = None) -> Producer:
        base = {"bootstrap.servers": self._address, "compression.type": codec, "linger.ms": 100, "acks": "all"}
        return Producer({**base, **(settings or {})})

    def transactional(self, name: str, codec: str) -> Producer:
        producer = self.producer(codec, {"transactional.id": name})
        producer.init_transactions()
        return producer

    def put(self, producer: Producer, records: Records, after_ms: int = 0) -> None:
        for index, (key, value) in enumerate(records):
            headers = [("h", b"x")] if index % 3 == 0 else None
            timestamp = self._now + after_ms + index
            producer.produce(TOPIC, key=key, value=value, timestamp=timestamp, partition=0, headers=headers)
        producer.flush()

    def next_segment(self) -> None:
        self._now += DAY_MS

    def write(self) -> None:
        for index, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            producer, name = self.producer(codec), codec.encode()
            self.put(producer, keys(12, codec, 3 * index))
            last = [(b"key-1", None), (b"only-" + name, b"stays"), (b"key-7", None), (b"dead-" + name, None)]
            self.put(producer, last, after_ms=100)
            self.next_segment()
        self.put(self.idempotent, keys(4, "idem-a"))
        self.put(self.idempotent, keys(4, "idem-b"), after_ms=50)
        self.next_segment()
        self._write_transactions()
        self.put(self.idempotent, keys(5, "late"))
        self.append_one(b"1")

    def _write_transactions(self) -> None:
        first, second = self.transactional("t1", "none"), self.transactional("t2", "lz4")
        first.begin_transaction()
        self.put(first, keys(3, "committed", 100))
        first.commit_transaction()
        second.begin_transaction()
        self.put(second, keys(3, "second-aborted", 100))
        first.begin_transaction()
        self.put(first, keys(3, "first-aborted", 101), after_ms=20)
        self.put(self.idempotent, keys(3, "between"), after_ms=30)
        second.abort_transaction()
        first.abort_transaction()
        self.next_segment()
        first.begin_transaction()
        self.put(first, keys(3, "again", 100))
        self.next_segment()
        self.put(self.idempotent, keys(5, "mid"))
        first.commit_transaction()
        self.next_segment()
        second.begin_transaction()
        self.put(second, [(b"key-100", None)])
        second.commit_transaction()
        self.next_segment()

    def append_one(self, value: bytes) -> None:
        self.next_segment()
        self.put(self.idempotent, [(b"active", value)])


class Recorder:
    def __init__(self, broker: ApacheKafka, target: Path) -> None:
        self._admin = AdminClient({"bootstrap.servers": broker.address})
        self._data = broker.data
        self._folder = broker.data / f"{TOPIC}-0"
        self._target = target
        self.passes: list[dict[str, int]] = []

    def create_topic(self) -> None:
        for created in self._admin.create_topics([NewTopic(TOPIC, 1, 1, config=TOPIC_CONFIG)]).values():
            created.result()

    def clean(self) -> None:
        number, dirty = len(self.passes) + 1, self._cleaned_offset()
        self._keep(f"{number}-before")
        active = max(int(path.stem) for path in self._folder.glob("*.log"))
        started = time.time_ns() // 1_000_000
        self._alter({"min.compaction.lag.ms": "0", "min.cleanable.dirty.ratio": "0.0"})
        wait_until(lambda: self._cleaned_offset() > dirty and self._settled(), f"pass {number}")
        self._alter({"min.cleanable.dirty.ratio": "1.0"})
        self._keep(f"{number}-after")
        self.passes.append(
            {
                "first_dirty_offset": dirty,
                "first_uncleanable_offset": active,
                "end_offset": self._cleaned_offset(),
                "started_ms": started,
                "delete_retention_ms": DELETE_RETENTION_MS,
            }
        )

    def _settled(self) -> bool:
        return not any(path.name.endswith((".cleaned", ".swap", ".deleted")) for path in self._folder.iterdir())

    def _cleaned_offset(self) -> int:
        for line in (self._data / "cleaner-offset-checkpoint").read_text().splitlines():
            if line.startswith(f"{TOPIC} 0 "):
                return int(line.split()[2])
        return 0

    def _alter(self, config: Mapping[str, str]) -> None:
        entries = [ConfigEntry(k, v, incremental_operation=AlterConfigOpType.SET) for k, v in config.items()]
        resource = ConfigResource(ResourceType.TOPIC, TOPIC, incremental_configs=entries)
        for altered in self._admin.incremental_alter_configs([resource]).values():
            altered.result()

    def _keep(self, name: str) -> None:
        target = self._target / name
        target.mkdir(parents=True)
        for path in sorted(self._folder.iterdir()):
            if path.suffix in KEPT_SUFFIXES and path.stat().st_size:
                shutil.copy2(path, target / path.name)


def keys(count: int, tag: str, start: int = 0) -> Records:
    return [(b"key-%d" % (start + index), f"value-{tag}-{index}".encode()) for index in range(count)]


def record(target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder, ApacheKafka(Path(folder), BROKER_CONFIG) as broker:
        assert isinstance(broker, ApacheKafka)
        recorder = Recorder(broker, target)
        recorder.create_topic()
        script = Script(broker.address)
        script.write()
        recorder.clean()
        script.append_one(b"2")
        recorder.clean()
        passed = time.monotonic() + DELETE_RETENTION_MS / 1000 + 1
        wait_until(lambda: time.monotonic() > passed, "all delete horizons have passed")
        script.append_one(b"3")
        recorder.clean()
        (target / "passes.json").write_text(json.dumps(recorder.passes, indent=2) + "\n")


if __name__ == "__main__":
    record(Path(sys.argv[1]))
