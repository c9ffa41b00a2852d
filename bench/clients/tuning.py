"""What the books say of settings, in figures: how long who waits for each answer waits in all, and the settings for
throughput beside those for latency. No peer, no goal: the order of the rows is the figure.

The broker is ten milliseconds away, there and back, through the proxy of bench.far.
"""

from __future__ import annotations

import multiprocessing
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.table import Table

from bench.far import run_proxy
from moldau.testing.brokers import Kafka, Running
from tests.support.broker import Broker
from tests.support.process import free_port

ROUND_TRIP_SECONDS = 0.01
WAITED_FOR = 100
VALUE = bytes(100)
SENT = 100_000
TRICKLE = 200
TRICKLE_SECONDS = 0.005
SOON: Mapping[str, object] = {"batch.size": 16_384, "linger.ms": 0}
PRODUCERS: dict[str, Mapping[str, object]] = {
    "throughput: batch.size=262144, linger.ms=50": {"batch.size": 262_144, "linger.ms": 50},
    "latency: batch.size=16384, linger.ms=0": SOON,
    "latency, one request under way": {**SOON, "max.in.flight.requests.per.connection": 1},
}
CONSUMERS: dict[str, Mapping[str, object]] = {
    "throughput: fetch.min.bytes=1048576, fetch.max.wait.ms=100": {
        "fetch.min.bytes": 1 << 20,
        "fetch.max.wait.ms": 100,
    },
    "latency: fetch.min.bytes=1": {"fetch.min.bytes": 1},
}


@contextmanager
def far_broker() -> Iterator[Kafka]:
    port, broker_port = free_port(), free_port()
    proxy = multiprocessing.get_context("spawn").Process(
        target=run_proxy, args=(port, broker_port, ROUND_TRIP_SECONDS), daemon=True
    )
    proxy.start()
    listeners = {
        "listeners": f"PLAINTEXT://127.0.0.1:{broker_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
    }
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder), listeners):
        try:
            yield Running(f"127.0.0.1:{port}")
        finally:
            proxy.kill()


def waiting_for_each(kafka: Kafka, topic: str) -> float:
    with kafka.producer(linger_ms=0) as producer:
        producer.partitions_for(topic)
        started = time.perf_counter()
        for _ in range(WAITED_FOR):
            producer.send(topic, VALUE).result(30)
        return time.perf_counter() - started


def waiting_for_none(kafka: Kafka, topic: str) -> float:
    with kafka.producer(linger_ms=0) as producer:
        producer.partitions_for(topic)
        started = time.perf_counter()
        for _ in range(WAITED_FOR):
            producer.send(topic, VALUE)
        return time.perf_counter() - started


def sent_per_second(kafka: Kafka, topic: str, settings: Mapping[str, object], count: int) -> float:
    with kafka.producer(settings) as producer:
        producer.send(topic, VALUE).result(30)
        started = time.perf_counter()
        for _ in range(count):
            producer.send(topic, VALUE)
        producer.flush()
        return count / (time.perf_counter() - started)


def seconds_to_the_answer(kafka: Kafka, topic: str, settings: Mapping[str, object]) -> float:
    """Of records that come one by one, as the median."""
    found: list[float] = []
    with kafka.producer(settings) as producer:
        producer.partitions_for(topic)
        for _ in range(20):
            started = time.perf_counter()
            producer.send(topic, VALUE).result(30)
            found.append(time.perf_counter() - started)
    return statistics.median(found)


def trickle(kafka: Kafka, topic: str) -> None:
    with kafka.producer(linger_ms=0) as producer:
        for _ in range(TRICKLE):
            producer.send(topic, b"%d" % time.perf_counter_ns())
            time.sleep(TRICKLE_SECONDS)


def reading(kafka: Kafka, settings: Mapping[str, Any]) -> tuple[float, float]:
    """Records per poll, and the median time from `send` to the reader, while records come one by one."""
    topic, ages, polls = kafka.topic(), list[float](), 0
    with kafka.consumer(settings) as consumer:
        consumer.assign([(topic, 0)])
        writer = threading.Thread(target=trickle, args=(kafka, topic))
        writer.start()
        while len(ages) < TRICKLE:
            batch = consumer.poll(1.0)
            now, polls = time.perf_counter_ns(), polls + bool(batch)
            ages += [(now - int(record.value)) / 1e9 for record in batch]
        writer.join()
    return TRICKLE / polls, statistics.median(ages)


def measure(share: int) -> list[Table]:
    """PRD-17, PER-07, PCF-15, CCF-19."""
    with far_broker() as kafka:
        topic = kafka.topic()
        waits = Table(f"{WAITED_FOR} records over {ROUND_TRIP_SECONDS * 1000:.0f} ms", "seconds in send")
        waits.add_row("waiting for each", f"{waiting_for_each(kafka, topic):.2f}")
        waits.add_row("waiting for none", f"{waiting_for_none(kafka, topic):.4f}")
        writers = Table("producer", "records/s", "ms to the answer of one alone")
        for name, settings in PRODUCERS.items():
            rate = sent_per_second(kafka, topic, settings, SENT // share)
            alone = seconds_to_the_answer(kafka, topic, settings)
            writers.add_row(name, f"{rate:,.0f}", f"{alone * 1000:.0f}")
        readers = Table("consumer of a slow topic", "records per poll", "ms from send to poll")
        for name, settings in CONSUMERS.items():
            together, age = reading(kafka, settings)
            readers.add_row(name, f"{together:.1f}", f"{age * 1000:.0f}")
    return [waits, writers, readers]
