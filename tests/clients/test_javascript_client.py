"""KafkaJS, a client in JavaScript that shares no code with others: short transactions, one behind the other.

Its program is tests/peers/node; npm fetches the client.
"""

from __future__ import annotations

import json

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.test_pipelined_transactions import committed
from tests.clients.test_transactions import values
from tests.peers.node_programs import run
from tests.support.admin import create_topic
from tests.support.clients import Confluent, Message
from tests.support.waiting import wait_until

pytestmark = pytest.mark.live

PARTITIONS = 3
RECORDS = 1500
AT_ONCE = 5
ABORT = 7


def test_a_topic_is_copied_in_short_transactions(address: str, admin: AdminClient, topic: str) -> None:
    target = f"{topic}-copy"
    create_topic(admin, topic, PARTITIONS)
    create_topic(admin, target, PARTITIONS)
    wanted = []
    for index in range(PARTITIONS):
        messages = [Message(b"%d of %d" % (number, index)) for number in range(RECORDS // PARTITIONS)]
        Confluent().produce(address, topic, messages, partition=index)
        wanted += [message.value for message in messages]
    (printed,) = run("transactions", address, topic, target, RECORDS, AT_ONCE, ABORT)
    told = json.loads(printed)
    assert told["committed"] >= RECORDS // AT_ONCE
    assert told["aborted"] >= told["committed"] // ABORT
    wait_until(lambda: values(address, target, PARTITIONS) == wanted, "the last markers are written")
    assert committed(address, target, topic) == RECORDS // PARTITIONS
