"""Groups of `group.protocol=consumer` with real consumers: they join, leave, die, pause; every record is delivered, and
assignments are what the books print.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.clients.conftest import StartBroker
from tests.peers.apache_kafka import TOOLS, java_tool
from tests.support.admin import admin_client
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

#: A broker on which groups come to rest in fractions of a second.
QUICK = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 100,
    "group.consumer.min.session.timeout.ms": 3000,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.assignment.interval.ms": 50,
}
REST_SECONDS = 40.0
#: Commits that a rebalance or a restart overtook: whoever has the partition then reads the record again.
OVERTAKEN = {
    "STALE_MEMBER_EPOCH", "UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "REBALANCE_IN_PROGRESS",
    "NOT_COORDINATOR", "_NO_OFFSET", "_TIMED_OUT", "_TRANSPORT",
}  # fmt: skip


class Member:
    """A consumer that polls in a thread of its own, as an application does."""

    def __init__(self, address: str, group: str, topics: Sequence[str], **settings: object) -> None:
        self.consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": group,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 500,
                "log_level": 0,
                **settings,
            }
        )
        self.seen: list[tuple[str, int, int]] = []
        self.owned: set[str] = set()
        self.refused: set[str] = set()
        self._stopping = threading.Event()
        self.consumer.subscribe(list(topics), on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {f"{each.topic}-{each.partition}" for each in partitions}

    def _revoked(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {f"{each.topic}-{each.partition}" for each in partitions}

    def _run(self) -> None:
        while not self._stopping.is_set():
            message = self.consumer.poll(0.05)
            if message is None or message.error() is not None:
                continue
            self.seen.append((message.topic(), message.partition(), message.offset()))
            try:
                self.consumer.commit(message=message, asynchronous=False)
            except KafkaException as error:
                self.refused.add(error.args[0].name())

    def leave(self) -> None:
        self._stopping.set()
        self._thread.join()
        self.consumer.close()
        self.owned = set()
        assert self.refused <= OVERTAKEN


@contextmanager
def members(address: str, group: str, topics: Sequence[str], count: int, **settings: object) -> Iterator[list[Member]]:
    with ExitStack() as stack:
        joined = []
        for _ in range(count):
            joined.append(Member(address, group, topics, **settings))
            stack.callback(joined[-1].leave)
        yield joined


def rest(
    joined: Sequence[Member], topics: dict[str, int], is_right: Callable[[list[set[str]]], bool] | None = None
) -> None:
    """Waits until every partition has exactly one owner, and the assignment is what is asked for."""
    wanted = sorted(f"{topic}-{index}" for topic, count in topics.items() for index in range(count))

    def come_to_rest() -> bool:
        owned = [set(member.owned) for member in joined]
        return sorted(place for each in owned for place in each) == wanted and (is_right is None or is_right(owned))

    wait_until(come_to_rest, f"one owner for each of {wanted}, among {joined}", REST_SECONDS)


def evenly(owned: list[set[str]]) -> bool:
    return max(map(len, owned)) - min(map(len, owned)) <= 1


def produce(address: str, topics: dict[str, int], each: int, start: int = 0) -> set[tuple[str, int, int]]:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5, "log_level": 0})
    for topic, count in topics.items():
        for index in range(count):
            for number in range(each):
                producer.produce(topic, b"%d" % number, partition=index)
    assert producer.flush(30) == 0
    return {
        (topic, index, start + number)
        for topic, count in topics.items()
        for index in range(count)
        for number in range(each)
    }


def create(address: str, topics: dict[str, int]) -> AdminClient:
    admin = admin_client(address)
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in topics.items()]).values():
        future.result(30)
    return admin


def delivered(joined: Sequence[Member], sent: set[tuple[str, int, int]]) -> None:
    wait_until(
        lambda: sent <= {place for member in joined for place in list(member.seen)}, "every record", REST_SECONDS
    )


@pytest.fixture
def quick(own_broker: StartBroker) -> BrokerProcess:
    return own_broker(**QUICK)


@pytest.mark.parametrize("count", [2, 5])
def test_members_share_the_partitions(quick: BrokerProcess, count: int) -> None:
    """Every partition has one owner, shares differ by one at most, every record is delivered once."""
    topics = {"shared": 12}
    create(quick.address, topics)
    with members(quick.address, "sharing", list(topics), count) as joined:
        rest(joined, topics, evenly)
        sent = produce(quick.address, topics, 20)
        delivered(joined, sent)
        assert sorted(place for member in joined for place in member.seen) == sorted(sent)


def test_members_join_and_leave_while_records_flow(quick: BrokerProcess) -> None:
    topics = {"flowing": 6}
    create(quick.address, topics)
    sent = produce(quick.address, topics, 50)
    with members(quick.address, "changing", list(topics), 2) as first:
        rest(first, topics, evenly)
        with members(quick.address, "changing", list(topics), 2) as second:
            rest([*first, *second], topics, evenly)
            sent |= produce(quick.address, topics, 50, start=50)
        rest(first, topics, evenly)
        sent |= produce(quick.address, topics, 50, start=100)
        delivered([*first, *second], sent)


def test_range_assigns_as_printed(quick: BrokerProcess) -> None:
    """GRP-15: two topics of three partitions, two consumers; blocks of each topic."""
    topics = {"t1": 3, "t2": 3}
    create(quick.address, topics)
    first = {f"{topic}-{index}" for topic in topics for index in (0, 1)}
    second = {f"{topic}-2" for topic in topics}
    settings = {"group.remote.assignor": "range"}
    with members(quick.address, "range", list(topics), 2, **settings) as joined:
        rest(joined, topics, lambda owned: sorted(map(sorted, owned)) == sorted([sorted(first), sorted(second)]))


def test_range_leaves_a_third_member_empty(quick: BrokerProcess) -> None:
    """GRP-15: A and B of two partitions, three consumers."""
    topics = {"A": 2, "B": 2}
    create(quick.address, topics)
    printed = [[], ["A-0", "B-0"], ["A-1", "B-1"]]
    with members(quick.address, "range", list(topics), 3, **{"group.remote.assignor": "range"}) as joined:
        rest(joined, topics, lambda owned: sorted(map(sorted, owned)) == printed)


def test_a_leaving_member_moves_only_its_own_partitions(quick: BrokerProcess) -> None:
    """GRP-16, GRP-17: counts differ by one at most; whoever stays keeps what it has."""
    topics = {"sticky": 9}
    create(quick.address, topics)
    with members(quick.address, "sticky", list(topics), 2) as staying:
        with members(quick.address, "sticky", list(topics), 1) as leaving:
            rest([*staying, *leaving], topics, evenly)
            before = [set(member.owned) for member in staying]
        rest(staying, topics, evenly)
        assert all(had <= member.owned for had, member in zip(before, staying, strict=True))


def test_topics_by_expression(quick: BrokerProcess) -> None:
    """Topics that match later are found, those that do not match never."""
    topics = {"log-a": 2, "log-b": 2}
    create(quick.address, {**topics, "other": 2})
    with members(quick.address, "by-regex", ["^log-.*"], 2) as joined:
        rest(joined, topics, evenly)
        later = {"log-c": 3}
        create(quick.address, later)
        rest(joined, topics | later)
        delivered(joined, produce(quick.address, topics | later, 10))


def test_topics_grow_and_go(quick: BrokerProcess) -> None:
    admin = create(quick.address, {"growing": 2, "going": 2})
    with members(quick.address, "growth", ["growing", "going"], 2) as joined:
        rest(joined, {"growing": 2, "going": 2}, evenly)
        admin.create_partitions([NewPartitions("growing", 6)])["growing"].result(30)
        rest(joined, {"growing": 6, "going": 2}, evenly)
        admin.delete_topics(["going"])["going"].result(30)
        rest(joined, {"growing": 6}, evenly)


KILLED = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer"})
consumer.subscribe([sys.argv[3]])
told = False
while True:
    consumer.poll(0.05)
    if consumer.assignment() and not told:
        told = True
        print("assigned", flush=True)
"""


@contextmanager
def victim(address: str, group: str, topic: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", KILLED, address, group, topic], stdout=subprocess.PIPE)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def wait_for_assignment(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == b"assigned\n"


def test_a_killed_member_is_replaced(quick: BrokerProcess) -> None:
    """Its session ends, and the others take over."""
    topics = {"inherited": 4}
    create(quick.address, topics)
    with members(quick.address, "killing", list(topics), 1) as survivors:
        rest(survivors, topics)
        with victim(quick.address, "killing", "inherited") as process:
            wait_for_assignment(process)
            process.kill()
            rest(survivors, topics)
        delivered(survivors, produce(quick.address, topics, 10))


def test_a_paused_member_is_fenced_and_comes_back(quick: BrokerProcess) -> None:
    topics = {"paused": 4}
    create(quick.address, topics)
    with members(quick.address, "pausing", list(topics), 1) as joined:
        with victim(quick.address, "pausing", "paused") as process:
            wait_for_assignment(process)
            os.kill(process.pid, signal.SIGSTOP)
            rest(joined, topics)
            os.kill(process.pid, signal.SIGCONT)
            wait_until(lambda: len(joined[0].owned) == 2, "the paused member has its half again", REST_SECONDS)
        rest(joined, topics)


def test_a_static_member_keeps_its_place(quick: BrokerProcess) -> None:
    """It leaves and comes back within its session: nothing moves."""
    topics = {"static": 4}
    create(quick.address, topics)
    with members(quick.address, "static", list(topics), 1, **{"group.instance.id": "one"}) as first:
        with members(quick.address, "static", list(topics), 1, **{"group.instance.id": "two"}) as second:
            rest([*first, *second], topics, evenly)
            had, others = set(second[0].owned), set(first[0].owned)
        with members(quick.address, "static", list(topics), 1, **{"group.instance.id": "two"}) as again:
            wait_until(lambda: again[0].owned == had, "its partitions again", REST_SECONDS)
            assert first[0].owned == others


def test_a_group_survives_the_brokers_death(own_broker: StartBroker) -> None:
    """SIGKILL: members, assignment and offsets are there again; nothing that was committed is read twice."""
    broker = own_broker(**QUICK)
    topics = {"surviving": 6}
    admin = create(broker.address, topics)
    with members(broker.address, "surviving", list(topics), 3) as joined:
        rest(joined, topics, evenly)
        sent = produce(broker.address, topics, 30)
        delivered(joined, sent)
        wait_until(lambda: committed(admin, "surviving", topics) == [30] * 6, "all is committed", REST_SECONDS)
        broker.kill()
        broker.start()
        more = produce(broker.address, topics, 30, start=30)
        delivered(joined, more)
        rest(joined, topics, evenly)
        wait_until(lambda: committed(admin, "surviving", topics) == [60] * 6, "all is committed again", REST_SECONDS)
        first_reads = [place for member in joined for place in member.seen if place in sent]
        assert len(first_reads) == len(sent)


def committed(admin: AdminClient, group: str, topics: dict[str, int]) -> list[int]:
    wanted = [TopicPartition(topic, index) for topic, count in topics.items() for index in range(count)]
    future = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, wanted)])[group]
    try:
        return [each.offset for each in future.result(5).topic_partitions]
    except (KafkaException, TimeoutError):
        return []


def test_described_as_a_consumer_group(quick: BrokerProcess) -> None:
    topics = {"described": 4}
    admin = create(quick.address, topics)
    with members(quick.address, "described", list(topics), 2, **{"client.id": "somebody"}) as joined:
        rest(joined, topics, evenly)

        def described() -> bool:
            group = admin.describe_consumer_groups(["described"])["described"].result(30)
            assigned = [len(member.assignment.topic_partitions) for member in group.members]
            return group.state.name == "STABLE" and group.type.name == "CONSUMER" and assigned == [2, 2]

        wait_until(described, "a stable consumer group of two", REST_SECONDS)
    listed = admin.list_consumer_groups().result(30).valid
    assert [(group.group_id, group.type.name, group.state.name) for group in listed] == [
        ("described", "CONSUMER", "EMPTY")
    ]


def test_kafka_reads_the_records(quick: BrokerProcess) -> None:
    """DumpLogSegments decodes the records of a group that changes its protocol, with a static member and a regex."""
    topics = {"dumped-a": 2, "dumped-b": 2}
    create(quick.address, topics)
    classic = {"group.protocol": "classic", "heartbeat.interval.ms": 100}
    with members(quick.address, "dumped", list(topics), 1, **classic) as first:
        rest(first, topics)
        with members(quick.address, "dumped", ["^dumped-.*"], 1, **{"group.instance.id": "one"}) as second:
            rest([*first, *second], topics, evenly)
    quick.stop()
    files = sorted(path for path in quick.data.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    done = java_tool(TOOLS + "DumpLogSegments", "--offsets-decoder", "--files", ",".join(map(str, files)))
    assert "Exception" not in done.stderr, done.stderr
    kinds = set(re.findall(r'key: {"type":"(\d+)"', done.stdout))
    assert kinds >= {"2", "3", "5", "6", "7", "8", "16"}
    assert "isvalid: false" not in done.stdout
    assert "Could not" not in done.stdout


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_a_group_changes_its_protocol_and_back(quick: BrokerProcess, strategy: str) -> None:
    """Members of the classic protocol are replaced one by one, by new ones and by old ones again; records flow."""
    topics = {"migrating": 6}
    admin = create(quick.address, topics)
    classic = {
        "group.protocol": "classic",
        "partition.assignment.strategy": strategy,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 100,
    }

    def kind() -> str:
        listed = admin.list_consumer_groups().result(30).valid
        return next(str(group.type.name) for group in listed if group.group_id == "migrating")

    everybody: list[Member] = []

    def new(**settings: object) -> Member:
        everybody.append(Member(quick.address, "migrating", list(topics), **settings))
        return everybody[-1]

    sent = produce(quick.address, topics, 10)
    present = [new(**classic), new(**classic)]
    try:
        rest(present, topics, evenly)
        assert kind() == "CLASSIC"
        for settings, expected in (({}, "CONSUMER"), ({}, "CONSUMER"), (classic, "CONSUMER"), (classic, "CLASSIC")):
            present.append(new(**settings))
            rest(present, topics, evenly)
            sent |= produce(quick.address, topics, 10, start=len(sent) // 6)
            present.pop(0).leave()
            rest(present, topics, evenly)
            assert kind() == expected
        delivered(everybody, sent)
    finally:
        for member in present:
            member.leave()
