"""Mirroring between two brokers, judged by what librdkafka reads on both sides.

With MOLDAU_TEST_PEER=apache both sides are Apache Kafka; tests/clients/test_mirror_peer.py has one of each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, TopicPartition

from moldau.client.cluster import Cluster
from moldau.client.errors import Fenced
from moldau.client.settings import ClientSettings
from moldau.clients.admin import Admin
from moldau.clients.admin_types import AclBinding
from moldau.clients.records import TopicPartition as Place
from moldau.mirror.formats import Position
from moldau.mirror.returning import returns
from moldau.mirror.running import Mirror
from moldau.mirror.settings import read_settings
from moldau.mirror.watching import positions, standing, store
from moldau.mirror.writing import Outgoing, Refused, Writer, records_piece
from moldau.types import ids
from moldau.wire.records import Record
from tests.peers.choice import new_broker
from tests.support.mirroring import MirrorProcess, contents, flow, mirroring, producer, properties, wait_until_equal
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("mirror")
BASE = int(time.time() * 1000) - 3_600_000
"""When the records were written: not so long ago that brokers delete them half a minute after they have started."""
SETTINGS = {
    "group.initial.rebalance.delay.ms": 0,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 3,
    "auto.create.topics.enable": "false",
}


@pytest.fixture(scope="module")
def us(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with new_broker(tmp_path_factory.mktemp("us"), SETTINGS) as found:
        yield found


@pytest.fixture(scope="module")
def eu(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with new_broker(tmp_path_factory.mktemp("eu"), SETTINGS) as found:
        yield found


@pytest.fixture
def topic() -> str:
    return f"t{uuid4().hex[:10]}"


def create(broker: BrokerProcess, topic: str, partitions: int = 1, **config: str) -> None:
    with Admin({"bootstrap.servers": broker.address}) as admin:
        admin.create_topic(topic, partitions, config={key.replace("_", "."): value for key, value in config.items()})


def one_way(us: BrokerProcess, eu: BrokerProcess, topic: str, **more: str) -> dict[str, str]:
    return properties({"us": us.address, "eu": eu.address}, us_to_eu__enabled="true", topics=topic, **more)


def fill(broker: BrokerProcess, topic: str, count: int, partitions: int = 1, start: int = 0, **options: object) -> None:
    sender = producer(broker.address, **options)
    for number in range(start, start + count):
        headers = [("number", b"%d" % number), ("none", None)] if number % 3 == 0 else None
        key = None if number % 5 == 0 else b"k%d" % (number % 7)
        value = None if number % 11 == 0 and key else b"v%d" % number
        sender.produce(topic, value, key, number % partitions, headers=headers, timestamp=BASE + number)
        if number % 500 == 0:
            sender.poll(0)
    assert sender.flush(60) == 0


# -- records ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_partitions_order_keys_times_and_headers_are_kept(
    us: BrokerProcess, eu: BrokerProcess, topic: str, codec: str
) -> None:
    create(us, topic, 3)
    fill(us, topic, 3000, 3, compression_type=codec)
    with mirroring(one_way(us, eu, topic)):
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 3)
        fill(us, topic, 500, 3, start=3000, compression_type=codec)
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 3)


def test_committed_transactions_arrive_and_aborted_ones_do_not(
    us: BrokerProcess, eu: BrokerProcess, topic: str
) -> None:
    create(us, topic, 2)
    sender = producer(us.address, transactional_id=topic)
    sender.init_transactions()
    with mirroring(one_way(us, eu, topic)) as mirror:
        for number in range(30):
            sender.begin_transaction()
            for each in range(20):
                sender.produce(topic, b"%d-%d" % (number, each), partition=each % 2)
            if number % 3:
                sender.commit_transaction()
            else:
                sender.abort_transaction()
        found = wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 2)
        assert sum(map(len, found)) == 20 * 20
        sender.begin_transaction()
        sender.produce(topic, b"open", partition=0)
        sender.flush()
        fill(us, topic, 50, 2)
        wait_until(
            lambda: sum(map(len, contents(eu.address, f"us.{topic}", 2))) >= 400 + 25, "the other partition goes on"
        )
        sender.commit_transaction()
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 2)
        progress = flow(mirror, "us->eu").shared.partitions
        wait_until(lambda: all(each.lag == 0 for each in progress.values()), "control batches count as copied")


def test_new_topics_and_partitions_are_found(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    with mirroring(one_way(us, eu, f"{topic}.*")):
        create(us, topic, 1)
        fill(us, topic, 10)
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)
        with Admin({"bootstrap.servers": us.address}) as admin:
            admin.create_partitions({topic: 3})
        create(us, f"{topic}-other", 2)
        fill(us, topic, 30, 3)
        fill(us, f"{topic}-other", 10, 2)
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 3)
        wait_until_equal(us.address, f"{topic}-other", eu.address, f"us.{topic}-other", 2)


def test_a_large_record_goes_through_or_is_told(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    """The target takes less than the source: batches are made smaller, until a single record is too large."""
    create(us, topic, 1, max_message_bytes="3000000")
    create(eu, f"us.{topic}", 1, max_message_bytes="50000")
    sender = producer(us.address, message_max_bytes=3_000_000, linger_ms=50)
    for number in range(60):
        sender.produce(topic, b"%d" % number * 10_000)
    assert sender.flush(30) == 0
    settings = one_way(us, eu, topic, sync__topic__configs__enabled="false")
    with mirroring(settings) as mirror:
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)
        sender.produce(topic, b"x" * 2_000_000)
        assert sender.flush(30) == 0
        progress = flow(mirror, "us->eu").shared.partitions[ids.TopicPartition(topic, 0)]
        wait_until(lambda: progress.state == "FAILED", "the partition stands still")
        assert "a record is larger than max.message.bytes of us." in progress.reason
        with Admin({"bootstrap.servers": eu.address}) as admin:
            admin.alter_topic_config(f"us.{topic}", {"max.message.bytes": "3000000"})
        progress.retry_at = 0.0
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)


# -- where it goes on ------------------------------------------------------------------------------------------------


def test_it_goes_on_where_it_was(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    create(us, topic, 2)
    for start in (0, 200, 400):
        fill(us, topic, 200, 2, start=start)
        with mirroring(one_way(us, eu, topic)):
            wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 2)


def test_latest_begins_at_the_end_and_stays_there(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    create(us, topic)
    fill(us, topic, 100)
    settings = one_way(us, eu, topic) | {"us.consumer.auto.offset.reset": "latest"}
    with mirroring(settings):
        wait_until(lambda: stored(settings, topic) == 100, "the beginning is stored")
    fill(us, topic, 10, start=100)
    with mirroring(settings):
        wait_until(lambda: len(contents(eu.address, f"us.{topic}", 1)[0]) == 10, "what came later")
    assert contents(eu.address, f"us.{topic}", 1)[0] == contents(us.address, topic, 1)[0][100:]


def stored(settings: dict[str, str], topic: str) -> int | None:
    found = standing(read_settings(settings).flow("us->eu"))
    return next((each.position for each in found.partitions if each.topic == topic), None)


def test_a_lost_target_is_copied_whole_again(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    create(us, topic, 2)
    fill(us, topic, 100, 2)
    with mirroring(one_way(us, eu, topic)) as mirror:
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 2)
        with Admin({"bootstrap.servers": eu.address}) as admin:
            admin.delete_topics(f"us.{topic}")
        fill(us, topic, 100, 2, start=100)
        wait_until(
            lambda: any(each.restarts for each in flow(mirror, "us->eu").shared.partitions.values()), "it is seen"
        )
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 2)


def test_a_source_that_was_made_anew_is_copied_behind_the_old_one(
    us: BrokerProcess, eu: BrokerProcess, topic: str
) -> None:
    create(us, topic)
    fill(us, topic, 50)
    with mirroring(one_way(us, eu, topic)) as mirror:
        old = wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)
        with Admin({"bootstrap.servers": us.address}) as admin:
            admin.delete_topics(topic)
        wait_until(lambda: topic not in flow(mirror, "us->eu").shared.pairs, "it is seen to be gone")
        create(us, topic)
        fill(us, topic, 80, start=1000)
        new = contents(us.address, topic, 1)
        wait_until(lambda: len(contents(eu.address, f"us.{topic}", 1)[0]) == 130, "old and new")
        assert contents(eu.address, f"us.{topic}", 1)[0] == old[0] + new[0]


@pytest.mark.parametrize("policy", ["continue", "fail"])
def test_what_the_source_deleted_before_it_was_copied_is_told(
    us: BrokerProcess, eu: BrokerProcess, topic: str, policy: str
) -> None:
    create(us, topic)
    fill(us, topic, 100)
    settings = one_way(us, eu, topic, on__data__loss=policy)
    with mirroring(settings):
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)
    fill(us, topic, 100, start=100)
    with Admin({"bootstrap.servers": us.address}) as admin:
        admin.delete_records({Place(topic, 0): 150})
    (before,) = [each for each in standing(read_settings(settings).flow("us->eu")).partitions if each.topic == topic]
    assert (before.state, before.lag) == ("CUT", 50)
    with mirroring(settings) as mirror:
        shared = flow(mirror, "us->eu").shared
        progress = wait_until(lambda: shared.partitions.get(ids.TopicPartition(topic, 0)), "it is looked at")
        if policy == "continue":
            wait_until(lambda: len(contents(eu.address, f"us.{topic}", 1)[0]) == 150, "the rest is copied")
            assert progress.lost == 50
        else:
            wait_until(lambda: progress.state == "FAILED", "it stands still")
            assert "offsets 100 to 149 before they were copied; on.data.loss=continue" in progress.reason


def test_only_what_was_committed_is_a_position_and_nobody_is_waited_for(
    us: BrokerProcess, eu: BrokerProcess, topic: str
) -> None:
    """A worker that died before its commit has copied nothing; one that is at it holds up nobody else."""
    create(eu, topic)
    flow_to_eu = read_settings(one_way(us, eu, topic) | {"offset.storage.topic": topic}).flow("us->eu")
    mine, others = ids.TopicPartition("mine", 0), ids.TopicPartition("others", 0)

    def written(writer: Writer, place: ids.TopicPartition, offset: int) -> None:
        position = Position(place, offset)
        record = Record(position.value(), position.key("us"), BASE)
        writer.write([Outgoing(ids.TopicPartition(topic, 0), records_piece([record]))])

    with Cluster(ClientSettings.from_properties(flow_to_eu.writing)) as target:
        first, second, other = (Writer(target, f"{topic}-{name}", 60_000, time.monotonic) for name in "aab")
        first.open()
        written(first, mine, 10)
        first.commit()
        written(first, mine, 20)
        other.open()
        written(other, others, 5)
        other.commit()
        found = positions(flow_to_eu, target)
        assert {place: each.next_offset for place, each in found.items()} == {mine: 10, others: 5}
        second.open()
        written(second, mine, 30)
        assert positions(flow_to_eu, target)[mine].next_offset == 10
        second.commit()
        assert positions(flow_to_eu, target)[mine].next_offset == 30
        with pytest.raises((Fenced, Refused)):
            written(first, mine, 40)
        assert positions(flow_to_eu, target)[mine].next_offset == 30


def test_positions_can_be_taken_away_under_a_running_mirror(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    create(us, topic)
    fill(us, topic, 20)
    settings = one_way(us, eu, topic)
    with mirroring(settings):
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)
        store(read_settings(settings).flow("us->eu"), [ids.TopicPartition(topic, 0)])
        fill(us, topic, 5, start=20)
        wait_until(lambda: len(contents(eu.address, f"us.{topic}", 1)[0]) >= 45, "it is copied again")
        assert contents(eu.address, f"us.{topic}", 1)[0][20:] == contents(us.address, topic, 1)[0]


# -- several workers -------------------------------------------------------------------------------------------------


def test_workers_share_the_partitions_and_take_over(
    us: BrokerProcess, eu: BrokerProcess, topic: str, tmp_path: Path
) -> None:
    create(us, topic, 6)
    settings = one_way(us, eu, topic, tasks__max="2")
    other = MirrorProcess(tmp_path, settings)
    with mirroring(settings) as mirror:
        shared = flow(mirror, "us->eu").shared
        wait_until(lambda: len(shared.lanes) == 16, "alone")
        other.start()
        try:
            wait_until(lambda: len(shared.lanes) == 8, "shared with the other")
            fill(us, topic, 2000, 6)
            wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 6)
            other.kill()
            fill(us, topic, 2000, 6, start=2000)
            wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 6)
            wait_until(lambda: len(shared.lanes) == 16, "alone again")
        finally:
            other.kill()


def test_two_workers_that_both_believe_write_nothing_twice(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    """Whoever opened a lane's transactional id last writes; the other finds out, and comes back."""
    create(us, topic, 4)
    first, second = (Mirror(read_settings(one_way(us, eu, topic))) for _ in range(2))
    for mirror in (first, second):
        (running,) = [each for each in mirror.flows if each.flow.enabled]
        running.start()
    try:
        for start in range(0, 4000, 500):
            for mirror in (first, second):
                flow(mirror, "us->eu").shared.lanes = frozenset(range(16))
            fill(us, topic, 500, 4, start=start)
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 4)
    finally:
        first.stop()
        second.stop()


# -- groups ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("location", ["source", "target"])
def test_a_group_goes_on_in_the_target_with_the_next_record(
    us: BrokerProcess, eu: BrokerProcess, topic: str, location: str
) -> None:
    create(us, topic)
    fill(us, topic, 1000)
    group = f"g-{topic}"
    settings = one_way(us, eu, topic, groups=group, sync__group__offsets__enabled="true") | {
        "offset-syncs.topic.location": location
    }
    read = Consumer({"bootstrap.servers": us.address, "group.id": group, "enable.auto.commit": False, "log_level": 0})
    with mirroring(settings):
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)
        for place in (137, 700):
            read.commit(offsets=[TopicPartition(topic, 0, place)], asynchronous=False)
            wanted = expected(eu, topic, place)
            wait_until(partial(is_committed, eu, group, f"us.{topic}", wanted), f"{place} is moved to {wanted}")
        read.commit(offsets=[TopicPartition(topic, 0, 10)], asynchronous=False)
        fill(us, topic, 10, start=1000)
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)
        assert committed(eu, group, f"us.{topic}") == expected(eu, topic, 700)
    read.close()


def committed(broker: BrokerProcess, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": group, "log_level": 0})
    try:
        return consumer.committed([TopicPartition(topic, 0)], 10)[0].offset
    finally:
        consumer.close()


def is_committed(broker: BrokerProcess, group: str, topic: str, offset: int) -> bool:
    return committed(broker, group, topic) == offset


def expected(eu: BrokerProcess, topic: str, place: int) -> int:
    """The offset in the target of the record that stands at `place` in the source, found by its time."""
    consumer = Consumer({"bootstrap.servers": eu.address, "group.id": "looker", "log_level": 0})
    try:
        asked = TopicPartition(f"us.{topic}", 0, BASE + place)
        return consumer.offsets_for_times([asked], 10)[0].offset
    finally:
        consumer.close()


def test_a_group_with_members_in_the_target_is_left_alone(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    create(us, topic)
    fill(us, topic, 100)
    group = f"g-{topic}"
    settings = one_way(us, eu, topic, groups=group, sync__group__offsets__enabled="true")
    with mirroring(settings) as mirror:
        wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)
        there = Consumer(
            {
                "bootstrap.servers": eu.address,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "log_level": 0,
            }
        )
        there.subscribe([f"us.{topic}"])
        try:
            wait_until(lambda: there.poll(0.5), "it reads in the target")
            read = Consumer({"bootstrap.servers": us.address, "group.id": group, "log_level": 0})
            read.commit(offsets=[TopicPartition(topic, 0, 50)], asynchronous=False)
            read.close()
            shared = flow(mirror, "us->eu").shared
            seen = shared.checkpoints
            wait_until(lambda: shared.checkpoints > seen, "it is translated")
            assert there.committed([TopicPartition(f"us.{topic}", 0)], 10)[0].offset < 0
        finally:
            there.close()


# -- settings, circles -----------------------------------------------------------------------------------------------


def test_settings_of_topics_follow_those_of_the_source(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    create(us, topic, retention_ms="123456", min_insync_replicas="1")
    with mirroring(one_way(us, eu, topic)), Admin({"bootstrap.servers": us.address}) as there:
        wait_until(lambda: own_config(eu, f"us.{topic}") == {"retention.ms": "123456"}, "as it was made")
        there.alter_topic_config(topic, {"retention.ms": "654321", "cleanup.policy": "compact"})
        wait_until(
            lambda: own_config(eu, f"us.{topic}") == {"retention.ms": "654321", "cleanup.policy": "compact"},
            "as it is now",
        )


def own_config(broker: BrokerProcess, topic: str) -> dict[str, str | None]:
    from moldau.mirror.topics import described, looked_up

    with Cluster(ClientSettings.from_properties({"bootstrap.servers": broker.address})) as cluster:
        if topic not in looked_up(cluster, [topic]):
            return {}
        return {entry.name: entry.value for entry in described(cluster, [topic])[topic] if entry.config_source == 1}


def test_who_may_read_a_topic_may_read_its_copy(tmp_path: Path, topic: str) -> None:
    """Rules to read come along, rules to write do not, and a rule for all becomes one to read."""
    locked = {
        **SETTINGS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with new_broker(tmp_path / "us", locked) as us, new_broker(tmp_path / "eu", locked) as eu:
        create(us, topic)
        with Admin({"bootstrap.servers": us.address}) as there, Admin({"bootstrap.servers": eu.address}) as here:
            there.create_acls(
                AclBinding("TOPIC", topic, "User:anna", "READ"),
                AclBinding("TOPIC", topic, "User:ben", "WRITE"),
                AclBinding("TOPIC", topic, "User:cleo", "ALL"),
                AclBinding("TOPIC", topic, "User:dora", "WRITE", "DENY"),
            )
            with mirroring(one_way(us, eu, topic)):
                wanted = {("anna", "READ", "ALLOW"), ("cleo", "READ", "ALLOW"), ("dora", "WRITE", "DENY")}
                wait_until(lambda: rules_of(here, f"us.{topic}") == wanted, "the rules are there")
                assert rules_of(here, topic) == set()


def rules_of(admin: Admin, topic: str) -> set[tuple[str, str, str]]:
    return {
        (each.principal.removeprefix("User:"), each.operation, each.permission)
        for each in admin.describe_acls()
        if each.name == topic
    }


def test_both_ways_without_a_circle(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    create(us, topic)
    create(eu, topic)
    settings = one_way(us, eu, f".*{topic}", eu_to_us__enabled="true")
    with mirroring(settings) as mirror:
        for start in (0, 100):
            fill(us, topic, 100, start=start)
            fill(eu, topic, 70, start=5000 + start)
            wait_until_equal(us.address, topic, eu.address, f"us.{topic}", 1)
            wait_until_equal(eu.address, topic, us.address, f"eu.{topic}", 1)
        assert set(flow(mirror, "us->eu").shared.pairs) - {"heartbeats"} == {topic}
        assert set(flow(mirror, "eu->us").shared.pairs) - {"heartbeats"} == {topic}
    with Admin({"bootstrap.servers": eu.address}) as admin:
        assert [name for name in admin.list_topics() if topic in name] == [topic, f"us.{topic}"]


def test_a_circle_of_names_that_are_kept_is_refused(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    create(us, topic)
    create(eu, topic)
    settings = one_way(us, eu, f".*{topic}", eu_to_us__enabled="true") | {
        "replication.policy.class": "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    }
    with mirroring(settings) as mirror:
        shared = flow(mirror, "us->eu").shared
        wait_until(lambda: topic in shared.problems, "it is told")
        assert "eu->us copies it back under the same name, in circles" in shared.problems[topic]


def test_names_can_be_kept(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    create(us, topic, 2)
    fill(us, topic, 100, 2)
    settings = one_way(us, eu, topic) | {"replication.policy.class": "IdentityReplicationPolicy"}
    with mirroring(settings):
        wait_until_equal(us.address, topic, eu.address, topic, 2)


def test_the_way_back_under_kept_names_doubles_nothing(us: BrokerProcess, eu: BrokerProcess, topic: str) -> None:
    """A standby that has copies and records of its own gives back only these."""
    create(us, topic, 2)
    fill(us, topic, 60, 2)
    kept = one_way(us, eu, topic) | {"replication.policy.class": "IdentityReplicationPolicy"}
    with mirroring(kept):
        first = wait_until_equal(us.address, topic, eu.address, topic, 2)
    fill(us, topic, 3, 1, start=5000)
    fill(eu, topic, 40, 2, start=9000)
    own = [each[30:] for each in contents(eu.address, topic, 2)]
    returning = kept | {"us->eu.enabled": "false", "eu->us.enabled": "true"}
    settings = read_settings(returning)
    with mirroring(returning) as mirror:
        shared = flow(mirror, "eu->us").shared
        wait_until(lambda: topic in shared.problems, "it is refused")
        assert "us->eu has filled it" in shared.problems[topic]
    found = returns(settings.flow("eu->us"), settings.flow("us->eu"))
    assert [(each.own, each.left_behind) for each in found] == [(21, 3), (21, 0)]
    store(settings.flow("eu->us"), [each.position for each in found])
    with mirroring(returning):
        wait_until(lambda: sum(map(len, contents(us.address, topic, 2))) >= 103, "the standby's own records are back")
    home = contents(us.address, topic, 2)
    assert home[0][:30] == first[0] and home[0][33:] == own[0]
    assert home[1] == first[1] + own[1]
