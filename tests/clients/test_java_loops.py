"""Apache Kafka's own producer (transaction version 2), which begins the next transaction right behind the answer to the
end of the last one: its first batch arrives while the markers are under way.

For long no other test came there, so a broker that refused such a batch for good (INVALID_TXN_STATE) passed them all.
librdkafka announces its partitions first and waits until it is told that they are added: it never lets the batch itself
add them. Kafka's copier (test_java_transactions) pauses between its transactions. The property tests looked for safety
alone: a write that was refused counted as a failed transaction, which is always allowed, so a broker that refuses all
would have passed. Hence test_transaction_succession, which wants progress too, and the tight loops here.

Beyond the flush before each commit, which keeps a race of the client itself away (TransactionLoop tells of it, with
what was counted on both brokers), the client begins the commit with its batch unsent: one producer does so here.

The programs are tests/peers/java; set-up's Java and the client's jars from Maven are all they need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.test_transactions import values
from tests.peers.java_programs import CLIENTS, run
from tests.support.admin import create_topic
from tests.support.clients import Confluent, Message
from tests.support.waiting import wait_until

TRANSACTIONS = 3000
#: More than a producer id has epochs.
MANY_TRANSACTIONS = 40_000
UNFLUSHED_TRANSACTIONS = 10_000
ABORTS = 7
LOOP_SECONDS = 1200.0
PARTITIONS = 3
COPIED = 1500
MEMBERS = 3
RECORDS = 5
GROUPS = ("classic", "classic-static", "consumer", "consumer-static")


def loop(address: str, topic: str, count: int, **options: object) -> list[str]:
    given = {"bootstrap": address, "topic": topic, "id": topic, "count": count, **options}
    return run("TransactionLoop", CLIENTS, *(f"{key}={value}" for key, value in given.items()), seconds=LOOP_SECONDS)


def numbers(count: int, aborts: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(count) if not aborts or number % aborts != aborts - 1]


def test_transactions_without_a_pause(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic)
    printed = loop(address, topic, TRANSACTIONS, abort=ABORTS)
    wanted = numbers(TRANSACTIONS, ABORTS)
    assert printed[0] == f"committed {len(wanted)}"
    wait_until(lambda: values(address, topic) == wanted, "the last markers are written")


@pytest.mark.live
@pytest.mark.timeout(LOOP_SECONDS)
def test_more_transactions_than_an_id_has_epochs(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic)
    printed = loop(address, topic, MANY_TRANSACTIONS, abort=ABORTS)
    wanted = numbers(MANY_TRANSACTIONS, ABORTS)
    assert printed[0] == f"committed {len(wanted)}"
    wait_until(lambda: values(address, topic) == wanted, "the last markers are written")


@pytest.mark.live
@pytest.mark.timeout(LOOP_SECONDS)
def test_the_end_is_asked_for_right_behind_the_send(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic)
    printed = loop(address, topic, UNFLUSHED_TRANSACTIONS, abort=ABORTS, flush="false")
    wanted = numbers(UNFLUSHED_TRANSACTIONS, ABORTS)
    assert printed[0] == f"committed {len(wanted)}"
    wait_until(lambda: values(address, topic) == wanted, "the last markers are written")


@pytest.mark.live
def test_eight_producers_without_a_pause(address: str, admin: AdminClient, topic: str) -> None:
    create_topic(admin, topic, 8)
    printed = loop(address, topic, TRANSACTIONS // 6, abort=ABORTS, producers=8)
    wanted = numbers(TRANSACTIONS // 6, ABORTS)
    assert printed[:-1] == [f"committed {len(wanted)}"] * 8
    wait_until(lambda: values(address, topic, 8) == wanted * 8, "the last markers are written")


def copied_by_groups(
    address: str, admin: AdminClient, topic: str, copy: Callable[[Sequence[str]], Sequence[str]]
) -> None:
    """Lets a program copy the topic by members of groups of every protocol, and looks at what came of it."""
    create_topic(admin, topic, PARTITIONS)
    wanted = []
    for index in range(PARTITIONS):
        messages = [Message(b"%d of %d" % (number, index)) for number in range(COPIED // PARTITIONS)]
        Confluent().produce(address, topic, messages, partition=index)
        wanted += [message.value for message in messages]
    for group in GROUPS:
        create_topic(admin, f"{topic}-{group}", PARTITIONS)
    given = {"bootstrap": address, "input": topic, "count": COPIED, "members": MEMBERS, "records": RECORDS,
             "groups": ",".join(GROUPS)}  # fmt: skip
    printed = copy([f"{key}={value}" for key, value in given.items()])
    assert [line.split()[0] for line in printed] == list(GROUPS)
    assert all(int(line.split()[1]) >= COPIED // RECORDS for line in printed)
    for group in GROUPS:
        target = f"{topic}-{group}"
        wait_until(lambda target=target: values(address, target, PARTITIONS) == wanted, "the last markers are written")


def test_members_of_every_protocol_copy_in_short_transactions(address: str, admin: AdminClient, topic: str) -> None:
    copied_by_groups(address, admin, topic, lambda arguments: run("TransformLoop", CLIENTS, *arguments))
