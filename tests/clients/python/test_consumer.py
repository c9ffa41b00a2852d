"""Reading: the poll loop, its end, groups and listeners, positions, commits of every kind, bad records."""

from __future__ import annotations

import gc
import re
import threading
from collections.abc import Collection, Mapping
from itertools import islice

import psutil
import pytest

from moldau import Consumer
from moldau.clients.commits import Offsets
from moldau.clients.errors import (
    ClientError,
    CommitFailed,
    ConcurrentUse,
    DeserializationFailed,
    KafkaFailure,
    NoOffset,
    SettingError,
    Wakeup,
)
from moldau.clients.interceptors import ConsumerInterceptor
from moldau.clients.rebalancing import RebalanceListener
from moldau.clients.records import ConsumerRecord, ConsumerRecords, OffsetAndMetadata, TopicPartition
from moldau.testing import Broker
from moldau.testing.brokers import Kafka
from tests.support.waiting import wait_until

SOON = 20.0


def fill(kafka: Kafka, topic: str, count: int, partition: int = 0, first: int = 0) -> None:
    with kafka.producer(value_serializer="integer") as producer:
        for number in range(first, first + count):
            producer.send(topic, number, partition=partition, timestamp=1000 * number + 1)


def reader(kafka: Kafka, *places: TopicPartition, **properties: object) -> Consumer:
    consumer = kafka.consumer(value_deserializer="integer", **properties)
    consumer.assign(places)
    return consumer


def take(consumer: Consumer, count: int) -> list[int]:
    found: list[int] = []
    if count == 0:
        return found
    for record in consumer.records(SOON):
        found.append(record.value)
        if len(found) == count:
            break
    return found


def committed(kafka: Kafka, group: str, place: TopicPartition) -> int | None:
    with kafka.admin() as admin:
        found = admin.list_consumer_group_offsets(group).get(place)
    return None if found is None else found.offset


# -- the loop ----------------------------------------------------------------------------------------------------


def test_wakeup_from_another_thread_ends_the_loop(kafka: Kafka, topic: str) -> None:
    """THR-02, CON-08."""
    fill(kafka, topic, 3)
    found: list[int] = []
    with kafka.consumer(group_id=topic, value_deserializer="integer") as consumer:
        consumer.subscribe([topic])
        for record in consumer:
            found.append(record.value)
            if len(found) == 3:
                threading.Timer(0.2, consumer.wakeup).start()
    assert found == [0, 1, 2]
    assert committed(kafka, topic, TopicPartition(topic, 0)) == 3


def test_wakeup_makes_poll_raise_also_if_it_comes_before(kafka: Kafka, topic: str) -> None:
    """THR-02; AR-20: a poll may bring nothing."""
    with reader(kafka, TopicPartition(topic, 0)) as consumer:
        consumer.wakeup()
        with pytest.raises(Wakeup):
            consumer.poll(SOON)
        assert consumer.poll(0.0).is_empty


def test_a_poll_returns_at_most_what_was_asked_for(kafka: Kafka, wide_topic: str) -> None:
    """CCF-14."""
    for partition in range(3):
        fill(kafka, wide_topic, 10, partition)
    places = [TopicPartition(wide_topic, partition) for partition in range(3)]
    sizes, values = [], []
    with reader(kafka, *places, max_poll_records=7) as consumer:
        while len(values) < 30:
            batch = consumer.poll(SOON)
            sizes.append(len(batch))
            values += [record.value for record in batch]
            assert sum(len(batch.records(place)) for place in batch.partitions()) == len(batch)
    assert max(sizes) <= 7
    assert sorted(values) == sorted([*range(10)] * 3)


def test_two_threads_cannot_use_one_consumer(kafka: Kafka, topic: str) -> None:
    """THR-01, AR-19."""
    problems: list[Exception] = []
    with reader(kafka, TopicPartition(topic, 0)) as consumer:
        polling = threading.Event()

        def poll() -> None:
            polling.set()
            with pytest.raises(Wakeup):
                consumer.poll(SOON)

        thread = threading.Thread(target=poll)
        thread.start()
        polling.wait()
        while not problems:
            try:
                consumer.positions()
            except ConcurrentUse as error:
                problems.append(error)
        consumer.wakeup()
        thread.join()
    assert "wakeup()" in str(problems[0])


def test_a_closed_consumer_says_so(kafka: Kafka, topic: str) -> None:
    consumer = reader(kafka, TopicPartition(topic, 0))
    consumer.close()
    consumer.close()
    with pytest.raises(ClientError, match="closed"):
        consumer.poll()


# -- groups ------------------------------------------------------------------------------------------------------


class Noting(RebalanceListener):
    def __init__(self) -> None:
        self.log: list[tuple[str, set[TopicPartition]]] = []
        self.assigned = threading.Event()

    def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(("assigned", set(partitions)))
        self.assigned.set()

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.log.append(("revoked", set(partitions)))


@pytest.mark.parametrize("properties", [{}, {"partition.assignment.strategy": "cooperative-sticky"}])
def test_members_share_partitions_and_lose_nothing(
    kafka: Kafka, wide_topic: str, properties: Mapping[str, object]
) -> None:
    """SEK-01, SEK-04, GRP-20: a second member comes in mid-stream: what the first processed is committed when it gives
    partitions up."""
    for partition in range(3):
        fill(kafka, wide_topic, 20, partition, first=100 * partition)
    settings = {"group.id": wide_topic, "enable.auto.commit": False, "max.poll.records": 1, **properties}
    seen: list[int] = []
    first, second = (kafka.consumer(settings, value_deserializer="integer") for _ in range(2))

    class Committing(Noting):
        def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
            super().on_partitions_revoked(partitions)
            first.commit()

    listener, other = Committing(), Noting()
    with first, second:
        first.subscribe([wide_topic], listener)
        while len(seen) < 5:
            seen += [record.value for record in first.poll(1.0)]
        second.subscribe([wide_topic], other)
        every = {TopicPartition(wide_topic, number) for number in range(3)}
        while not (len(seen) >= 60 and second.assignment() and first.assignment() | second.assignment() == every):
            for consumer in (first, second):
                seen += [record.value for record in consumer.poll(0.05)]
        assert not first.assignment() & second.assignment()
    assert sorted(seen) == sorted([*range(20), *range(100, 120), *range(200, 220)])
    assert listener.log[0] == ("assigned", {TopicPartition(wide_topic, number) for number in range(3)})
    assert listener.log[1][0] == "revoked"


def test_a_listener_may_seek(kafka: Kafka, topic: str) -> None:
    """SEK-02, SEK-03."""
    fill(kafka, topic, 10)

    class Seeking(RebalanceListener):
        def on_partitions_assigned(self, partitions: Collection[TopicPartition]) -> None:
            for place in partitions:
                consumer.seek(place, 7)

    with kafka.consumer(group_id=topic, value_deserializer="integer") as consumer:
        consumer.subscribe(topic, Seeking())
        assert take(consumer, 3) == [7, 8, 9]


def test_a_pattern_finds_topics_that_come_later(kafka: Kafka, topic: str) -> None:
    """CON-03, SEK-03."""
    fill(kafka, topic, 1)
    settings = {"group.id": topic, "metadata.max.age.ms": 500}
    with kafka.consumer(settings, value_deserializer="integer") as consumer:
        listener = Noting()
        consumer.subscribe(re.compile(f"{topic}.*"), listener)
        assert take(consumer, 1) == [0]
        later = kafka.topic(f"{topic}.later")
        fill(kafka, later, 1, first=5)
        assert take(consumer, 1) == [5]
        assert TopicPartition(later, 0) in listener.log[-1][1]


def test_a_second_subscription_takes_the_place_of_the_first(kafka: Kafka, topic: str, wide_topic: str) -> None:
    """CON-02, AR-21."""
    fill(kafka, topic, 1)
    fill(kafka, wide_topic, 1, first=100)
    with kafka.consumer(group_id=topic, value_deserializer="integer") as consumer:
        consumer.subscribe([topic, wide_topic])
        assert sorted(take(consumer, 2)) == [0, 100]
        consumer.subscribe(wide_topic)
        fill(kafka, topic, 5, first=1)
        fill(kafka, wide_topic, 5, first=101)
        assert take(consumer, 5) == list(range(101, 106))
        assert {each.topic for each in consumer.assignment()} == {wide_topic}


def test_a_new_group_begins_at_the_end_unless_it_is_told_otherwise(kafka: Kafka, topic: str) -> None:
    """CCF-09, CON-05, CO-09."""
    fill(kafka, topic, 3)
    with Consumer({**kafka.properties, "group.id": f"late-{topic}"}, value_deserializer="integer") as late:
        late.subscribe(topic)
        assert late.assignment() == set()
        while not late.assignment():
            late.poll(0.1)
        assert late.position(TopicPartition(topic, 0)) == 3
        fill(kafka, topic, 1, first=3)
        assert take(late, 1) == [3]
    with kafka.consumer(group_id=f"early-{topic}", value_deserializer="integer") as early:
        early.subscribe(topic)
        assert take(early, 4) == [0, 1, 2, 3]
    with kafka.consumer(group_id=f"late-{topic}", value_deserializer="integer") as again:
        again.subscribe(topic)
        fill(kafka, topic, 1, first=4)
        assert take(again, 1) == [4], "what was committed counts more"


def test_subscribe_and_assign_exclude_each_other(kafka: Kafka, topic: str) -> None:
    """STA-01, CO-30."""
    with kafka.consumer(group_id=topic) as consumer:
        consumer.subscribe(topic)
        with pytest.raises(ClientError, match="exclude"):
            consumer.assign([TopicPartition(topic, 0)])
        consumer.unsubscribe()
        consumer.assign([TopicPartition(topic, 0)])
        with pytest.raises(ClientError, match="exclude"):
            consumer.subscribe(topic)


def test_partitions_assigned_right_after_unsubscribing_stay(kafka: Kafka, topic: str) -> None:
    with kafka.consumer(group_id=topic, enable_auto_commit=False) as consumer:
        consumer.subscribe(topic)
        fill(kafka, topic, 3)
        assert len(take(consumer, 3)) == 3
        consumer.unsubscribe()
        consumer.assign([TopicPartition(topic, 0)])
        assert len(take(consumer, 3)) == 3
        assert consumer.assignment() == {TopicPartition(topic, 0)}


def test_a_group_is_needed_to_subscribe_and_commit(kafka: Kafka, topic: str) -> None:
    with reader(kafka, TopicPartition(topic, 0)) as consumer:
        with pytest.raises(SettingError, match=r"group\.id"):
            consumer.commit()
        consumer.unsubscribe()
        with pytest.raises(SettingError, match=r"group\.id"):
            consumer.subscribe(topic)


# -- positions ---------------------------------------------------------------------------------------------------


def test_seeking_in_every_way(kafka: Kafka, topic: str) -> None:
    """SEK-05, SEK-06, SEK-09, CON-17."""
    fill(kafka, topic, 10)
    place = TopicPartition(topic, 0)
    with reader(kafka, place) as consumer:
        assert take(consumer, 4) == [0, 1, 2, 3]
        assert consumer.position(place) == 4
        consumer.seek_to_beginning()
        assert consumer.position(place) == 0
        assert take(consumer, 2) == [0, 1]
        consumer.seek(place, 8)
        assert consumer.position(place) == 8
        assert take(consumer, 2) == [8, 9]
        consumer.seek_to_time(4500)
        assert take(consumer, 1) == [5]
        consumer.seek_to_end(place)
        assert consumer.position(place) == 10
        assert list(consumer.records(0.2)) == []
        fill(kafka, topic, 1, first=10)
        assert take(consumer, 1) == [10]
        consumer.seek_to_time(10**15)
        assert consumer.position(place) == 11
        found = consumer.offsets_for_times({place: 3001})[place]
        assert found is not None
        assert (found.offset, found.timestamp) == (3, 3001)
        assert consumer.offsets_for_times({place: 10**15}) == {place: None}
        assert (consumer.beginning_offsets([place]), consumer.end_offsets([place])) == ({place: 0}, {place: 11})
        with pytest.raises(ClientError, match="not assigned"):
            consumer.seek((topic, 9), 0)


def test_a_paused_partition_yields_nothing_and_goes_on_where_it_was(kafka: Kafka, wide_topic: str) -> None:
    """CON-12."""
    fill(kafka, wide_topic, 5, 0)
    fill(kafka, wide_topic, 5, 1, first=100)
    paused, other = TopicPartition(wide_topic, 0), TopicPartition(wide_topic, 1)
    with reader(kafka, paused, other) as consumer:
        first: list[ConsumerRecord] = []
        for record in consumer.records(SOON):
            first.append(record)
            if record.partition == 0:
                break
        consumer.pause(paused)
        rest = list(consumer.records(1.0))
        assert {record.partition for record in rest} <= {1}
        fill(kafka, wide_topic, 1, 1, first=200)
        assert take(consumer, 1) == [200]
        consumer.resume(paused)
        assert take(consumer, 4) == [1, 2, 3, 4]


def test_partitions_are_read_without_a_group(kafka: Kafka, wide_topic: str) -> None:
    """STA-02, CON-16: each of two sees everything."""
    for partition in range(3):
        fill(kafka, wide_topic, 2, partition)
    with kafka.consumer() as first, kafka.consumer() as second:
        for consumer in (first, second):
            places = [TopicPartition(wide_topic, each.partition) for each in consumer.partitions_for(wide_topic)]
            consumer.assign(places)
            assert len(list(islice(consumer.records(30.0), 6))) == 6
            assert sum(consumer.lag().values()) == 0
            assert wide_topic in consumer.topics()


def test_a_partition_that_is_added_is_read_once_it_is_looked_for(kafka: Kafka, topic: str) -> None:
    """STA-03, CO-29."""
    with reader(kafka, TopicPartition(topic, 0)) as consumer, kafka.admin() as admin:
        admin.create_partitions({topic: 2})
        fill(kafka, topic, 1, partition=1, first=100)
        fill(kafka, topic, 3)
        assert take(consumer, 3) == [0, 1, 2], "it is not told of the new one"
        consumer.assign([TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)])
        fill(kafka, topic, 1, first=3)
        assert 100 in take(consumer, 2)


def test_closed_consumers_leave_no_connections() -> None:
    """CON-15: many of them: what each leaves behind would add up."""
    with Broker() as broker:
        topic = broker.topic()
        fill(broker, topic, 1)
        port = int(broker.bootstrap.rpartition(":")[2])
        gc.collect()  # librdkafka's producers disconnect when nobody has them any more
        wait_until(lambda: connections_to(port) == 0, "the producer has gone")
        consumers = [reader(broker, TopicPartition(topic, 0), group_id=f"{topic}-{number}") for number in range(5)]
        assert [take(each, 1) for each in consumers] == [[0]] * 5
        assert connections_to(port) >= 5
        for each in consumers:
            each.close()
        wait_until(lambda: connections_to(port) == 0, "all connections are closed")


def connections_to(port: int) -> int:
    """Of this process, which closes them before the broker does."""
    every = psutil.Process().net_connections("tcp")
    return sum(
        each.status == psutil.CONN_ESTABLISHED and bool(each.raddr) and each.raddr.port == port for each in every
    )


def test_without_an_offset_and_without_a_rule_the_poll_fails(kafka: Kafka, topic: str) -> None:
    fill(kafka, topic, 1)
    with (
        reader(kafka, TopicPartition(topic, 0), auto_offset_reset="none") as consumer,
        pytest.raises(NoOffset, match=rf"{topic}-0.*auto\.offset\.reset"),
    ):
        consumer.poll(SOON)


# -- commits -----------------------------------------------------------------------------------------------------


def test_automatic_commits_hold_what_was_handed_out(kafka: Kafka, topic: str) -> None:
    """CMT-02: not what was fetched: an iteration that ends at the fourth record commits four, of ten that lay ready."""
    fill(kafka, topic, 10)
    place = TopicPartition(topic, 0)
    with kafka.consumer(group_id=topic, value_deserializer="integer") as consumer:
        consumer.subscribe(topic)
        assert take(consumer, 4) == [0, 1, 2, 3]
    assert committed(kafka, topic, place) == 4

    def fail() -> None:
        with kafka.consumer(group_id=topic, value_deserializer="integer") as consumer:
            consumer.subscribe(topic)
            for record in consumer:
                if record.value == 6:
                    raise ValueError("not processed")

    with pytest.raises(ValueError, match="not processed"):
        fail()
    assert committed(kafka, topic, place) == 6


def test_commits_by_hand(kafka: Kafka, topic: str) -> None:
    """CMT-08, CMT-11, CMT-14, CMT-16, CON-11."""
    fill(kafka, topic, 10)
    place = TopicPartition(topic, 0)
    told: list[tuple[Offsets, KafkaFailure | None]] = []
    with kafka.consumer(group_id=topic, value_deserializer="integer", enable_auto_commit=False) as consumer:
        consumer.subscribe(topic)
        take(consumer, 3)
        consumer.commit()
        assert consumer.committed([place]) == {place: OffsetAndMetadata(3, "")}
        assert consumer.position(place) == 3
        consumer.commit({place: OffsetAndMetadata(5, "no metadata")})
        assert consumer.committed([place]) == {place: OffsetAndMetadata(5, "no metadata")}
        take(consumer, 4)
        consumer.commit_async(lambda offsets, error: told.append((offsets, error)))
        consumer.commit_async(lambda offsets, error: told.append((offsets, error)), {place: 6})
    assert told == [({place: OffsetAndMetadata(7)}, None), ({place: OffsetAndMetadata(6)}, None)]
    assert committed(kafka, topic, place) == 6


def test_the_part_of_one_partition_is_committed_by_itself(kafka: Kafka, wide_topic: str) -> None:
    """CMT-12, CON-13: an end between two partitions repeats only what was not finished."""
    for partition in range(2):
        fill(kafka, wide_topic, 5, partition, first=100 * partition)
    settings = {"group.id": wide_topic, "enable.auto.commit": False}
    seen: dict[TopicPartition, list[ConsumerRecord]] = {}
    with kafka.consumer(settings) as consumer:
        consumer.subscribe(wide_topic)
        while sum(map(len, seen.values())) < 10:
            batch = consumer.poll(SOON)
            for place in batch.partitions():
                seen.setdefault(place, []).extend(batch.records(place))
        finished = TopicPartition(wide_topic, 0)
        consumer.commit({finished: seen[finished][-1].offset + 1})
    with kafka.consumer(settings, value_deserializer="integer") as again:
        again.subscribe(wide_topic)
        assert take(again, 5) == list(range(100, 105))


def test_a_member_that_was_left_behind_cannot_commit(kafka: Kafka, topic: str) -> None:
    """CMT-06, GRP-11, CON-06, CO-22."""
    fill(kafka, topic, 2)
    settings = {"group.id": topic, "enable.auto.commit": False, "max.poll.records": 1}
    slow = kafka.consumer({**settings, "session.timeout.ms": 6000, "max.poll.interval.ms": 6000})
    try:
        slow.subscribe(topic)
        take(slow, 1)
        with kafka.consumer(settings) as other:
            other.subscribe(topic)
            assert take(other, 1)
            with pytest.raises(CommitFailed, match=r"max\.poll\.interval\.ms|poll again"):
                slow.commit({TopicPartition(topic, 0): 1})
    finally:
        slow.close()


# -- what records hold -------------------------------------------------------------------------------------------


def test_a_bad_record_is_named_and_can_be_left_out(kafka: Kafka, topic: str) -> None:
    """CCF-02, DES-01."""
    with kafka.producer() as producer:
        for value in (b"\0\0\0\1", b"bad", b"\0\0\0\2"):
            producer.send(topic, value)
    place = TopicPartition(topic, 0)
    with reader(kafka, place) as consumer:
        good = consumer.poll(SOON)
        while not good:
            good = consumer.poll(SOON)
        assert [record.value for record in good] == [1]
        for _ in range(2):
            with pytest.raises(
                DeserializationFailed, match=rf"value of {topic}-0 at offset 1: expected 4 bytes"
            ) as told:
                consumer.poll(SOON)
        consumer.seek(place, told.value.offset + 1)
        assert take(consumer, 1) == [2]


def test_a_bad_record_in_an_iteration(kafka: Kafka, topic: str) -> None:
    with kafka.producer() as producer:
        for value in (b"\0\0\0\1", b"bad", b"\0\0\0\2"):
            producer.send(topic, value)
    with reader(kafka, TopicPartition(topic, 0)) as consumer:
        assert take(consumer, 1) == [1]
        with pytest.raises(DeserializationFailed) as told:
            take(consumer, 1)
        consumer.seek(TopicPartition(topic, 0), told.value.offset + 1)
        assert take(consumer, 1) == [2]


class Doubling(ConsumerInterceptor):
    def __init__(self) -> None:
        self.commits: list[Offsets] = []

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        for record in records:
            record.value *= 2
        return records

    def on_commit(self, offsets: Offsets) -> None:
        self.commits.append(offsets)


def test_interceptors_see_records_and_commits(kafka: Kafka, topic: str) -> None:
    """TR-04."""
    fill(kafka, topic, 3, first=1)
    first, second = Doubling(), Doubling()
    settings = {"interceptor.classes": [first, second], "enable.auto.commit": False, "group.id": topic}
    with kafka.consumer(settings, value_deserializer="integer") as consumer:
        consumer.subscribe(topic)
        assert take(consumer, 2) == [4, 8]
        assert [record.value for record in consumer.poll(SOON)] == [12]
        consumer.commit()
    assert first.commits == second.commits == [{TopicPartition(topic, 0): OffsetAndMetadata(3)}]


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({"session.timeout.ms": 6000, "heartbeat.interval.ms": 6000}, r"heartbeat\.interval\.ms"),
        ({"max.poll.records": 0}, r"max\.poll\.records"),
        ({"enable.auto.commit": "perhaps"}, r"enable\.auto\.commit"),
        ({"zookeeper.connect": "h:2181"}, "clients talk to brokers"),
        ({"bootstrap.servers": ""}, r"bootstrap\.servers: is missing"),
    ],
)
def test_a_wrong_property_is_named(properties: dict[str, object], key: str) -> None:
    """CCF-08, CO-07, CON-01."""
    with pytest.raises(SettingError, match=key):
        Consumer({"bootstrap.servers": "h:1", **properties})


def test_without_a_group_no_coordinator_is_needed() -> None:
    """The brokers cannot make the topic of offsets here: it wants more copies than there are brokers."""
    with Broker({"offsets.topic.replication.factor": 3}) as lonely:
        topic = lonely.topic()
        with lonely.producer() as producer:
            producer.send(topic, b"early").result(30)
        with lonely.consumer() as early, lonely.consumer(auto_offset_reset="latest") as late:
            early.assign([(topic, 0)])
            assert next(early.records(30)).value == b"early"
            late.assign([(topic, 0)])
            late.poll(0.5)
            assert late.position((topic, 0)) == 1
