"""What a producer's settings make of its requests, as a broker counts its batches and as they lie on its disk."""

from __future__ import annotations

import signal
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.clients.errors import DeliveryFailed, TimedOut
from moldau.testing.brokers import Running
from tests.support.broker import Broker
from tests.support.process import BrokerProcess, free_port
from tests.support.segments import partition_folder, stored_batches

COUNTED = "kafka_server_brokertopicmetrics_totalproducerequests_total"
LONG_MS = 60_000


class Counting(Running):
    """A broker that says how many batches it was sent, kept or not."""

    def __init__(self, broker: BrokerProcess, metrics: str) -> None:
        super().__init__(broker.address)
        self.data = broker.data
        self._metrics = metrics

    def batches(self) -> int:
        with urllib.request.urlopen(self._metrics, timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return next(int(float(line.rpartition(" ")[2])) for line in lines if line.startswith(f"{COUNTED} "))


@pytest.fixture(scope="module")
def counting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counting]:
    listener = f"http://127.0.0.1:{free_port()}"
    with Broker(tmp_path_factory.mktemp("counting"), {"metrics.listeners": listener}) as broker:
        yield Counting(broker, f"{listener}/metrics")


def test_who_waits_for_each_answer_pays_a_round_trip_for_each_record(counting: Counting) -> None:
    """PRD-17: a hundred of them; whoever waits for none of them pays for a batch. bench/clients tells the seconds."""
    topic, before = counting.topic(), counting.batches()
    with counting.producer(linger_ms=0) as producer:
        for _ in range(100):
            producer.send(topic, b"v").result(30)
    assert counting.batches() - before == 100
    with counting.producer(linger_ms=LONG_MS) as producer:
        for _ in range(100):
            producer.send(topic, b"v")
    assert counting.batches() - before == 101


def test_nothing_is_sent_before_its_time_unless_it_is_flushed(counting: Counting) -> None:
    """PRD-10, PCF-14: with a long linger.ms; with a short one a record goes by itself."""
    topic, before = counting.topic(), counting.batches()
    with counting.producer(linger_ms=LONG_MS) as producer:
        kept = producer.send(topic, b"v")
        producer.partitions_for(topic)
        assert counting.batches() == before and not kept.done()
        assert producer.flush(30) == 0
        assert kept.done() and counting.batches() == before + 1
    with counting.producer(linger_ms=50) as producer:
        assert producer.send(topic, b"v").result(30).offset == 1


def test_batches_are_bounded_in_bytes_and_leave_after_their_time(counting: Counting) -> None:
    """PRD-18, PCF-13: at most 64 KB, except for a single record that is larger; full ones do not wait."""
    topic, bound = counting.topic(), 64 * 1024
    with counting.producer(batch_size=bound, linger_ms=10) as producer:
        assert producer.send(topic, b"alone").result(30).offset == 0
    with counting.producer(batch_size=bound, linger_ms=LONG_MS) as producer:
        full = [producer.send(topic, bytes(1000)) for _ in range(200)]
        assert full[0].result(30).offset == 1
        producer.send(topic, bytes(2 * bound))
    batches = stored_batches(partition_folder(counting.data, topic))
    assert sum(len(each.values) for each in batches) == 202
    (larger,) = [each for each in batches if len(each.raw) > bound]
    assert len(larger.values) == 1
    assert max(len(each.raw) for each in batches if each is not larger) > bound // 2


def test_a_broker_that_does_not_answer_is_given_up(tmp_path: Path) -> None:
    """PCF-18: long before delivery.timeout.ms is over."""
    with Broker(tmp_path) as broker:
        kafka = Running(broker.address)
        topic = kafka.topic()
        with kafka.producer(request_timeout_ms=1000, retries=0, linger_ms=0) as producer:
            assert producer.send(topic, b"v").result(30).offset == 0
            broker.process.send_signal(signal.SIGSTOP)
            error = producer.send(topic, b"unanswered").exception(60)
            broker.process.send_signal(signal.SIGCONT)
        assert isinstance(error, DeliveryFailed | TimedOut)
