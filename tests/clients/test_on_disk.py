"""Kafka's own layout on disk: folders, segments, indexes, checkpoints, retention, compaction."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka import TopicCollection
from confluent_kafka.admin import AdminClient, OffsetSpec

from tests.clients.conftest import StartBroker
from tests.support.admin import SECONDS, admin_client, change_config, create_topic, list_offset, log_range
from tests.support.clients import A_DAY_AGO_MS, Confluent, Message
from tests.support.process import BrokerProcess
from tests.support.segments import partition_folder, segment_files, stored_batches
from tests.support.waiting import wait_until

client = Confluent()
NOW = A_DAY_AGO_MS
# Everything that runs in the background comes round several times a second.
EAGER = {
    "log.retention.check.interval.ms": 200,
    "log.initial.task.delay.ms": 200,
    "log.segment.delete.delay.ms": 200,
    "log.cleaner.backoff.ms": 200,
}


def fill(address: str, topic: str, records: int, size: int = 10_000) -> None:
    """One batch per record, so that segments roll where the test expects it."""
    for _ in range(records):
        client.produce(address, topic, [Message(b"x" * size, b"key")])


@pytest.fixture
def eager(own_broker: StartBroker) -> BrokerProcess:
    return own_broker(**EAGER)


@pytest.fixture
def eager_admin(eager: BrokerProcess) -> AdminClient:
    return admin_client(eager.address)


def test_one_folder_per_partition(address: str, admin: AdminClient, topic: str, data: Path) -> None:
    """LOG-01, TP-16, TP-19: the files that Kafka users know, named by the first offset."""
    create_topic(admin, topic, 3, {"flush.messages": 1})
    client.produce(address, topic, [Message(b"x")], partition=2)
    for partition in range(3):
        folder = partition_folder(data, topic, partition)
        # The metadata may show a partition before its folder is made.
        wait_until(lambda folder=folder: (folder / "partition.metadata").exists(), f"{folder} is made")
        names = {path.name for path in folder.iterdir()}
        first = "0" * 20
        assert names >= {f"{first}.log", f"{first}.index", f"{first}.timeindex", "partition.metadata"}
    assert "leader-epoch-checkpoint" in {path.name for path in partition_folder(data, topic, 2).iterdir()}
    assert (data / "meta.properties").is_file()


def test_batches_are_stored_as_sent(address: str, topic: str, data: Path) -> None:
    """FMT-01, FMT-07, LOG-03: offsets count on without a gap, every checksum holds, leader epoch filled in."""
    for number in range(5):
        client.produce(address, topic, [Message(b"%d" % number)] * 20, codec="lz4" if number % 2 else "none")
    batches = stored_batches(partition_folder(data, topic))
    assert all(batch.crc_valid for batch in batches)
    assert all(batch.leader_epoch >= 0 for batch in batches)
    assert [batch.base_offset for batch in batches] == [0] + [batch.last_offset + 1 for batch in batches[:-1]]
    assert batches[-1].last_offset == 99
    assert {batch.codec for batch in batches} == {"none", "lz4"}


def test_segments_roll_by_size(address: str, admin: AdminClient, topic: str, data: Path) -> None:
    """TP-18, TP-19, LOG-04: each new file is named by its first offset; reads cross the files."""
    create_topic(admin, topic, configs={"segment.bytes": 1024 * 1024})
    fill(address, topic, 30, size=100_000)
    folder = partition_folder(data, topic)
    logs = segment_files(folder)
    assert len(logs) >= 3
    assert all(path.stat().st_size <= 1024 * 1024 for path in logs)
    firsts = [struct.unpack_from(">q", path.read_bytes())[0] for path in logs]
    assert [int(path.stem) for path in logs] == firsts
    for suffix in (".index", ".timeindex"):
        assert [path.stem for path in segment_files(folder, suffix)] == [path.stem for path in logs]
    assert len(segment_files(folder, ".snapshot")) >= len(logs) - 1
    assert [each.offset for each in client.consume(address, topic, 30)] == list(range(30))
    assert client.consume(address, topic, 1, offset=17)[0].offset == 17


def test_segments_roll_by_time(address: str, admin: AdminClient, topic: str, data: Path) -> None:
    """TP-21: a record whose time is segment.ms after the segment's first one starts a new segment."""
    create_topic(admin, topic, configs={"segment.ms": 60_000})
    for minute in (0, 0, 1, 2, 2):
        client.produce(address, topic, [Message(b"x", timestamp=NOW + minute * 61_000)])
    assert [int(path.stem) for path in segment_files(partition_folder(data, topic))] == [0, 2, 3]


def test_index_entries_are_kafkas(address: str, admin: AdminClient, topic: str, data: Path) -> None:
    """TP-17: 8-byte offset entries and 12-byte time entries that ascend and point at batches."""
    create_topic(admin, topic, configs={"segment.bytes": 1024 * 1024})
    fill(address, topic, 130)
    folder = partition_folder(data, topic)
    closed = segment_files(folder)[0]
    content = closed.with_suffix(".index").read_bytes()
    assert len(content) % 8 == 0
    entries = [struct.unpack_from(">ii", content, at) for at in range(0, len(content), 8)]
    assert entries == sorted(entries) and len(entries) > 10
    log = closed.read_bytes()
    for relative, position in entries:
        base, length = struct.unpack_from(">qi", log, position)
        (delta,) = struct.unpack_from(">i", log, position + 23)
        assert base <= int(closed.stem) + relative <= base + delta
        assert position + 12 + length <= len(log)
    times = closed.with_suffix(".timeindex").read_bytes()
    assert len(times) % 12 == 0 and times
    stamps = [struct.unpack_from(">qi", times, at) for at in range(0, len(times), 12)]
    assert stamps == sorted(stamps)


def test_retention_by_size(eager: BrokerProcess, eager_admin: AdminClient, topic: str) -> None:
    """RET-01, LOG-06: old segments go, at least retention.bytes stay, and reading goes on from what is left."""
    configs = {"segment.bytes": 1024 * 1024, "retention.bytes": 1024 * 1024, "file.delete.delay.ms": 100}
    create_topic(eager_admin, topic, configs=configs)
    fill(eager.address, topic, 40, size=100_000)
    # Four segments of ten records: without two of them the log is still larger than retention.bytes.
    wait_until(lambda: log_range(eager_admin, topic)[0] == 20, "old segments are deleted")
    wait_until(lambda: len(segment_files(partition_folder(eager.data, topic))) <= 3, "the files are gone")
    start, end = log_range(eager_admin, topic)
    assert end == 40
    assert end - start >= 10, "retention.bytes is a minimum"
    received = client.consume(eager.address, topic, end - start, offset=start)
    assert [each.offset for each in received] == list(range(start, end))


def test_retention_by_time(eager: BrokerProcess, eager_admin: AdminClient, topic: str) -> None:
    """RET-01, CMP-06: records older than retention.ms go, the active segment included; another topic keeps its own."""
    kept = f"{topic}-kept"
    for name in (topic, kept):
        create_topic(eager_admin, name, configs={"file.delete.delay.ms": 100, "retention.ms": -1})
        client.produce(eager.address, name, [Message(b"old", timestamp=NOW)] * 10)
    change_config(eager_admin, "topic", topic, "retention.ms", "3600000")
    wait_until(lambda: log_range(eager_admin, topic) == (10, 10), "the old records are gone")
    assert client.produce(eager.address, topic, [Message(b"new")]) == [10]
    assert log_range(eager_admin, kept) == (0, 10)


def test_compaction_keeps_the_last_value_of_each_key(
    eager: BrokerProcess, eager_admin: AdminClient, topic: str
) -> None:
    """CMP-01, CMP-02, TP-32 to TP-34: earlier values vanish from closed segments, offsets stay, gaps are skipped."""
    configs = {"cleanup.policy": "compact", "segment.ms": 100, "min.cleanable.dirty.ratio": 0.01}
    create_topic(eager_admin, topic, configs=configs)
    rows = [(b"C0", b"Basic"), (b"C1", b"Gold"), (b"C0", b"Gold"), (b"C2", b"Basic"), (b"C1", b"Basic")]
    for number, (key, value) in enumerate(rows):
        client.produce(eager.address, topic, [Message(value, key, timestamp=NOW + number)], codec="lz4")
    # The active segment is never compacted: later records close the one before.
    client.produce(eager.address, topic, [Message(b"closes", b"last", timestamp=NOW + 10_000)])

    def offsets_on_disk() -> list[int]:
        return [batch.base_offset for batch in stored_batches(partition_folder(eager.data, topic)) if batch.values]

    wait_until(lambda: offsets_on_disk() == [2, 3, 4, 5], "C0 and C1 keep their last value")
    received = client.consume(eager.address, topic, 4)
    assert [(each.offset, each.key, each.value) for each in received] == [
        (2, b"C0", b"Gold"),
        (3, b"C2", b"Basic"),
        (4, b"C1", b"Basic"),
        (5, b"last", b"closes"),
    ]
    assert client.consume(eager.address, topic, 1, offset=1)[0].offset == 2


def test_tombstones_go_after_their_time(eager: BrokerProcess, eager_admin: AdminClient, topic: str) -> None:
    """CMP-03, TP-35, TP-36: a null value removes the key, and after delete.retention.ms itself."""
    configs = {
        "cleanup.policy": "compact",
        "segment.ms": 100,
        "min.cleanable.dirty.ratio": 0.01,
        "delete.retention.ms": 500,
    }
    create_topic(eager_admin, topic, configs=configs)
    client.produce(eager.address, topic, [Message(b"secret", b"gone", timestamp=NOW)])
    client.produce(eager.address, topic, [Message(b"stays", b"kept", timestamp=NOW + 1)])
    client.produce(eager.address, topic, [Message(None, b"gone", timestamp=NOW + 2)])
    later = iter(range(10_000, 10_000_000, 10_000))

    def no_trace_left() -> bool:
        # Each further record closes a segment, which is what starts another pass over the log.
        client.produce(eager.address, topic, [Message(b"closes", b"tick", timestamp=NOW + next(later))])
        content = b"".join(path.read_bytes() for path in segment_files(partition_folder(eager.data, topic)))
        return b"gone" not in content and b"secret" not in content

    wait_until(no_trace_left, "no byte of the deleted key is on disk", pause=0.3)
    values = {each.key: each.value for each in client.consume(eager.address, topic, 2, offset=1)}
    assert values[b"kept"] == b"stays"


def test_compressed_data_is_smaller(address: str, topic: str, data: Path) -> None:
    """PCF-10, MSG-09, PR-17: gzip shrinks repetitive data on disk several-fold."""
    messages = [Message(b'{"sensor": "temperature", "value": %d}' % number) for number in range(2000)]
    sizes = {}
    for codec in ("none", "gzip"):
        client.produce(address, f"{topic}-{codec}", messages, codec=codec)
        sizes[codec] = sum(path.stat().st_size for path in segment_files(partition_folder(data, f"{topic}-{codec}")))
    assert sizes["gzip"] * 3 < sizes["none"]


def test_several_log_directories(own_broker: StartBroker, tmp_path: Path, topic: str) -> None:
    """BR-10: partitions spread over log.dirs, and all are found again."""
    folders = [tmp_path / "disk-a", tmp_path / "disk-b"]
    broker = own_broker(**{"log.dirs": ",".join(map(str, folders))})
    admin = admin_client(broker.address)
    create_topic(admin, topic, 6)
    for partition in range(6):
        client.produce(broker.address, topic, [Message(b"%d" % partition)], partition=partition)
    spread = [len(list(folder.glob(f"{topic}-*"))) for folder in folders]
    assert spread == [3, 3]
    broker.restart()
    for partition in range(6):
        assert client.consume(broker.address, topic, 1, partition=partition)[0].value == b"%d" % partition


def test_what_was_on_a_replaced_disk_is_led_by_nobody(own_broker: StartBroker, tmp_path: Path, topic: str) -> None:
    """An empty log is not taken for what was lost; what lies on the other disk is served, also after the next start."""
    kept, replaced = tmp_path / "disk-a", tmp_path / "disk-b"
    broker = own_broker(**{"log.dirs": f"{kept},{replaced}"})
    create_topic(admin_client(broker.address), topic, 6)
    for partition in range(6):
        client.produce(broker.address, topic, [Message(b"%d" % partition)], partition=partition)
    lost = {int(each.name.rpartition("-")[2]) for each in replaced.glob(f"{topic}-*")}
    assert len(lost) == 3
    assert broker.stop() == 0
    shutil.rmtree(replaced)
    for _ in range(2):
        broker.start()
        admin = admin_client(broker.address)
        described = admin.describe_topics(TopicCollection([topic]))[topic].result(SECONDS)
        assert {each.id for each in described.partitions if each.leader is None} == lost
        for partition in set(range(6)) - lost:
            assert client.consume(broker.address, topic, 1, partition=partition)[0].value == b"%d" % partition
        assert broker.stop() == 0


def test_offsets_by_time_over_many_segments(address: str, admin: AdminClient, topic: str) -> None:
    """LOG-04, TP-17: the same record is found whichever of many segments holds it."""
    create_topic(admin, topic, configs={"segment.ms": 1000})
    for number in range(20):
        client.produce(address, topic, [Message(b"x", timestamp=NOW + number * 2000)])
    for number in range(20):
        assert list_offset(admin, topic, OffsetSpec.for_timestamp(NOW + number * 2000 - 1))[0] == number


def test_readers_are_undisturbed_by_retention(eager: BrokerProcess, eager_admin: AdminClient, topic: str) -> None:
    """LOG-06: records that a reader was promised are delivered whole although their segment is deleted meanwhile."""
    configs = {"segment.bytes": 1024 * 1024, "retention.bytes": 3 * 1024 * 1024, "file.delete.delay.ms": 0}
    create_topic(eager_admin, topic, configs=configs)
    producer = confluent_kafka.Producer({"bootstrap.servers": eager.address, "linger.ms": 1})
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": eager.address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    last = -1
    try:
        for number in range(3000):
            producer.produce(topic, b"%08d" % number + b"x" * 10_000)
            producer.poll(0)
            for message in consumer.consume(100, timeout=0 if number < 2999 else 5):
                assert message.error() is None, message.error()
                value, offset = message.value(), message.offset()
                assert value is not None and offset is not None
                assert offset > last and value == b"%08d" % offset + b"x" * 10_000
                last = offset
            if number == 2998:
                assert producer.flush(30) == 0
    finally:
        consumer.close()
    assert last > 0
    assert wait_until(lambda: log_range(eager_admin, topic)[0], "retention has deleted segments")
