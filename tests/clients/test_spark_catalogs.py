"""What Spark's driver asks a cluster: the small client and librdkafka give the same answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, Producer
from confluent_kafka.admin import AdminClient

from moldau.client.settings import ClientSettings
from moldau.spark.errors import ClusterUnavailable
from moldau.spark.planning.catalog import Catalog, WireCatalog
from moldau.spark.planning.librdkafka_catalog import LibrdkafkaCatalog
from moldau.spark.planning.offsets import EARLIEST, LATEST
from moldau.types.ids import TopicPartition
from tests.support.admin import admin_client, create_topic, delete_records, delete_topic
from tests.support.process import BrokerProcess

FIRST_MS = 1_700_000_000_000
CATALOGS = ("small client", "librdkafka")


def made(kind: str, properties: dict[str, str]) -> Catalog:
    settings = ClientSettings.from_properties(properties)
    return WireCatalog(settings) if kind == CATALOGS[0] else LibrdkafkaCatalog(settings, properties)


@pytest.fixture(params=CATALOGS)
def catalog(request: pytest.FixtureRequest, address: str) -> Iterator[Catalog]:
    opened = made(request.param, {"bootstrap.servers": address})
    yield opened
    opened.close()


def test_topics_and_their_offsets(catalog: Catalog, address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic, 2, {"retention.ms": -1})
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(4):
        producer.produce(topic, b"x", partition=0, timestamp=FIRST_MS + number)
    producer.commit_transaction(30)
    producer.begin_transaction()
    producer.produce(topic, b"undecided", partition=0, timestamp=FIRST_MS + 9)
    assert producer.flush(30) == 0
    delete_records(admin, topic, 1)
    full, empty, gone = (TopicPartition(topic, partition) for partition in (0, 1, 7))

    (view,) = catalog.topics(frozenset({topic, f"{topic}-missing"})).values()
    assert list(view.leaders) == [0, 1]
    assert view.topic_id is not None
    assert view == catalog.topics(None)[topic]
    assert catalog.offsets({full: EARLIEST, empty: EARLIEST, gone: EARLIEST}, committed=True) == {full: 1, empty: 0}
    assert catalog.offsets({full: LATEST, empty: LATEST}, committed=True) == {full: 5, empty: 0}
    assert catalog.offsets({full: LATEST}, committed=False) == {full: 6}
    assert catalog.offsets({full: FIRST_MS + 2, empty: FIRST_MS}, committed=True) == {full: 2, empty: -1}
    # The commit marker at offset 4 bears the time of today.
    assert catalog.offsets({full: FIRST_MS + 9}, committed=False) == {full: 4}
    assert catalog.offsets({}, committed=True) == {}
    producer.abort_transaction(30)
    delete_topic(admin, topic)
    assert catalog.offsets({full: LATEST}, committed=True) == {}
    assert catalog.topics(frozenset({topic})) == {}


def test_offsets_are_published_without_joining(catalog: Catalog, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic, 2)
    for offset in (3, 5):
        catalog.publish(f"{topic}-group", {TopicPartition(topic, 1): offset, TopicPartition(topic, 0): 0})
    (group,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(f"{topic}-group")]).values()
    found = {each.partition: each.offset for each in group.result(30).topic_partitions}
    assert found == {0: 0, 1: 5}
    (described,) = admin.describe_consumer_groups([f"{topic}-group"]).values()
    assert described.result(30).members == []


@pytest.mark.parametrize("kind", CATALOGS)
def test_a_cluster_that_goes_away(kind: str, own_broker: Callable[..., BrokerProcess], topic: str) -> None:
    broker = own_broker()
    create_topic(admin_client(broker.address), topic)
    catalog = made(kind, {"bootstrap.servers": broker.address, "default.api.timeout.ms": "1000"})
    place = TopicPartition(topic, 0)
    try:
        assert catalog.topics(frozenset({topic}))
        assert catalog.offsets({place: LATEST}, committed=True) == {place: 0}
        broker.kill()
        for ask in (
            lambda: catalog.offsets({place: LATEST}, committed=True),
            lambda: catalog.topics(frozenset({topic})),
            lambda: catalog.topics(None),
        ):
            with pytest.raises(ClusterUnavailable, match=rf"no answer .*\({broker.address}\).*then start again"):
                ask()
    finally:
        catalog.close()


@pytest.mark.parametrize("kind", CATALOGS)
def test_a_cluster_that_is_away(kind: str) -> None:
    nobody = made(kind, {"bootstrap.servers": "127.0.0.1:9", "default.api.timeout.ms": "500"})
    with pytest.raises(ClusterUnavailable, match=r"127\.0\.0\.1:9"):
        nobody.topics(frozenset({"t"}))
