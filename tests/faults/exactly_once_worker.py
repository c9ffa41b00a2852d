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


def rewind(consumer: confluent_kafka.Consumer) -> None:
    """Back to what is committed: what was read since then was not processed."""
    assigned = consumer.assignment()
    for place in consumer.committed(assigned, timeout=SECONDS) if assigned else ():
        offset = place.offset if place.offset >= 0 else confluent_kafka.OFFSET_BEGINNING
        consumer.seek(confluent_kafka.TopicPartition(place.topic, place.partition, offset))


def process(
    consumer: confluent_kafka.Consumer,
    producer: confluent_kafka.Producer,
    messages: list[confluent_kafka.Message],
    wants_abort: bool,
) -> None:
    producer.begin_transaction()
    try:
        for message in messages:
            partition = message.offset() % TARGET_PARTITIONS
            producer.produce(TARGET, transformed(message.value()), message.key(), partition=partition)
        places = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(
            [place for place in places if place.offset >= 0], consumer.consumer_group_metadata(), SECONDS
        )
        if not wants_abort:
            producer.commit_transaction(SECONDS)
            return
    except confluent_kafka.KafkaException as error:
        if not error.args[0].txn_requires_abort():
            raise
    producer.abort_transaction(SECONDS)
    rewind(consumer)


def main(address: str, name: str) -> None:
    chance = random.Random()
    consumer, producer = new_consumer(address), new_producer(address, name)
    consumer.subscribe([SOURCE])
    while True:
        signal.setitimer(signal.ITIMER_REAL, STUCK_SECONDS)
        messages = [message for message in consumer.consume(20, timeout=0.2) if message.error() is None]
        if messages:
            process(consumer, producer, messages, wants_abort=chance.random() < OUTCOMES_ABORTED)


if __name__ == "__main__":
    main(*sys.argv[1:])
