"""A worker that reads, transforms and writes exactly once: offsets and output are committed in one transaction.

    python -m tests.faults.exactly_once_worker ADDRESS NAME

Runs until it is killed. What can be aborted is aborted and done again; whatever else ends the process, and somebody
starts it anew.
"""

from __future__ import annotations

import random
import signal
import sys

import confluent_kafka

GROUP = "copiers"
SOURCE, TARGET = "source", "target"
TARGET_PARTITIONS = 3
SECONDS = 30.0
OUTCOMES_ABORTED = 0.15
#: librdkafka may forget the group's coordinator when its only broker comes back, and then ignores its own time-out in
#: send_offsets_to_transaction (its issues 5511 and 5456): the process ends, and another one goes on.
STUCK_SECONDS = 45.0


def transformed(value: bytes) -> bytes:
    return b"done " + value


def new_consumer(address: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {
            "bootstrap.servers": address,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 2000,
            "heartbeat.interval.ms": 300,
            "fetch.wait.max.ms": 100,
            "metadata.recovery.strategy": "none",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )


def new_producer(address: str, name: str) -> confluent_kafka.Producer:
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": name,
            "transaction.timeout.ms": 20_000,
            "linger.ms": 1,
            "metadata.recovery.strategy": "none",
            "reconnect.backoff.ms": 20,
            "reconnect.backoff.max.ms": 200,
            "retry.backoff.ms": 20,
            "log_level": 0,
        }
    )
    producer.init_transactions(SECONDS)
    return producer


class Source:
    """The worker's share of the input. What was read while the share changed is read again: it may be another's now."""

    def __init__(self, address: str) -> None:
        self.consumer = new_consumer(address)
        self._has_changed = False
        self.consumer.subscribe([SOURCE], on_assign=self._changed, on_revoke=self._changed, on_lost=self._changed)

    def _changed(self, *_: object) -> None:
        self._has_changed = True

    def read(self) -> list[confluent_kafka.Message]:
        messages = [message for message in self.consumer.consume(20, timeout=0.2) if message.error() is None]
        if not self._has_changed:
            return messages
        self._has_changed = False
        self.rewind()
        return []

    def rewind(self) -> None:
        """Back to what is committed: what was read since then was not processed."""
        assigned = self.consumer.assignment()
        for place in self.consumer.committed(assigned, timeout=SECONDS) if assigned else ():
            offset = place.offset if place.offset >= 0 else confluent_kafka.OFFSET_BEGINNING
            self.consumer.seek(confluent_kafka.TopicPartition(place.topic, place.partition, offset))


def next_offsets(messages: list[confluent_kafka.Message]) -> list[confluent_kafka.TopicPartition]:
    """Not the consumer's positions: those do not go back when it is rewound."""
    offsets = {message.partition(): message.offset() + 1 for message in messages}
    return [confluent_kafka.TopicPartition(SOURCE, partition, offset) for partition, offset in offsets.items()]


def process(
    source: Source, producer: confluent_kafka.Producer, messages: list[confluent_kafka.Message], wants_abort: bool
) -> None:
    producer.begin_transaction()
    try:
        for message in messages:
            partition = message.offset() % TARGET_PARTITIONS
            producer.produce(TARGET, transformed(message.value()), message.key(), partition=partition)
        group = source.consumer.consumer_group_metadata()
        producer.send_offsets_to_transaction(next_offsets(messages), group, SECONDS)
        if not wants_abort:
            producer.commit_transaction(SECONDS)
            return
    except confluent_kafka.KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
    producer.abort_transaction(SECONDS)
    source.rewind()


def main(address: str, name: str) -> None:
    chance = random.Random()
    source, producer = Source(address), new_producer(address, name)
    while True:
        signal.setitimer(signal.ITIMER_REAL, STUCK_SECONDS)
        messages = source.read()
        if messages:
            process(source, producer, messages, wants_abort=chance.random() < OUTCOMES_ABORTED)


if __name__ == "__main__":
    main(*sys.argv[1:])
