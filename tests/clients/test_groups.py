"""Consumer groups of real clients: members join, leave, die and stall; every record is delivered, nothing that was
committed is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.clients.conftest import StartBroker
from tests.conformance.group_members import GroupMember as RawMember
from tests.conformance.session import Session, new_tag
from tests.conformance.wire_client import WireClient
from tests.peers.choice import new_broker
from tests.support.admin import SECONDS, add_partitions, admin_client, create_topic
from tests.support.clients import send
from tests.support.group_members import GroupMember, Partition, await_shared, shares
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

#: Dead members are noticed soon, and nobody waits for more members at first.
SETTINGS = {"group.min.session.timeout.ms": 500, "group.initial.rebalance.delay.ms": 0}
PARTITIONS = 4
KINDS = [
    ("confluent", "range"), ("confluent", "roundrobin"), ("confluent", "cooperative-sticky"),
    ("kafka-python", "range"), ("aiokafka", "roundrobin"),
]  # fmt: skip
every_kind = pytest.mark.parametrize(("client", "strategy"), KINDS, ids=["-".join(kind) for kind in KINDS])

Join = Callable[..., GroupMember]


@pytest.fixture(scope="module")
def group_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with new_broker(tmp_path_factory.mktemp("groups"), SETTINGS) as process:
        yield process


@pytest.fixture
def group_admin(group_broker: BrokerProcess) -> AdminClient:
    return admin_client(group_broker.address)


@pytest.fixture
def join(group_broker: BrokerProcess, topic: str) -> Iterator[Join]:
    """Starts members of the test's group; who is left at the end is killed."""
    members: list[GroupMember] = []

    def start(name: str, client: str = "confluent", strategy: str = "range", **more: object) -> GroupMember:
        address = str(more.pop("address", group_broker.address))
        member = GroupMember(client, address, topic, topic, strategy, name, **more)  # type: ignore[arg-type]
        members.append(member)
        return member

    yield start
    for member in members:
        member.kill()


def whole(topic: str, count: int = PARTITIONS) -> frozenset[Partition]:
    return frozenset((topic, partition) for partition in range(count))


class Feed:
    """Writes numbered records to all partitions and remembers how many."""

    def __init__(self, address: str, topic: str, partitions: int = PARTITIONS) -> None:
        self._producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0})
        self._topic = topic
        self._partitions = partitions
        self.ends = Counter(dict.fromkeys(range(partitions), 0))

    def write(self, each: int = 25) -> None:
        for partition in range(self._partitions):
            for _ in range(each):
                send(self._producer, self._topic, b"%d" % self.ends[partition], partition=partition)
                self.ends[partition] += 1
        assert self._producer.flush(SECONDS) == 0

    def is_delivered(self, members: list[GroupMember]) -> bool:
        seen = {record for member in members for record in member.records}
        return all((partition, offset) in seen for partition, end in self.ends.items() for offset in range(end))

    def await_delivered(self, *members: GroupMember) -> None:
        wait_until(lambda: self.is_delivered(list(members)), "every record is delivered", SECONDS)


def committed(admin: AdminClient, group: str) -> dict[int, int]:
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked, require_stable=True)[group].result(SECONDS)
    return {each.partition: each.offset for each in found.topic_partitions}


@every_kind
def test_members_come_and_go(
    group_broker: BrokerProcess, group_admin: AdminClient, topic: str, join: Join, client: str, strategy: str
) -> None:
    """GRP-05, GRP-06, GRP-12, GRP-13, GRP-20, DLV-02, CO-21: join, clean leave, crash and stall; nothing is lost."""
    create_topic(group_admin, topic, PARTITIONS)
    feed = Feed(group_broker.address, topic)
    everybody = []

    def start(name: str) -> GroupMember:
        everybody.append(join(name, client, strategy))
        return everybody[-1]

    feed.write()
    a, b = start("a"), start("b")
    await_shared([a, b], whole(topic))
    feed.write()
    feed.await_delivered(a, b)
    c = start("c")
    await_shared([a, b, c], whole(topic))
    feed.write()
    b.leave()
    await_shared([a, c], whole(topic))
    feed.write()
    a.kill()
    await_shared([c], whole(topic))
    d = start("d")
    await_shared([c, d], whole(topic))
    c.pause()
    await_shared([d], whole(topic))
    feed.write()
    feed.await_delivered(*everybody)
    c.go_on()
    await_shared([c, d], whole(topic))
    feed.write()
    feed.await_delivered(*everybody)
    c.leave()
    await_shared([d], whole(topic))
    # A member's last commit may meet a rebalance and be refused; then whoever takes over reads on and commits.
    wait_until(lambda: committed(group_admin, topic) == dict(feed.ends), "everything is committed", SECONDS)
    d.leave()


@every_kind
def test_a_group_survives_the_brokers_death(
    own_broker: StartBroker, topic: str, join: Join, client: str, strategy: str
) -> None:
    """CMT-01, CMT-15: what was committed is there again, and the members go on."""
    broker = own_broker(**SETTINGS)
    admin = admin_client(broker.address)
    create_topic(admin, topic, PARTITIONS)
    feed = Feed(broker.address, topic)
    feed.write()
    members = [join(name, client, strategy, address=broker.address, session_ms=6000) for name in "ab"]
    await_shared(members, whole(topic))
    feed.await_delivered(*members)
    wait_until(lambda: committed(admin, topic) == dict(feed.ends), "all offsets are committed")
    broker.kill()
    broker.start()
    assert committed(admin_client(broker.address), topic) == dict(feed.ends)
    feed.write()
    feed.await_delivered(*members)
    for member in members:
        member.leave()
    assert committed(admin_client(broker.address), topic) == dict(feed.ends)
    seen = sum((member.records for member in members), Counter[tuple[int, int]]())
    assert set(seen) == {(partition, offset) for partition, end in feed.ends.items() for offset in range(end)}


def test_partitions_are_split_among_up_to_as_many_members(group_admin: AdminClient, topic: str, join: Join) -> None:
    """GRP-01, GRP-03, GRP-04, CO-13, CO-14, CO-15: one has 4, two have 2 each, four have 1 each, the fifth has none."""
    create_topic(group_admin, topic, PARTITIONS)
    members: list[GroupMember] = []
    for name, sizes in zip("abcde", ([4], [2, 2], [1, 1, 2], [1, 1, 1, 1], [0, 1, 1, 1, 1]), strict=True):
        members.append(join(name))
        await_shared(members, whole(topic))
        assert sorted(len(share or ()) for share in shares(members)) == sizes
    described = group_admin.describe_consumer_groups([topic])[topic].result(SECONDS)
    assert described.state.name == "STABLE"
    assert described.partition_assignor == "range"
    told = {
        member.client_id: frozenset((each.topic, each.partition) for each in member.assignment.topic_partitions)
        for member in described.members
    }
    assert told == {member.name: member.assigned for member in members}
    assert {member.host for member in described.members} == {"/127.0.0.1"}


def test_groups_do_not_disturb_each_other(group_broker: BrokerProcess, group_admin: AdminClient, topic: str) -> None:
    """GRP-02, CO-16: a second group gets everything while the first is half-way."""
    create_topic(group_admin, topic)
    Feed(group_broker.address, topic, 1).write(100)
    first = consumer(group_broker.address, topic + "-1")
    first.subscribe([topic])
    half = first.consume(50, SECONDS)
    second = consumer(group_broker.address, topic + "-2")
    second.subscribe([topic])
    assert [each.offset() for each in second.consume(100, SECONDS)] == list(range(100))
    assert [each.offset() for each in (*half, *first.consume(50, SECONDS))] == list(range(100))
    first.close()
    second.close()


def test_new_partitions_are_shared_out(
    group_broker: BrokerProcess, group_admin: AdminClient, topic: str, join: Join
) -> None:
    """GRP-06, GRP-19: a topic that grows makes the group rebalance."""
    create_topic(group_admin, topic, 2)
    members = [join("a"), join("b")]
    await_shared(members, whole(topic, 2))
    add_partitions(group_admin, topic, 4)
    await_shared(members, whole(topic, 4))


# --- assignments as the books print them ---


def consumer(address: str, group: str, **settings: object) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {"bootstrap.servers": address, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0, **settings}
    )


def assignments(
    address: str, group: str, strategy: str, topics: list[str], names: list[str]
) -> dict[str, list[tuple[str, int]]]:
    """What each member has when the group is settled. Members are ordered by their names, which begin their ids."""
    settings = {"partition.assignment.strategy": strategy, "heartbeat.interval.ms": 200}
    members = {name: consumer(address, group, **{"client.id": name, **settings}) for name in names}
    admin = admin_client(address)
    for member in members.values():
        member.subscribe(topics)
    try:

        def settled() -> bool:
            for member in members.values():
                member.poll(0.02)
            described = admin.describe_consumer_groups([group])[group].result(SECONDS)
            here = sum(len(member.assignment()) for member in members.values())
            there = sum(len(member.assignment.topic_partitions) for member in described.members)
            return described.state.name == "STABLE" and len(described.members) == len(names) and here == there > 0

        wait_until(settled, "a settled group", 60)
        return {
            name: sorted((each.topic, each.partition) for each in member.assignment())
            for name, member in members.items()
        }
    finally:
        for member in members.values():
            member.close()


BOOKS = {
    "two topics of three, two members, range": (
        "range", 3, 2, {"C1": ["A0", "A1", "B0", "B1"], "C2": ["A2", "B2"]},
    ),
    "two topics of two, three members, range": (
        "range", 2, 3, {"C1": ["A0", "B0"], "C2": ["A1", "B1"], "C3": []},
    ),
    "two topics of three, two members, roundrobin": (
        "roundrobin", 3, 2, {"C1": ["A0", "A2", "B1"], "C2": ["A1", "B0", "B2"]},
    ),
    "two topics of two, three members, roundrobin": (
        "roundrobin", 2, 3, {"C1": ["A0", "B1"], "C2": ["A1"], "C3": ["B0"]},
    ),
}  # fmt: skip


@pytest.mark.parametrize("example", BOOKS)
def test_examples_of_the_books(group_broker: BrokerProcess, group_admin: AdminClient, topic: str, example: str) -> None:
    """GRP-15, GRP-16, CCF-12, CO-25, CO-26, CO-27: the printed assignments."""
    strategy, partitions, _, expected = BOOKS[example]
    named = {letter: f"{letter}-{topic}" for letter in "AB"}
    for name in named.values():
        create_topic(group_admin, name, partitions)
    found = assignments(group_broker.address, topic, strategy, list(named.values()), list(expected))
    letters = {name: letter for letter, name in named.items()}
    assert {who: [f"{letters[name]}{index}" for name, index in has] for who, has in found.items()} == expected


def test_a_sticky_group_moves_only_what_it_must(group_admin: AdminClient, topic: str, join: Join) -> None:
    """GRP-17, CO-28: when one of three leaves, the others keep what they had."""
    create_topic(group_admin, topic, 6)
    members = [join(name, "confluent", "cooperative-sticky") for name in "abc"]
    await_shared(members, whole(topic, 6))
    wait_until(lambda: sorted(len(share or ()) for share in shares(members)) == [2, 2, 2], "equal shares")
    gone, *stay = members
    before = shares(stay)
    gone.leave()
    await_shared(stay, whole(topic, 6))
    after = shares(stay)
    assert all(old <= new for old, new in zip(before, after, strict=True) if old is not None and new is not None)


def test_an_assignor_of_a_users_own_is_honoured(group_admin: AdminClient, topic: str, join: Join) -> None:
    """GRP-14, GRP-18: the leader decides; the broker only passes it on."""
    create_topic(group_admin, topic, PARTITIONS)
    members = [join(name, "kafka-python", "greedy") for name in "ab"]
    wait_until(lambda: shares(members) == [whole(topic), frozenset()], "the first member has everything", 60)


# --- static members ---


def test_a_static_member_that_starts_again_keeps_its_share(group_admin: AdminClient, topic: str, join: Join) -> None:
    """A restart within the session costs no rebalance; a second of the same name fences the first."""
    create_topic(group_admin, topic, PARTITIONS)
    a = join("a", instance="one", session_ms=20_000)
    b = join("b", instance="two", session_ms=20_000)
    await_shared([a, b], whole(topic))
    share, rebalances = a.assigned, b.rebalances
    a.kill()
    again = join("a", instance="one", session_ms=20_000)
    wait_until(lambda: again.assigned == share, "the same share", 30)
    assert b.rebalances == rebalances
    usurper = join("a", instance="one", session_ms=20_000)
    assert "fenced" in wait_until(lambda: again.fatal, "the older one is fenced", 30)
    wait_until(lambda: usurper.assigned == share, "its share", 30)
    assert b.rebalances == rebalances


# --- commits ---


def test_metadata_comes_back_with_the_offset(group_broker: BrokerProcess, group_admin: AdminClient, topic: str) -> None:
    """CMT-11, CMT-14, CMT-16, CO-17."""
    create_topic(group_admin, topic)
    alone = consumer(group_broker.address, topic)
    alone.commit(offsets=[TopicPartition(topic, 0, 9, metadata="nine, näher, 九")], asynchronous=False)
    (found,) = alone.committed([TopicPartition(topic, 0)], SECONDS)
    assert (found.offset, found.metadata.rstrip("\0")) == (9, "nine, näher, 九")
    alone.close()


def test_reading_goes_on_where_it_was_committed(
    group_broker: BrokerProcess, group_admin: AdminClient, topic: str
) -> None:
    """CMT-04, CMT-05: too small an offset repeats records, too large a one skips them."""
    create_topic(group_admin, topic)
    Feed(group_broker.address, topic, 1).write(100)
    for offset in (30, 10, 90):
        reader = consumer(group_broker.address, topic, **{"enable.auto.commit": False})
        reader.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
        reader.subscribe([topic])
        assert reader.consume(1, SECONDS)[0].offset() == offset
        reader.close()


def test_a_member_that_was_removed_cannot_commit(
    group_broker: BrokerProcess, group_admin: AdminClient, topic: str, join: Join
) -> None:
    """CMT-06: the commit of a stalled member fails, the new owner's offsets stand."""
    create_topic(group_admin, topic)
    Feed(group_broker.address, topic, 1).write(10)
    stalled = consumer(
        group_broker.address,
        topic,
        **{"enable.auto.commit": False, "session.timeout.ms": 1500, "max.poll.interval.ms": 1500},
    )
    stalled.subscribe([topic])
    assert len(stalled.consume(10, SECONDS)) == 10
    other = join("other")
    await_shared([other], whole(topic, 1))
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        stalled.commit(offsets=[TopicPartition(topic, 0, 10)], asynchronous=False)
    assert refused.value.args[0].name() in ("UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION", "_NO_OFFSET", "_STATE")
    stalled.close()


# --- administration ---


def test_groups_are_listed_described_and_deleted(
    group_broker: BrokerProcess, group_admin: AdminClient, topic: str, join: Join
) -> None:
    create_topic(group_admin, topic)
    member = join("a")
    await_shared([member], whole(topic, 1))

    def listed(**how: object) -> dict[str, str]:
        found = group_admin.list_consumer_groups(**how).result(SECONDS)
        assert found.errors == []
        return {group.group_id: group.state.name for group in found.valid if group.group_id == topic}

    assert listed() == {topic: "STABLE"}
    assert listed(states={confluent_kafka.ConsumerGroupState.EMPTY}) == {}
    with pytest.raises(confluent_kafka.KafkaException) as refused:
        group_admin.delete_consumer_groups([topic])[topic].result(SECONDS)
    assert refused.value.args[0].name() == "NON_EMPTY_GROUP"
    member.leave()
    assert listed(states={confluent_kafka.ConsumerGroupState.EMPTY}) == {topic: "EMPTY"}
    group_admin.delete_consumer_groups([topic])[topic].result(SECONDS)
    assert listed() == {}
    with pytest.raises(confluent_kafka.KafkaException) as missing:
        group_admin.delete_consumer_groups([topic])[topic].result(SECONDS)
    assert missing.value.args[0].name() == "GROUP_ID_NOT_FOUND"


def test_offsets_of_a_group_are_altered_and_go_with_their_topic(
    group_broker: BrokerProcess, group_admin: AdminClient, topic: str
) -> None:
    create_topic(group_admin, topic, 2)
    wanted = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 6)])
    group_admin.alter_consumer_group_offsets([wanted])[topic].result(SECONDS)
    assert committed(group_admin, topic) == {0: 5, 1: 6}
    group_admin.delete_topics([topic])[topic].result(SECONDS)
    wait_until(lambda: committed(group_admin, topic) == {}, "the offsets are gone")


def test_a_broker_that_stops_sends_its_members_to_the_next_coordinator(own_broker: StartBroker) -> None:
    """A member that waits for the others is answered, not waited for."""
    broker = own_broker(**SETTINGS)
    host, port = broker.address.rsplit(":", 1)
    session = Session.start("stop", 9, WireClient(host, int(port)), new_tag(), broker.restart)
    session.await_coordinator(0)
    settled, late = (RawMember(session, name) for name in "ab")
    settled.settle()
    late.get_id()
    with session.waiting_for("join", "join_group", late.join()):
        settled.await_state("PreparingRebalance")
        assert broker.stop() == 0
    session.client.close()
    assert session.answers["join"]["error_code"] == "NOT_COORDINATOR"
