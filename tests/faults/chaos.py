"""Kills a broker at random moments under load and checks that it kept every promise.

Idempotent producers write numbered records to several partitions while the broker is killed (SIGKILL) again and again,
at times while it is still starting; a reader follows. At the end every log is read whole. Promised is:
  - no acknowledged record is lost, and each lies at the offset that was acknowledged;
  - no record appears twice, and each producer's records are in order;
  - what a reader has seen once never changes;
  - every log file holds whole batches with valid checksums.

    python -m tests.faults.chaos --rounds 50 [--flush] [--seed N] [--peer apache] [--keep DIRECTORY]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka

from tests.peers.choice import PEER, PEERS, new_broker
from tests.support.admin import admin_client, create_topic, settled_log_range
from tests.support.clients import send
from tests.support.process import BrokerProcess, free_port
from tests.support.segments import checked_batches, partition_folder
from tests.support.waiting import wait_until

TOPICS = {"orders": 3, "clicks": 2, "audit": 1}
PLACES = tuple((topic, partition) for topic, count in TOPICS.items() for partition in range(count))
CODECS = ("none", "lz4", "zstd")
FLUSH_EACH_MESSAGE = {"log.flush.interval.messages": 1}
SETTLE_SECONDS = 120.0

Place = tuple[str, int]


class PromiseBroken(AssertionError):
    """The broker lost, doubled, reordered or changed something."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run; the same seed gives the same moments and the same load, as far as the machine's timing allows."""

    rounds: int
    seed: int
    settings: dict[str, object] = field(default_factory=dict)
    producers: int = 3
    longest_life_seconds: float = 0.6


@dataclass(slots=True)
class Outcome:
    rounds: int = 0
    kills_during_start: int = 0
    acknowledged: int = 0
    slowest_start_seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.rounds} kills under load and {self.kills_during_start} during start, "
            f"{self.acknowledged} records acknowledged and found, slowest start {self.slowest_start_seconds:.2f} s"
        )


class Writer(threading.Thread):
    """One idempotent producer that numbers its records per partition and remembers what was acknowledged."""

    def __init__(self, name: str, address: str, codec: str, seed: int, stop: threading.Event) -> None:
        super().__init__(name=name, daemon=True)
        self.acknowledged: dict[Place, dict[int, int]] = {place: {} for place in PLACES}
        self.sent: dict[Place, int] = dict.fromkeys(PLACES, 0)
        self.errors: list[str] = []
        self._random = random.Random(seed)
        self._stop_event = stop
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": address,
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": self._random.choice((0, 2, 10)),
                "batch.num.messages": self._random.choice((1, 20, 500)),
                "queue.buffering.max.messages": 500,
                "message.timeout.ms": 0,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "log_level": 0,
                "error_cb": self._on_error,
            }
        )

    def _on_error(self, error: confluent_kafka.KafkaError) -> None:
        if error.fatal():
            self.errors.append(f"{self.name}: fatal {error}")

    def _on_delivery(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        if error is not None:
            self.errors.append(f"{self.name}: {error}")
            return
        number = int(message.key().split(b" ")[1])
        self.acknowledged[message.topic(), message.partition()][number] = message.offset()

    def total(self) -> int:
        return sum(len(found) for found in self.acknowledged.values())

    def run(self) -> None:
        while not self._stop_event.is_set() and not self.errors:
            self._send_one()
        if self._producer.flush(SETTLE_SECONDS):
            self.errors.append(f"{self.name}: not everything was delivered {SETTLE_SECONDS:g} s after the last start")

    def _send_one(self) -> None:
        place = self._random.choice(PLACES)
        number = self.sent[place]
        self.sent[place] += 1
        value = self._random.randbytes(self._random.choice((0, 10, 100, 100, 1000, 5000)))
        key = f"{self.name} {number}"
        send(self._producer, place[0], value, key=key, partition=place[1], on_delivery=self._on_delivery)


class Tail(threading.Thread):
    """A reader at the end of every partition that remembers which record it saw at which offset."""

    def __init__(self, address: str, stop: threading.Event) -> None:
        super().__init__(name="tail", daemon=True)
        self.seen: dict[Place, dict[int, bytes]] = {place: {} for place in PLACES}
        self._stop_event = stop
        self._consumer = _consumer(address)

    def run(self) -> None:
        self._consumer.assign([confluent_kafka.TopicPartition(*place, 0) for place in PLACES])
        while not self._stop_event.is_set():
            for message in self._consumer.consume(500, timeout=0.1):
                if message.error() is None:
                    self.seen[message.topic(), message.partition()][message.offset()] = message.key()
        self._consumer.close()


def _consumer(address: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "check.crcs": True,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )


def run(plan: Plan, broker: BrokerProcess, say: Callable[[str], None] = lambda text: None) -> Outcome:
    """Runs the plan on a broker that is not started yet; raises PromiseBroken when a promise is."""
    chance = random.Random(plan.seed)
    outcome = Outcome()
    stop = threading.Event()
    broker.start()
    admin = admin_client(broker.address)
    for topic, partitions in TOPICS.items():
        create_topic(admin, topic, partitions, {"segment.bytes": 1024 * 1024})
    writers = [
        Writer(f"writer-{number}", broker.address, CODECS[number % len(CODECS)], chance.randrange(1 << 32), stop)
        for number in range(plan.producers)
    ]
    tail = Tail(broker.address, stop)
    threads: list[threading.Thread] = [*writers, tail]
    try:
        for thread in threads:
            thread.start()
        for number in range(plan.rounds):
            _one_round(plan, broker, writers, chance, outcome)
            say(f"round {number + 1} of {plan.rounds}: {sum(writer.total() for writer in writers)} acknowledged")
    finally:
        stop.set()
        for thread in threads:
            thread.join(SETTLE_SECONDS)
    _raise_errors(writers)
    broker.kill()
    broker.start()
    check(broker, writers, tail)
    if broker.stop() != 0:
        raise PromiseBroken("the broker did not end cleanly\n" + broker.output())
    outcome.acknowledged = sum(writer.total() for writer in writers)
    return outcome


def _one_round(
    plan: Plan, broker: BrokerProcess, writers: list[Writer], chance: random.Random, outcome: Outcome
) -> None:
    before = sum(writer.total() for writer in writers)

    def progress() -> bool:
        _raise_errors(writers)
        return sum(writer.total() for writer in writers) > before

    wait_until(progress, "records are acknowledged after a start", seconds=SETTLE_SECONDS, pause=0.005)
    time.sleep(chance.uniform(0, plan.longest_life_seconds))
    broker.kill()
    outcome.rounds += 1
    if chance.random() < 0.25:
        broker.start_and_kill(chance.uniform(0, 0.5))
        outcome.kills_during_start += 1
    broker.start()
    outcome.slowest_start_seconds = max(outcome.slowest_start_seconds, broker.startup_seconds)


def _raise_errors(writers: list[Writer]) -> None:
    errors = [error for writer in writers for error in writer.errors]
    if errors:
        raise PromiseBroken("\n".join(errors[:10]))


def check(broker: BrokerProcess, writers: list[Writer], tail: Tail) -> None:
    """Reads every log whole and compares it with what was sent, acknowledged and seen."""
    admin = admin_client(broker.address)
    for place in PLACES:
        end = settled_log_range(admin, *place)[1]
        keys = dict(_whole_log(broker.address, place, end))
        for offset, key in tail.seen[place].items():
            if keys.get(offset) != key:
                raise PromiseBroken(f"{place}: the reader saw {key!r} at {offset}, now there is {keys.get(offset)!r}")
        for writer in writers:
            _check_writer(place, writer, keys)
        for batch in checked_batches(partition_folder(broker.data, *place)):
            if not batch.crc_valid:
                raise PromiseBroken(f"{place}: batch at {batch.base_offset} in {batch.file} has a wrong checksum")


def _check_writer(place: Place, writer: Writer, keys: dict[int, bytes]) -> None:
    prefix = writer.name.encode() + b" "
    stored = [(int(key[len(prefix) :]), offset) for offset, key in keys.items() if key.startswith(prefix)]
    numbers = [number for number, _ in stored]
    offsets = dict(stored)
    for number, offset in writer.acknowledged[place].items():
        if offsets.get(number) != offset:
            where = "nowhere" if number not in offsets else f"at {offsets[number]}"
            raise PromiseBroken(f"{place}: {writer.name} {number} was acknowledged at {offset} and is {where}")
    if len(offsets) != len(numbers):
        raise PromiseBroken(f"{place}: {len(numbers) - len(offsets)} records of {writer.name} are there twice")
    if numbers != sorted(numbers):
        raise PromiseBroken(f"{place}: the records of {writer.name} are out of order")
    if len(numbers) != writer.sent[place]:
        raise PromiseBroken(f"{place}: {writer.name} delivered {writer.sent[place]} records, {len(numbers)} are there")


def _whole_log(address: str, place: Place, end: int) -> Iterator[tuple[int, bytes]]:
    consumer = _consumer(address)
    try:
        consumer.assign([confluent_kafka.TopicPartition(*place, 0)])
        position = 0
        while position < end:
            batch = consumer.consume(min(5000, end - position), timeout=30)
            if not batch:
                raise PromiseBroken(f"{place}: nothing to read at {position}, though the log ends at {end}")
            for message in batch:
                if message.error() is not None:
                    raise PromiseBroken(f"{place}: {message.error()} at {position}")
                if message.offset() != position:
                    raise PromiseBroken(f"{place}: offset {message.offset()} where {position} should be")
                position += 1
                yield message.offset(), message.key()
    finally:
        consumer.close()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--flush", action="store_true", help="fsync every message (log.flush.interval.messages=1)")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--peer", choices=PEERS, default=PEER)
    parser.add_argument("--keep", type=Path, help="run in this folder and leave it there")
    chosen = parser.parse_args(arguments)
    settings: dict[str, object] = dict(FLUSH_EACH_MESSAGE) if chosen.flush else {}
    plan = Plan(chosen.rounds, chosen.seed, settings)
    print(f"seed {plan.seed}, settings {settings or 'default'}", flush=True)
    with tempfile.TemporaryDirectory(prefix="moldau-chaos-") as temporary:
        broker = new_broker(chosen.keep or Path(temporary), settings, free_port(), chosen.peer)
        try:
            print(run(plan, broker, lambda text: print(text, flush=True)))
        except (AssertionError, OSError) as error:
            print(f"FAILED with seed {plan.seed}: {error}\n{broker.output()}", file=sys.stderr)
            return 1
        finally:
            broker.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
