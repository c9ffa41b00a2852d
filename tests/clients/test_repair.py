"""A partition whose flushed data is damaged stays offline, the others serve, and `moldau log repair` brings it back."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import NewTopic

from tests.support.admin import admin_client
from tests.support.broker import Broker


def produce(address: str, topic: str, count: int) -> list[confluent_kafka.KafkaError]:
    errors: list[confluent_kafka.KafkaError] = []
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": address, "batch.num.messages": 1, "message.timeout.ms": 5000, "log_level": 0}
    )
    for number in range(count):
        producer.produce(topic, f"value {number}", on_delivery=lambda error, _: error and errors.append(error))
    producer.flush(20)
    return errors


def repair(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "moldau", "log", "repair", str(folder), "--yes"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def end_offset(address: str, topic: str) -> int:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": "x", "log_level": 0})
    try:
        _, end = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, 0), timeout=20)
        return int(end)
    finally:
        consumer.close()


def test_a_damaged_partition_is_offline_until_it_is_repaired(tmp_path: Path) -> None:
    broker = Broker(tmp_path)
    broker.start()
    try:
        admin = admin_client(broker.address)
        topics = [NewTopic(name, 1, 1, config={"flush.messages": "1"}) for name in ("damaged", "sound")]
        for created in admin.create_topics(topics).values():
            created.result(20)
        for topic in ("damaged", "sound"):
            assert produce(broker.address, topic, 10) == []
        broker.stop()
        (segment,) = (broker.data / "damaged-0").glob("*.log")
        data = bytearray(segment.read_bytes())
        data[len(data) // 2] ^= 0xFF
        segment.write_bytes(data)
        (broker.data / ".kafka_cleanshutdown").unlink()
        # Indexes that have to be rebuilt make the broker read what it had flushed.
        for index in (broker.data / "damaged-0").glob("*index"):
            index.unlink()
        broker.start()
        assert produce(broker.address, "sound", 1) == []
        assert produce(broker.address, "damaged", 1) != []
        refused = repair(broker.data / "damaged-0")
        assert refused.returncode == 1
        assert "using this directory" in refused.stderr
        broker.kill()
        repaired = repair(broker.data / "damaged-0")
        assert repaired.returncode == 0, repaired.stderr
        assert "cut at byte" in repaired.stdout
        broker.start()
        kept = end_offset(broker.address, "damaged")
        assert 0 < kept < 10
        assert produce(broker.address, "damaged", 1) == []
        assert end_offset(broker.address, "damaged") == kept + 1
        assert end_offset(broker.address, "sound") == 11
    finally:
        broker.kill()


@pytest.mark.parametrize("name", ["no-such-folder", "nonsense"])
def test_what_is_no_partition_is_refused(tmp_path: Path, name: str) -> None:
    refused = repair(tmp_path / name)
    assert refused.returncode == 1
    assert "is not the folder of a partition" in refused.stderr
