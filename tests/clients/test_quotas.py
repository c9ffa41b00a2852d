"""Quotas with real clients: who is held back, how near to the limit, and who is not.

SX-26, SX-27, SX-28, SX-29, SX-30, SX-31.

How near is measured over half a minute, with `make chaos ARGS="-k quota"`.
"""

from __future__ import annotations

import statistics
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.support.admin import create_topic
from tests.support.command import run
from tests.support.locked import LockedBroker
from tests.support.names import own_name
from tests.support.process import free_port
from tests.support.waiting import wait_until

USERS = ("franz", "clueful", "other")
VALUE = b"x" * 10_000
LIMIT = 1_000_000
WINDOWS_SECONDS = 11
"""All of them: what was sent in a burst counts as long, so a client that is held back goes in bursts as far apart."""
MEASURED_SECONDS = 3 * WINDOWS_SECONDS
TOLERANCE = 0.05


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    settings = {"allow.everyone.if.no.acl.found": "true", "metrics.listeners": f"http://127.0.0.1:{free_port()}"}
    found = LockedBroker(tmp_path_factory.mktemp("quotas"), USERS, settings)
    with found:
        yield found


@pytest.fixture
def topic(broker: LockedBroker, request: pytest.FixtureRequest) -> str:
    name = own_name(request.node.name)
    create_topic(AdminClient({"bootstrap.servers": broker.address}), name)
    return name


def quota(broker: LockedBroker, *arguments: str) -> None:
    done = run("security", "quota", *arguments, environment={"MOLDAU_BOOTSTRAP_SERVERS": broker.address})
    assert done.code == 0, done


def metric(broker: LockedBroker, name: str, user: str, client_id: str) -> float:
    """One of those that Kafka names for whoever shares a quota; 0 where there is none."""
    with urllib.request.urlopen(f"{broker.settings['metrics.listeners']}/metrics", timeout=30) as answer:
        text = answer.read().decode()
    line = f'kafka_server_{name}{{user="{user}",client_id="{client_id}"}} '
    return next((float(each.removeprefix(line)) for each in text.splitlines() if each.startswith(line)), 0.0)


@dataclass
class Load:
    """A producer that sends as much as it may; what the broker told it is counted."""

    config: dict[str, object]
    topic: str
    pause_seconds: float = 0.002
    """Between records: enough to be above a limit, and not all that the machine can do."""
    sent: int = 0
    throttled_ms: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        def delivered(error: object, message: object) -> None:
            if error is None:
                self.sent += len(VALUE)
            elif not self.stop.is_set():  # what was not sent by then is dropped
                self.problems.append(str(error))

        producer = Producer(
            {
                **self.config,
                "throttle_cb": lambda event: self.throttled_ms.append(event.throttle_time * 1000),
                "queue.buffering.max.messages": 200,
                "batch.num.messages": 5,
                "enable.idempotence": False,
            }
        )
        while not self.stop.is_set():
            try:
                producer.produce(self.topic, VALUE, on_delivery=delivered)
                producer.poll(self.pause_seconds)
            except BufferError:
                producer.poll(0.05)
        producer.purge()
        producer.flush(1)


@contextmanager
def under_load(*loads: Load) -> Iterator[None]:
    threads = [threading.Thread(target=load.run) for load in loads]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for load in loads:
            load.stop.set()
        for thread in threads:
            thread.join(30)
        assert not [load.problems for load in loads if load.problems]


def test_a_limit_holds_for_a_client_that_is_running_and_for_nobody_else(broker: LockedBroker, topic: str) -> None:
    """SX-26, SX-27, SX-28, PCF-16, CCF-13; the metrics stand under Kafka's names."""
    held = Load({**broker.config("franz"), "client.id": "held"}, topic)
    other = Load({**broker.config("other"), "client.id": "other"}, topic)
    with under_load(held, other):
        wait_until(lambda: held.sent > 0 and other.sent > 0, "both write")
        assert not held.throttled_ms
        quota(broker, "set", "producer_byte_rate=500000", "--client-id", "held")
        wait_until(lambda: bool(held.throttled_ms), "the limited one is told to wait", 60)
        assert metric(broker, "produce_byte_rate", "", "held") > 0
        assert metric(broker, "produce_throttle_time", "", "held") > 0
        quota(broker, "remove", "--client-id", "held")
        before = held.sent
        wait_until(lambda: held.sent > before + 1000 * len(VALUE), "it goes on where the limit is gone", 120)
    assert not [waited for waited in other.throttled_ms if waited > 0]


def fill(broker: LockedBroker, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": broker.address, "batch.num.messages": 1})
    for _ in range(records):
        producer.produce(topic, VALUE)
    assert producer.flush(60) == 0


def reader(broker: LockedBroker, topic: str, user: str, client_id: str, throttled: list[float]) -> Consumer:
    made = Consumer(
        {
            **broker.config(user),
            "client.id": client_id,
            "group.id": f"{topic}-{user}-{client_id}",
            "message.max.bytes": 2 * len(VALUE),
            "fetch.max.bytes": 2 * len(VALUE),
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    made.assign([TopicPartition(topic, 0, 0)])
    return made


def test_a_reader_waits_for_its_share_and_another_does_not(broker: LockedBroker, topic: str) -> None:
    """SX-28. As at Apache Kafka's, a batch that is greater than what all windows allow would never be sent."""
    records = 50
    fill(broker, topic, records)
    quota(broker, "set", f"consumer_byte_rate={len(VALUE)}", "--client-id", "slow")
    throttled: dict[str, list[float]] = {"slow": [], "free": []}

    slow, free = (reader(broker, topic, "franz", client_id, throttled[client_id]) for client_id in throttled)
    read = Counter[str]()

    def go_on() -> None:
        for name, consumer in (("slow", slow), ("free", free)):
            message = consumer.poll(0.02)
            read[name] += message is not None and message.error() is None

    def waits() -> bool:
        go_on()
        return bool([waited for waited in throttled["slow"] if waited > 0]) and read["free"] == records

    wait_until(waits, "the one is told to wait, and the other has read all", 60)
    assert read["slow"] < records
    assert metric(broker, "fetch_byte_rate", "", "slow") > 0
    assert metric(broker, "fetch_throttle_time", "", "slow") > 0
    quota(broker, "remove", "--client-id", "slow")

    def has_read_all() -> bool:
        go_on()
        return read["slow"] == records

    wait_until(has_read_all, "it goes on where the limit is gone", 120)
    assert not [waited for waited in throttled["free"] if waited > 0]
    slow.close()
    free.close()


def test_a_user_with_a_client_id_comes_before_the_user_and_the_user_before_the_client_id(
    broker: LockedBroker, topic: str
) -> None:
    """SX-30: the user's own high limit holds, though the client id's is low; and the other way round."""
    quota(broker, "set", "producer_byte_rate=1", "--client-id", "low")
    quota(broker, "set", "producer_byte_rate=1e9", "--user", "franz")
    free = Load({**broker.config("franz"), "client.id": "low"}, topic)
    caught = Load({**broker.config("other"), "client.id": "low"}, topic)
    with under_load(free, caught):
        wait_until(lambda: bool(caught.throttled_ms), "whoever has only the client id's limit waits")
        wait_until(lambda: free.sent > 1000 * len(VALUE), "the user's limit holds")
        assert not [waited for waited in free.throttled_ms if waited > 0]
        quota(broker, "set", "producer_byte_rate=1", "--user", "franz", "--client-id", "low")
        wait_until(lambda: bool(free.throttled_ms), "both together are stronger")
    for whose in (("--client-id", "low"), ("--user", "franz"), ("--user", "franz", "--client-id", "low")):
        quota(broker, "remove", *whose)


def test_a_user_reads_within_its_own_limit_though_its_client_id_has_a_lower_one(
    broker: LockedBroker, topic: str
) -> None:
    """SX-30, as the book has it: Franz reads as much as Franz may."""
    records = 50
    fill(broker, topic, records)
    quota(broker, "set", f"consumer_byte_rate={len(VALUE)}", "--client-id", "shared")
    quota(broker, "set", "consumer_byte_rate=1e9", "--user", "franz")
    throttled: dict[str, list[float]] = {"franz": [], "other": []}
    readers = {user: reader(broker, topic, user, "shared", told) for user, told in throttled.items()}
    read = Counter[str]()

    def franz_has_all_and_the_other_waits() -> bool:
        for user, consumer in readers.items():
            message = consumer.poll(0.02)
            read[user] += message is not None and message.error() is None
        return read["franz"] == records and any(waited > 0 for waited in throttled["other"])

    wait_until(franz_has_all_and_the_other_waits, "the one has read all, and the other is told to wait", 60)
    assert read["other"] < records
    assert not [waited for waited in throttled["franz"] if waited > 0]
    for consumer in readers.values():
        consumer.close()
    for whose in (("--client-id", "shared"), ("--user", "franz")):
        quota(broker, "remove", *whose)


def test_what_came_behind_a_request_beyond_the_limit_waits_as_well(broker: LockedBroker, topic: str) -> None:
    """However many requests a producer has sent ahead: only the first of them is served."""
    quota(broker, "set", "producer_byte_rate=1", "--client-id", "ahead")
    producer = Producer(
        {**broker.config("other"), "client.id": "ahead", "enable.idempotence": False, "batch.num.messages": 1}
    )
    stored: list[int] = []
    for number in range(50):
        producer.produce(topic, f"{number}", on_delivery=lambda error, message: stored.append(message.offset()))

    def first_is_stored() -> bool:
        producer.poll(0.1)
        return bool(stored)

    wait_until(first_is_stored, "the first record is stored")
    reader = Consumer({"bootstrap.servers": broker.address, "group.id": topic})
    _, end = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    reader.close()
    producer.purge()
    producer.flush(1)
    quota(broker, "remove", "--client-id", "ahead")
    assert stored[0] == 0 and end == 1


def test_a_busy_poller_waits_for_its_share_of_the_time(broker: LockedBroker, topic: str) -> None:
    """SX-31."""
    throttled: list[float] = []
    consumer = Consumer(
        {
            **broker.config("clueful"),
            "group.id": topic,
            "fetch.wait.max.ms": 0,
            "throttle_cb": lambda event: throttled.append(event.throttle_time),
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    quota(broker, "set", "request_percentage=0.01", "--user", "clueful")

    def waits() -> bool:
        consumer.poll(0.01)
        return bool(throttled)

    wait_until(waits, "the poller is told to wait", 60)
    assert metric(broker, "request_request_time", "clueful", "") > 0
    consumer.close()
    quota(broker, "remove", "--user", "clueful")


@pytest.mark.chaos
@pytest.mark.parametrize("side", ["producer", "consumer"])
def test_a_quota_is_held_within_five_percent(broker: LockedBroker, topic: str, side: str) -> None:
    """Over three times all windows, after as much time for the first burst: the middle of what the rate is, wherever in
    the course of bursts one begins to measure."""
    if side == "consumer":
        producer = Producer({"bootstrap.servers": broker.address})
        for _ in range(LIMIT * (MEASURED_SECONDS + 5 * WINDOWS_SECONDS) // len(VALUE)):
            producer.produce(topic, VALUE)
            producer.poll(0)
        assert producer.flush(60) == 0
    quota(broker, "set", f"{side}_byte_rate={LIMIT}", "--user", "franz")
    load = Load(broker.config("franz"), topic)
    consumer = Consumer(
        {
            **broker.config("franz"),
            "group.id": topic,
            "fetch.max.bytes": 100_000,
            "message.max.bytes": 100_000,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    read = 0

    def moved() -> int:
        return load.sent if side == "producer" else read

    course: list[tuple[float, int]] = []

    def spend(seconds: float) -> None:
        nonlocal read
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if side == "producer":
                load.stop.wait(0.1)
            else:
                message = consumer.poll(0.1)
                read += 0 if message is None else len(message.value() or b"")
            if not course or time.monotonic() - course[-1][0] > 0.1:
                course.append((time.monotonic(), moved()))

    with under_load(*([load] if side == "producer" else [])):
        spend(2 * WINDOWS_SECONDS)
        course.clear()
        spend(MEASURED_SECONDS + WINDOWS_SECONDS)
    rates = []
    for begun, before in course:
        later = [(at, after) for at, after in course if at >= begun + MEASURED_SECONDS]
        if later:
            rates.append((later[0][1] - before) / (later[0][0] - begun))
    rate = statistics.median(rates)
    consumer.close()
    quota(broker, "remove", "--user", "franz")
    print(f"{side}: {rate:,.0f} bytes/s of {LIMIT:,}")
    assert abs(rate - LIMIT) < TOLERANCE * LIMIT
