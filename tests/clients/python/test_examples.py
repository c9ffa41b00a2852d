"""The listings of the books in examples/clients do what the books say."""

from __future__ import annotations

import contextlib
import re
import signal
import struct
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest

from clients import (
    alerts_in_avro,
    audit,
    card_payments,
    consumer_threads,
    contacts,
    countries,
    customers,
    hello_world,
    sensor_events,
    topic_form,
    tracing,
    web_clicks,
)
from moldau import Admin
from moldau.clients.errors import DeserializationFailed
from moldau.clients.records import ConsumerRecord, OffsetAndMetadata, TopicPartition
from moldau.clients.registered import Avro
from moldau.testing.brokers import Kafka
from moldau.testing.registries import Registry
from tests.support.waiting import wait_until

EXAMPLES = Path(__file__).resolve().parents[3] / "examples" / "clients"


def test_hello_world(kafka: Kafka, topic: str) -> None:
    """AR-14, AR-18."""
    hello_world.send(kafka.bootstrap, topic)
    (line,) = islice(hello_world.read(kafka.bootstrap, topic, f"group-{topic}"), 1)
    assert line == "offset = 0, key = None, value = hello world again!"


@pytest.mark.parametrize(
    ("program", "topics"),
    [("sensor_events", ("audit", "health", "alert")), ("treasure_hunt", ("clueful_secrets",))],
)
def test_a_program_keeps_to_topics_with_its_prefix(
    kafka: Kafka, topic: str, program: str, topics: Sequence[str]
) -> None:
    with Admin({"bootstrap.servers": kafka.bootstrap}) as admin:
        before = set(admin.list_topics())
        subprocess.run(
            [sys.executable, EXAMPLES / f"{program}.py", kafka.bootstrap, f"{topic}-"],
            check=True,
            capture_output=True,
            timeout=60,
        )
        assert set(admin.list_topics()) - before == {f"{topic}-{each}" for each in topics}


def test_sensor_events(kafka: Kafka, wide_topic: str, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    """PAR-05, SE-14, SE-15, SE-17."""
    said = sensor_events.audit(kafka.bootstrap, topic, "admin switched stage 1 on")
    assert re.fullmatch(rf"offset = 0, topic = {topic}, timestamp = \d+", said)
    info = [sensor_events.Alert(number, f"Stage {number % 9}", "INFO", "working") for number in range(100)]
    critical = [sensor_events.Alert(number, "Stage 1", "CRITICAL", f"stopped {number}") for number in range(10)]
    sensor_events.raise_alerts(kafka.bootstrap, wide_topic, [*info, *critical])
    assert sensor_events.critical_alerts(kafka.bootstrap, wide_topic, 10) == [each.alert_message for each in critical]
    health = kafka.topic(partitions=3)
    sensor_events.health(kafka.bootstrap, health, info)
    places: dict[bytes, set[int]] = {}
    with kafka.consumer() as consumer:
        consumer.assign([TopicPartition(health, number) for number in range(3)])
        for record in islice(consumer.records(20.0), 100):
            places.setdefault(record.key, set()).add(record.partition)
    assert len(places) == 9
    assert all(len(found) == 1 for found in places.values())
    assert capsys.readouterr().out == ""


def test_web_clicks_and_their_replay(kafka: Kafka, topic: str) -> None:
    """CO-02, CO-03, CO-20."""
    with kafka.producer(value_serializer="integer") as producer:
        for value in (10, 20):
            producer.send(topic, value)
    for group, factor, expected in (("a", 1.543, {0: 15.43, 1: 30.86}), ("b", 2.0, {0: 20.0, 1: 40.0})):
        clicks = web_clicks.WebClickConsumer(kafka.bootstrap, topic, f"{group}-{topic}", factor)
        thread = threading.Thread(target=clicks.consume)
        thread.start()
        with clicks.changed:
            assert clicks.changed.wait_for(lambda clicks=clicks: len(clicks.results) == 2, 60)
        clicks.shutdown()
        thread.join(60)
        assert not thread.is_alive()
        assert clicks.results == expected
        with kafka.admin() as admin:
            assert admin.describe_consumer_groups(f"{group}-{topic}")[f"{group}-{topic}"].state == "EMPTY"


def test_an_interrupted_program_commits_and_leaves_its_group(kafka: Kafka, topic: str) -> None:
    """THR-03."""
    clicks, group = kafka.topic(f"{topic}-webclicks"), f"{topic}-helloconsumer"
    with kafka.producer(value_serializer="integer") as producer:
        for value in (10, 20):
            producer.send(clicks, value)
    command = [sys.executable, "-u", EXAMPLES / "web_clicks.py", kafka.bootstrap, f"{topic}-"]
    with contextlib.ExitStack() as ending:
        process = ending.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        ending.callback(process.kill)
        assert process.stdout is not None
        lines = list(islice(process.stdout, 2))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert lines == ["offset = 0, value = 15.43\n", "offset = 1, value = 30.86\n"]
    with kafka.admin() as admin:
        assert admin.describe_consumer_groups(group)[group].state == "EMPTY"
        # The second record counts only where the program had asked for a third when it was interrupted.
        assert admin.list_consumer_group_offsets(group)[TopicPartition(clicks, 0)].offset in (1, 2)


def test_tracing(kafka: Kafka, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    """TR-02, TR-03, TR-05."""
    tracing.send(kafka.bootstrap, topic)
    tracing.read(kafka.bootstrap, topic, 20.0)
    created, acknowledged, found = capsys.readouterr().out.splitlines()
    assert acknowledged == f"ack'ed topic={topic}, partition=0, offset=0"
    assert found == created.replace("Created traceId:", "TraceId is:")


def test_customers_with_a_serializer_of_their_own(kafka: Kafka, topic: str) -> None:
    """SER-02, SER-03, DES-02, DES-03."""
    bob = customers.Customer(1, "Bob")
    with kafka.producer(value_serializer=customers.CustomerSerde) as producer:
        producer.send(topic, bob)
    assert kafka.values(topic, 1) == [bytes.fromhex("0000000100000003426f62")]
    assert kafka.values(topic, 1, value_deserializer="clients.customers:CustomerSerde") == [bob]
    with kafka.producer() as producer:
        producer.send(topic, b"short")
    with pytest.raises(DeserializationFailed, match="at least 8 bytes"):
        kafka.values(topic, 2, value_deserializer=customers.CustomerSerde)


START_DATE = {"name": "startDate", "type": "string", "default": ""}


class LaterCustomerSerde(customers.CustomerSerde):
    """The id has become a long, as the book warns."""

    def serialize(self, topic: str, value: customers.Customer | None) -> bytes | None:
        assert value is not None
        name = (value.name or "").encode()
        return struct.pack(">qi", value.customer_id, len(name)) + name


def test_a_layout_of_one_s_own_breaks_its_readers_and_avro_does_not(
    kafka: Kafka, registry: Registry, topic: str
) -> None:
    """SER-04, AV-04."""
    alice = customers.Customer(7, "Alice")
    with kafka.producer(value_serializer=LaterCustomerSerde) as producer:
        producer.send(topic, alice)
    misread = kafka.values(topic, 1, value_deserializer=customers.CustomerSerde)
    assert misread == [customers.Customer(0, "\0\0\0\5Ali")], "the reader of before is not even told"

    avro, later = kafka.topic(), Avro({**customers.SCHEMA, "fields": [*customers.SCHEMA["fields"], START_DATE]})
    for schema, more in ((Avro(customers.SCHEMA), {}), (later, {"startDate": "2017-01-01"})):
        with kafka.producer(registry.properties, value_serializer=schema) as producer:
            producer.send(avro, {"id": 7, "name": "Alice", "email": None, **more})
    before = {"id": 7, "name": "Alice", "email": None}
    read = {"old": Avro(customers.SCHEMA), "new": later}
    found = {name: kafka.values(avro, 2, **registry.properties, value_deserializer=each) for name, each in read.items()}
    assert found == {"old": [before] * 2, "new": [{**before, "startDate": day} for day in ("", "2017-01-01")]}


def test_events_are_smaller_in_avro_than_in_json(kafka: Kafka, registry: Registry) -> None:
    """MSG-11: the schema stands apart from the values: field names are not in them."""
    events = [{"id": number, "name": f"exampleCustomer{number}", "email": f"e{number}@x.org"} for number in range(50)]
    size: dict[str, int] = {}
    for serializer in ("json", Avro(customers.SCHEMA)):
        topic, kind = kafka.topic(), str(getattr(serializer, "kind", serializer)).lower()
        with kafka.producer(registry.properties, value_serializer=serializer) as producer:
            for event in events:
                producer.send(topic, event)
        assert kafka.values(topic, 50, value_deserializer=kind, **registry.properties) == events
        size[kind] = sum(map(len, kafka.values(topic, 50)))
    assert size["avro"] < size["json"] / 1.5


def test_countries_are_counted_once_while_members_come_and_go(kafka: Kafka) -> None:
    """GRP-01, GRP-20, PAR-06, CON-09."""
    topic, total = kafka.topic(partitions=4), Counter[str]()
    members: list[tuple[countries.CountryCounter, threading.Thread]] = []

    def settle(sizes: list[int]) -> None:
        """Members get what the book says."""
        while len(members) < len(sizes):
            member = countries.CountryCounter(kafka.bootstrap, topic)
            members.append((member, threading.Thread(target=member.run)))
            members[-1][1].start()
        while len(members) > len(sizes):
            member, thread = members.pop()
            member.stop()
            thread.join(60)
            total.update(member.counts)
        wait_until(lambda: sorted(len(each.partitions) for each, _ in members) == sizes, f"partitions {sizes}", 120)

    for round_, sizes in enumerate([[4], [2, 2], [1, 1, 1, 1], [0, 1, 1, 1, 1], [2, 2]]):
        settle(sizes)
        customers_ = [(f"customer {number}", "France" if number % 5 < 3 else "USA") for number in range(100)]
        countries.send(kafka.bootstrap, topic, [*customers_, *[("Banana", "Brazil")] * 20])
        wanted = 120 * (round_ + 1)
        wait_until(
            lambda wanted=wanted: total.total() + sum(each.counts.total() for each, _ in members) >= wanted,
            f"{wanted} customers are counted",
            60,
        )
    settle([])
    assert total == {"France": 300, "USA": 200, "Brazil": 100}
    with kafka.consumer(key_deserializer="string") as consumer:
        consumer.assign([TopicPartition(topic, 3)])
        assert {record.key for record in islice(consumer.records(20.0), 100)} == {"Banana"}


def test_every_payment_gets_one_decision_whenever_the_engine_dies(kafka: Kafka, wide_topic: str) -> None:
    decisions, alerts = kafka.topic(partitions=3), kafka.topic()
    payments = [{"id": f"p{number}", "amount": (number * 7919) % 60_000} for number in range(300)]
    with kafka.producer(key_serializer="string", value_serializer="json") as producer:
        for payment in payments:
            producer.send(wide_topic, payment, payment["id"])
    places = (kafka.bootstrap, wide_topic, decisions, alerts)
    for crash in (0, 7, 120):
        with pytest.raises(RuntimeError, match="died"):
            card_payments.decide(*places, idle_seconds=60.0, die_after=crash)
    card_payments.decide(*places, idle_seconds=5.0)
    found = kafka.values(decisions, 300, value_deserializer="json", isolation_level="read_committed")
    assert sorted(each["id"] for each in found) == sorted(each["id"] for each in payments)
    assert all((each["decision"] == "approved") == (0 < each["amount"] <= card_payments.LARGEST) for each in found)
    large = {each["id"] for each in payments if card_payments.LIMIT < each["amount"] <= card_payments.LARGEST}
    told = kafka.values(alerts, len(large), value_deserializer="json", isolation_level="read_committed")
    assert {each["id"] for each in told} == large


@pytest.fixture(scope="module")
def registry(kafka: Kafka) -> Iterator[Registry]:
    with Registry(
        kafka.bootstrap, {"kafkastore.topic": "_of_examples", "schema.registry.group.id": "examples"}
    ) as found:
        yield found


def test_fax_numbers_give_way_to_email(kafka: Kafka, registry: Registry, topic: str) -> None:
    """AVR-02, AVR-03, AVR-04, MSG-12, SR-01."""
    place = (kafka.bootstrap, registry.url, topic)
    contacts.send(*place, contacts.OLD, [{"id": 1, "name": "Ann", "faxNumber": "555-1"}])
    contacts.send(*place, contacts.NEW, [{"id": 2, "name": "Bob", "email": "b@x"}])
    assert contacts.read(*place, contacts.OLD, 2) == [
        {"id": 1, "name": "Ann", "faxNumber": "555-1"}, {"id": 2, "name": "Bob", "faxNumber": None},
    ]  # fmt: skip
    assert contacts.read(*place, contacts.NEW, 2) == [
        {"id": 1, "name": "Ann", "email": None}, {"id": 2, "name": "Bob", "email": "b@x"},
    ]  # fmt: skip
    assert registry.client().ask(f"/subjects/{topic}-value/versions/latest")["version"] == 2


def test_customers_with_avro(kafka: Kafka, registry: Registry, topic: str) -> None:
    """AVR-09, AVR-11, CCF-18."""
    customers.send_generic(kafka.bootstrap, registry.url, topic, 10)
    found = customers.read_generic(kafka.bootstrap, registry.url, topic, 10)
    assert found[3] == {"id": 3, "name": "exampleCustomer3", "email": "example3@example.com"}
    assert registry.client().version(f"{topic}-value").kind == "AVRO"
    settings = {**registry.properties, "group.id": topic, "enable.auto.commit": False}
    with kafka.consumer(settings, value_deserializer="avro") as consumer:
        consumer.subscribe(topic)
        names = [record.value["name"] for record in islice(consumer.records(20.0), 10)]
        consumer.commit()
        assert consumer.committed([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): OffsetAndMetadata(10)}
    assert names == [f"exampleCustomer{number}" for number in range(10)]


def test_an_alert_in_avro_under_the_number_of_its_sensor(kafka: Kafka, registry: Registry, topic: str) -> None:
    """AV-07, MSG-03."""
    assert alerts_in_avro.send(kafka.bootstrap, registry.url, topic) == 0
    ((key, alert),) = alerts_in_avro.read(kafka.bootstrap, registry.url, topic)
    assert (key, alert["sensor_id"], alert["status"]) == (12345, 12345, "Critical")
    with kafka.consumer() as consumer:
        consumer.assign([(topic, 0)])
        assert next(consumer.records(20.0)).key == (12345).to_bytes(8, "big")


def test_the_audit_names_what_was_not_processed(kafka: Kafka, topic: str) -> None:
    """TR-01, TR-06."""
    log = kafka.topic()
    with kafka.producer() as producer:
        for number in range(6):
            producer.send(topic, b"v", headers=[(audit.ID, f"event-{number}")])
    spans = audit.process(kafka.bootstrap, topic, log, skip=["event-3"])
    assert [each.event for each in spans] == [f"event-{number}" for number in range(6)]
    assert spans[3].notes == {"place": f"{topic}-0@3"}
    assert audit.missing(kafka.bootstrap, topic, log) == ["event-3"]


@pytest.mark.parametrize("kind", ["consumers", "workers", "both"])
def test_several_threads_read_a_topic(kafka: Kafka, wide_topic: str, kind: str) -> None:
    """THR-04, THR-05, THR-06."""
    with kafka.producer() as producer:
        for number in range(60):
            producer.send(wide_topic, b"%d" % number, partition=number % 3)
    seen: list[tuple[int, int]] = []
    stop = threading.Event()

    def handle(record: ConsumerRecord) -> None:
        seen.append((record.partition, record.offset))
        if len(seen) == 60:
            stop.set()

    settings = {**kafka.properties, "group.id": f"{kind}-{wide_topic}", "auto.offset.reset": "earliest"}
    match kind:
        case "consumers":
            consumer_threads.consumer_per_thread(settings, wide_topic, handle, 2, stop)
            for partition in range(3):
                assert [offset for place, offset in seen if place == partition] == list(range(20))
        case "workers":
            consumer_threads.queue_and_workers(settings, wide_topic, handle, 8, stop)
        case _:
            consumer_threads.few_consumers_many_workers(settings, wide_topic, handle, 2, 4, stop)
    assert sorted(seen) == [(partition, offset) for partition in range(3) for offset in range(20)]
    with kafka.admin() as admin:
        committed = admin.list_consumer_group_offsets(f"{kind}-{wide_topic}")
    assert {place.partition: each.offset for place, each in committed.items()} == dict.fromkeys(range(3), 20)


def test_only_what_is_finished_without_a_gap_is_committed(kafka: Kafka, topic: str) -> None:
    """THR-05."""
    with kafka.producer() as producer:
        for _ in range(4):
            producer.send(topic, b"v")
    finished = consumer_threads.Finished()
    with kafka.consumer() as consumer:
        consumer.assign([(topic, 0)])
        records = list(islice(consumer.records(20.0), 4))
    for record in records:
        finished.begin(record)
    for number, expected in ((1, {}), (0, {TopicPartition(topic, 0): 2}), (3, {TopicPartition(topic, 0): 2})):
        finished.end(records[number])
        assert finished.offsets() == expected


def test_a_form_makes_topics_whose_names_follow_the_rule(kafka: Kafka, topic: str) -> None:
    """AD-04."""
    name = f"kitchen.{topic}"

    def submit(url: str, **fields: str) -> int:
        try:
            with urllib.request.urlopen(url, urllib.parse.urlencode(fields).encode(), timeout=60) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    with topic_form.server(kafka.bootstrap) as form:
        thread = threading.Thread(target=form.serve_forever)
        thread.start()
        url = f"http://localhost:{form.server_port}/"
        with urllib.request.urlopen(url, timeout=60) as answer:
            assert "<form" in answer.read().decode()
        assert submit(url, name=name, partitions="2", replicas="1") == 201
        assert submit(url, name=name, partitions="2", replicas="1") == 409
        assert submit(url, name="Kitchen!", partitions="2") == 422
        assert submit(url, name=f"{name}-b", partitions="many") == 422
        form.shutdown()
        thread.join()
    with kafka.admin() as admin:
        assert len(admin.describe_topics(name)[name].partitions) == 2
        assert f"{name}-b" not in admin.list_topics()
