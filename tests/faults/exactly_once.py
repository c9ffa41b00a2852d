"""Kills a broker and the workers of a read-transform-write pipeline at random and checks that it was exactly once.

python -m tests.faults.exactly_once --rounds 30 [--seed N] [--peer apache] [--keep DIRECTORY]
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import confluent_kafka

from tests.faults.exactly_once_worker import GROUP, SOURCE, TARGET, TARGET_PARTITIONS, transformed
from tests.peers.choice import PEER, PEERS, new_broker
from tests.support.admin import admin_client, create_topic
from tests.support.clients import send
from tests.support.process import BrokerProcess, free_port
from tests.support.waiting import wait_until

SOURCE_PARTITIONS = 3
WORKERS = ("worker-a", "worker-b")
RECORDS_PER_ROUND = 300
SETTLE_SECONDS = 120.0
SETTINGS: dict[str, object] = {
    "offsets.topic.num.partitions": 4,
    "transaction.state.log.num.partitions": 4,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
}


class NotExactlyOnce(AssertionError):
    """A record is missing, or there twice."""


@dataclass(slots=True)
class Outcome:
    records: int = 0
    brokers_killed: int = 0
    workers_killed: int = 0
    workers_ended: int = 0

    def __str__(self) -> str:
        return (
            f"{self.records} records exactly once; killed: {self.brokers_killed} times the broker, "
            f"{self.workers_killed} times a worker; {self.workers_ended} workers gave up and were replaced"
        )


class Workers:
    """Keeps one process of each name running."""

    def __init__(self, address: str, outcome: Outcome, folder: Path) -> None:
        self._address, self._outcome, self._folder = address, outcome, folder
        self._running = {name: self._start(name) for name in WORKERS}

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.faults.exactly_once_worker", self._address, name]
        with (self._folder / f"{name}.out").open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=output)

    def tend(self) -> None:
        for name, process in self._running.items():
            if process.poll() is not None:
                self._outcome.workers_ended += 1
                self._running[name] = self._start(name)

    def kill(self, name: str) -> None:
        self._running[name].kill()
        self._running[name].wait()
        self._running[name] = self._start(name)

    def end(self) -> None:
        for process in self._running.values():
            process.kill()
            process.wait()


def run(
    rounds: int, seed: int, broker: BrokerProcess, folder: Path, say: Callable[[str], None] = lambda text: None
) -> Outcome:
    chance, outcome = random.Random(seed), Outcome()
    broker.start()
    admin = admin_client(broker.address)
    create_topic(admin, SOURCE, SOURCE_PARTITIONS)
    create_topic(admin, TARGET, TARGET_PARTITIONS)
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": broker.address, "enable.idempotence": True, "log_level": 0}
    )
    watcher = confluent_kafka.Consumer({"bootstrap.servers": broker.address, "group.id": GROUP, "log_level": 0})
    workers = Workers(broker.address, outcome, folder)
    try:
        for number in range(rounds):
            feed(producer, outcome, RECORDS_PER_ROUND)
            before = progress(watcher)
            wait_until(lambda: tended(workers, watcher) > before, "a commit", SETTLE_SECONDS, 0.05)  # noqa: B023
            time.sleep(chance.uniform(0, 0.5))
            kill_something(broker, workers, chance, outcome)
            say(f"round {number + 1} of {rounds}: {progress(watcher)} of {outcome.records} committed")
        wait_until(lambda: tended(workers, watcher) == outcome.records, "the end", SETTLE_SECONDS, 0.1)
    finally:
        workers.end()
        watcher.close()
    check(broker.address, outcome.records)
    return outcome


def feed(producer: confluent_kafka.Producer, outcome: Outcome, count: int) -> None:
    for number in range(outcome.records, outcome.records + count):
        send(producer, SOURCE, str(number).encode(), key=str(number), partition=number % SOURCE_PARTITIONS)
    if producer.flush(SETTLE_SECONDS):
        raise AssertionError("the input could not be written")
    outcome.records += count


def tended(workers: Workers, watcher: confluent_kafka.Consumer) -> int:
    workers.tend()
    return progress(watcher)


def progress(watcher: confluent_kafka.Consumer) -> int:
    """Records whose offsets are committed; 0 while nobody can tell."""
    places = [confluent_kafka.TopicPartition(SOURCE, partition) for partition in range(SOURCE_PARTITIONS)]
    try:
        return sum(max(place.offset, 0) for place in watcher.committed(places, timeout=5))
    except confluent_kafka.KafkaException:
        return 0


def kill_something(broker: BrokerProcess, workers: Workers, chance: random.Random, outcome: Outcome) -> None:
    what = chance.choice(("broker", "broker", "worker", "worker", "both"))
    if what != "worker":
        broker.kill()
        outcome.brokers_killed += 1
    if what != "broker":
        workers.kill(chance.choice(WORKERS))
        outcome.workers_killed += 1
    if not broker.running:
        broker.start()


def check(address: str, records: int) -> None:
    found = Counter(committed_values(address))
    wanted = {transformed(str(number).encode()) for number in range(records)}
    missing = wanted - set(found)
    doubled = [value for value, count in found.items() if count > 1]
    if missing or doubled or set(found) - wanted:
        raise NotExactlyOnce(
            f"missing: {sorted(missing)[:10]} ({len(missing)}), doubled: {doubled[:10]} ({len(doubled)})"
        )


def committed_values(address: str) -> list[bytes]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
        }
    )
    values: list[bytes] = []
    try:
        consumer.assign(
            [confluent_kafka.TopicPartition(TARGET, partition, 0) for partition in range(TARGET_PARTITIONS)]
        )
        ended: set[int] = set()
        while len(ended) < TARGET_PARTITIONS:
            message = consumer.poll(30)
            if message is None:
                raise NotExactlyOnce(f"the output has no end for read_committed: only of {sorted(ended)}")
            error = message.error()
            if error is None:
                values.append(message.value())
            elif error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                ended.add(message.partition())
    finally:
        consumer.close()
    return values


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--peer", choices=PEERS, default=PEER)
    parser.add_argument("--keep", type=Path, help="run in this folder and leave it there")
    chosen = parser.parse_args(arguments)
    print(f"seed {chosen.seed}", flush=True)
    with tempfile.TemporaryDirectory(prefix="moldau-once-") as scratch:
        folder = chosen.keep or Path(scratch)
        broker = new_broker(folder, SETTINGS, free_port(), chosen.peer)
        try:
            print(run(chosen.rounds, chosen.seed, broker, folder, lambda text: print(text, flush=True)))
        except (AssertionError, OSError) as error:
            print(f"FAILED with seed {chosen.seed}: {error}\n{broker.output()}", file=sys.stderr)
            return 1
        finally:
            broker.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
