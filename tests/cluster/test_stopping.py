"""A broker that is asked to stop while ZooKeeper is away: what is on its disks is left in good order all the same."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.storage.checkpoints import CLEAN_SHUTDOWN
from tests.support.broker import Broker
from tests.support.clients import Confluent
from tests.support.zookeeper import ensemble

NOT_IN_ORDER = "which was not left in good order"


@pytest.mark.timeout(300)
def test_brokers_stop_in_good_order_though_zookeeper_is_gone(tmp_path: Path) -> None:
    """Whoever controls the cluster cannot resign, and neither can hand over what it leads."""
    with ensemble(tmp_path / "zookeeper", 1) as zookeeper:
        settings = {"zookeeper.connect": zookeeper.connect, "default.replication.factor": "2"}
        one, two = (Broker(tmp_path / name, {**settings, "node.id": name}) for name in ("1", "2"))
        with one, two:
            producer = Producer({"bootstrap.servers": one.address})
            producer.produce("kept", b"a")
            assert producer.flush(30) == 0
            zookeeper.nodes[0].kill()
            for broker in (one, two):
                broker.process.send_signal(signal.SIGTERM)
            assert [broker.stop() for broker in (one, two)] == [0, 0], one.output() + two.output()
            for broker in (one, two):
                assert (broker.data / CLEAN_SHUTDOWN).exists(), broker.output()
            zookeeper.nodes[0].start()
            zookeeper.wait_until_serving()
            for broker in (one, two):
                broker.begin()
            for broker in (one, two):
                broker.wait_until_up()
                assert NOT_IN_ORDER not in (broker.directory / "stderr.log").read_text()
            (kept,) = Confluent().consume(one.address, "kept", 1)
            assert kept.value == b"a"
