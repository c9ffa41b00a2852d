"""`moldau cluster` against a real broker, a healthy one and one that lost a log directory."""

from __future__ import annotations

from pathlib import Path

from confluent_kafka.admin import AdminClient

from tests.cli.conftest import Moldau
from tests.cli.traffic import produce
from tests.support.admin import admin_client, broker_id, create_topic, settled_log_range
from tests.support.broker import Broker
from tests.support.command import run
from tests.support.process import BrokerProcess


def test_describe(moldau: Moldau, admin: AdminClient, broker: BrokerProcess, name: str) -> None:
    create_topic(admin, name, 2)
    found = moldau("cluster", "describe", "-o", "json").document
    number = broker_id(admin)
    (only,) = found["brokers"]
    assert (only["id"], f"{only['host']}:{only['port']}") == (number, broker.address)
    assert found["controller"] == number and found["cluster_id"]
    assert found["features"]["transaction.version"] == 2
    assert found["partitions"] >= 2
    assert [Path(folder["path"]) for folder in only["log_dirs"]] == [broker.data]
    assert broker.address in moldau("cluster", "describe").out
    assert str(broker.data) in moldau("cluster", "describe", "-o", "wide").out


def test_a_healthy_cluster(moldau: Moldau) -> None:
    assert moldau("cluster", "health").out.startswith("healthy: 1 broker,")
    found = moldau("cluster", "health", "-o", "json").document
    assert found["healthy"] and found["problems"] == []


def test_health_and_describe_count_alike(moldau: Moldau, admin: AdminClient, name: str) -> None:
    """What the platform keeps for itself stands apart in both."""
    create_topic(admin, name, 2)
    create_topic(admin, f"__moldau-{name}", 3)
    health = moldau("cluster", "health", "-o", "json").document
    described = moldau("cluster", "describe", "-o", "json").document
    counts = ("topics", "partitions", "internal_topics", "internal_partitions")
    assert [health[key] for key in counts] == [described[key] for key in counts]
    visible = moldau("topic", "list", "-o", "json").document
    assert (health["topics"], health["partitions"]) == (len(visible), sum(each["partitions"] for each in visible))
    assert health["internal_partitions"] >= 3


def test_a_damaged_partition_is_not_well(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        admin = admin_client(broker.address)
        for topic in ("damaged", "sound"):
            create_topic(admin, topic, configs={"flush.messages": 1})
            for number in range(10):
                produce(broker.address, topic, [str(number)])
        broker.stop()
        damage(broker.data)
        broker.start()
        settled_log_range(admin_client(broker.address), "sound")
        ill = run("cluster", "health", "-b", broker.address)
        assert ill.code == 5
        assert "damaged-0" in ill.out and "sound-0" not in ill.out
        assert ill.err.startswith("not well: 1 problem;")
        found = run("cluster", "health", "-b", broker.address, "-o", "json")
        assert found.code == 5 and '"healthy": false' in found.out


def damage(data: Path) -> None:
    (segment,) = (data / "damaged-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[len(content) // 2] ^= 0xFF
    segment.write_bytes(content)
    (data / ".kafka_cleanshutdown").unlink()
    # Indexes that have to be rebuilt make the broker read what it had flushed.
    for index in (data / "damaged-0").glob("*index"):
        index.unlink()
