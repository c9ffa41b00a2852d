"""Mirrors and brokers killed at random moments under load: the target is the source, exactly and in order."""

from __future__ import annotations

import random
import threading
import time
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from moldau.clients.admin import Admin
from tests.peers.choice import new_broker
from tests.support.mirroring import MirrorProcess, contents, producer, properties
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("mirror")
PARTITIONS = 4
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 2,
}


class Load(threading.Thread):
    """Writes without an end: plain records to one topic, transactions of which some are aborted to another."""

    def __init__(self, address: str, seed: int) -> None:
        super().__init__(daemon=True)
        self._plain = producer(address, linger_ms=2)
        self._careful = producer(address, transactional_id="load", linger_ms=2)
        self._random = random.Random(seed)
        self.ending = threading.Event()
        self.rounds = 0

    def run(self) -> None:
        self._careful.init_transactions(60)
        while not self.ending.is_set():
            for each in range(self._random.randrange(1, 60)):
                value = b"%d-%d-" % (self.rounds, each) + b"x" * self._random.choice([0, 10, 2000])
                self._plain.produce("plain", value, b"k", self._random.randrange(PARTITIONS))
            self._careful.begin_transaction()
            for each in range(self._random.randrange(1, 20)):
                self._careful.produce(
                    "careful", b"%d-%d" % (self.rounds, each), None, self._random.randrange(PARTITIONS)
                )
            if self._random.random() < 0.3:
                self._careful.abort_transaction(60)
            else:
                self._careful.commit_transaction(60)
            self._plain.poll(0)
            self.rounds += 1
            self.ending.wait(0.01)
        self._plain.flush(60)


def crash(tmp_path: Path, kills: int, seed: int, *, brokers: bool) -> None:
    chance = random.Random(seed)
    with new_broker(tmp_path / "us", SETTINGS) as us, new_broker(tmp_path / "eu", SETTINGS) as eu:
        with Admin({"bootstrap.servers": us.address}) as admin:
            for topic in ("plain", "careful"):
                admin.create_topic(topic, PARTITIONS)
        settings = properties(
            {"us": us.address, "eu": eu.address}, us_to_eu__enabled="true", topics="plain, careful", tasks__max="2",
            heartbeats__replication__enabled="false",
        )  # fmt: skip
        workers = [MirrorProcess(tmp_path / "workers", settings, f"worker{number}") for number in range(2)]
        load = Load(us.address, seed)
        load.start()
        try:
            for _ in range(kills):
                for worker in workers:
                    if not worker.running:
                        worker.start()
                before = copied(eu)
                wait_until(partial(has_more, eu, before), "the mirror goes on", 120)
                time.sleep(chance.random() * 0.5)  # the moment of the kill is what is drawn
                one_is_killed(chance, workers, [us, eu] if brokers else [])
            for worker in workers:
                if not worker.running:
                    worker.start()
            load.ending.set()
            load.join(120)
            assert not load.is_alive()
            same(us, eu)
        finally:
            load.ending.set()
            for worker in workers:
                worker.kill()


def one_is_killed(chance: random.Random, workers: list[MirrorProcess], brokers: list[BrokerProcess]) -> None:
    if brokers and chance.random() < 0.3:
        broker = chance.choice(brokers)
        broker.kill()
        broker.start()
        return
    for worker in workers if chance.random() < 0.3 else [chance.choice(workers)]:
        worker.kill()


def has_more(eu: BrokerProcess, before: int) -> bool:
    return copied(eu) > before


def copied(eu: BrokerProcess) -> int:
    """Offsets of the copies' ends, as far as they are there."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": eu.address, "group.id": "looker", "log_level": 0})
    total = 0
    try:
        for topic in ("us.plain", "us.careful"):
            for index in range(PARTITIONS):
                total += consumer.get_watermark_offsets(TopicPartition(topic, index), timeout=10)[1]
    except KafkaException:
        return 0
    finally:
        consumer.close()
    return total


def same(us: BrokerProcess, eu: BrokerProcess) -> None:
    for topic in ("plain", "careful"):
        wanted = contents(us.address, topic, PARTITIONS)
        count = sum(map(len, wanted))
        assert count

        def there(remote: str = f"us.{topic}", count: int = count) -> bool:
            return sum(map(len, contents(eu.address, remote, PARTITIONS))) >= count

        wait_until(there, f"all {count} records of {topic} are copied", 120)
        found = contents(eu.address, f"us.{topic}", PARTITIONS)
        for index in range(PARTITIONS):
            assert found[index] == wanted[index], f"{topic}-{index}: {len(found[index])} for {len(wanted[index])}"


def test_killed_mirrors_copy_everything_once(tmp_path: Path) -> None:
    crash(tmp_path, kills=3, seed=1, brokers=False)


@pytest.mark.timeout(600)
def test_killed_brokers_and_mirrors(tmp_path: Path) -> None:
    crash(tmp_path, kills=3, seed=2, brokers=True)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10, 15))
def test_killed_again_and_again(tmp_path: Path, seed: int) -> None:
    crash(tmp_path, kills=60, seed=seed, brokers=True)
