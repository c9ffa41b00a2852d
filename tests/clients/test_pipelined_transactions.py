"""Short transactions one behind the other by a client that pipelines, in both versions of transactions."""

from __future__ import annotations

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.test_transactions import reader, values
from tests.support.admin import SECONDS, create_topic
from tests.support.pipelined_transactions import PipelinedProducer
from tests.support.waiting import wait_until

TRANSACTIONS = 300
ABORTS = 5
PARTITIONS = 3


def committed(address: str, group: str, topic: str) -> int:
    consumer = reader(address, **{"group.id": group})
    try:
        return int(consumer.committed([confluent_kafka.TopicPartition(topic, 0)], timeout=SECONDS)[0].offset)
    finally:
        consumer.close()


@pytest.mark.parametrize("version", [1, 2])
def test_first_requests_are_sent_while_markers_are_under_way(
    address: str, admin: AdminClient, topic: str, version: int
) -> None:
    create_topic(admin, topic, PARTITIONS)
    wanted = []
    with PipelinedProducer(address, topic, version, topic, PARTITIONS) as producer:
        for number in range(TRANSACTIONS):
            commit = number % ABORTS != ABORTS - 2
            producer.transaction(b"%d" % number, number, commit)
            if commit:
                wanted.append(b"%d" % number)
        producer.finish()
    wait_until(lambda: values(address, topic, PARTITIONS) == wanted * PARTITIONS, "the last markers are written")
    assert committed(address, producer.group, topic) == TRANSACTIONS - 1
