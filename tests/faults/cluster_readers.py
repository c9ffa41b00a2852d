"""Who reads through every fault and remembers what was seen where: a consumer group of two, and a reader of committed
records. What Jepsen's checks of Kafka call lost, unseen, aborted and skipped reads, and polls that go back, is found.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from tests.cluster.worries import Worries
from tests.faults.group_commits import NOTHING, GroupCommits, Standing
from tests.support.waiting import wait_until

GROUP = "followers"
MEMBERS = 2
POLL_SECONDS = 0.2
COMMIT_EVERY = 50
SECONDS = 120.0

Place = tuple[int, int]


class Readers:
    """Of a topic in which every offset holds a record: none is passed over, and none comes again in between; and the
    members are told of no error that is not over by itself."""

    def __init__(self, bootstrap: str, topic: str, group: str = GROUP) -> None:
        self.seen: dict[Place, str] = {}
        self.wrong: list[str] = []
        self.worries = Worries()
        self._bootstrap, self._topic, self._group = bootstrap, topic, group
        self._commits = GroupCommits()
        self._over = threading.Event()
        names = [f"member {number}" for number in range(1, MEMBERS + 1)]
        self._threads = [threading.Thread(target=self._follow, args=(name,), daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    def _consumer(self, **more: Any) -> Consumer:
        return Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": self._group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
                "heartbeat.interval.ms": 500,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                "error_cb": self.worries.hear,
                **more,
            }
        )

    def _follow(self, name: str) -> None:
        walk = Walk(name, self._commits, self.wrong)

        def answered(error: KafkaError | None, places: Sequence[TopicPartition]) -> None:
            errors = {each.partition: error or each.error for each in places}
            offsets = {each.partition: each.offset for each in places}
            self._commits.answered(name, offsets, {each: str(known) for each, known in errors.items() if known})

        consumer = self._consumer(on_commit=answered)
        consumer.subscribe([self._topic], on_assign=walk.begin, on_revoke=walk.end)
        uncommitted = 0
        while not self._over.is_set():
            message = consumer.poll(POLL_SECONDS)
            error = None if message is None else message.error()
            if error is not None:
                self.worries.hear(error)
            elif message is not None:
                self._note(message, walk)
                uncommitted += 1
            if uncommitted >= COMMIT_EVERY or (message is None and uncommitted):
                uncommitted = 0
                self._commit(name, consumer, walk.read())
        consumer.close()

    def _commit(self, name: str, consumer: Consumer, places: list[TopicPartition]) -> None:
        """Nothing if it is not assigned any more: what was read is read again."""
        if not places:
            return
        offsets = {each.partition: each.offset for each in places}
        self._commits.asked(name, offsets)
        try:
            consumer.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            self._commits.answered(name, offsets, dict.fromkeys(offsets, str(error)))

    def _note(self, message: Message, walk: Walk) -> None:
        place, value = place_of(message), text_of(message)
        walk.comes_to(message)
        before = self.seen.setdefault(place, value)
        if before != value:
            self.wrong.append(f"{place}: first {before}, later {value}")

    def check(self, written: Mapping[Place, str]) -> None:
        assert self.wrong == [], self.wrong[:10]
        self.worries.check()
        must_be_there(self.seen, written)
        unseen = set(written) - set(self.seen)
        assert unseen == set(), f"never read: {sorted(unseen)[:10]}"
        self._check_committed()

    def _check_committed(self) -> None:
        standing = {partition: self._commits.standing(partition) for partition in self._commits.partitions()}
        consumer = self._consumer()
        try:
            places = [TopicPartition(self._topic, partition) for partition in standing]
            kept = {place.partition: place.offset for place in consumer.committed(places, timeout=60)}
        finally:
            consumer.close()
        lost = [
            f"({partition}, {kept[partition]}) is committed, but {known} was before\n{self._commits.journal(partition)}"
            for partition, known in standing.items()
            if not known.allows(kept[partition])
        ]
        assert lost == [], "\n".join(lost)

    def end(self) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()


class Walk:
    """How one member goes through what is assigned to it: record by record, from where the group stands."""

    def __init__(self, name: str, commits: GroupCommits, wrong: list[str]) -> None:
        self._name, self._commits, self._wrong = name, commits, wrong
        self._begins: dict[int, Standing] = {}
        self._behind: dict[int, TopicPartition] = {}

    def begin(self, _consumer: Consumer, places: Sequence[TopicPartition]) -> None:
        self._behind.clear()
        self._begins = {place.partition: self._commits.standing(place.partition) for place in places}
        for partition, standing in self._begins.items():
            self._commits.note(partition, self._name, f"is assigned it, where the group stands at {standing}")

    def end(self, _consumer: Consumer, places: Sequence[TopicPartition]) -> None:
        self._begins.clear()
        for place in places:
            self._commits.note(place.partition, self._name, "has it no longer")

    def read(self) -> list[TopicPartition]:
        """How far, of what is assigned: what consumer.commit() would take by itself, but known beforehand."""
        return [place for partition, place in self._behind.items() if partition in self._begins]

    def comes_to(self, message: Message) -> None:
        partition, offset = place = place_of(message)
        expected = self._behind.get(partition)
        if expected is None:
            self._commits.note(partition, self._name, f"begins at {offset}")
            self._check_begin(partition, offset)
        elif offset != expected.offset:
            self._wrong.append(
                f"{place} was read where {expected.offset} comes next\n{self._commits.journal(partition)}"
            )
        self._behind[partition] = behind(message)

    def _check_begin(self, partition: int, offset: int) -> None:
        standing = self._begins.get(partition)
        if standing is not None and not standing.allows(offset):
            journal = self._commits.journal(partition)
            self._wrong.append(f"({partition}, {offset}) was read, but {standing} was committed before\n{journal}")


class CommittedReader:
    """Follows a topic of transactions with read_committed while they are decided: what it reads is there for good."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.seen: dict[Place, str] = {}
        self.wrong: list[str] = []
        self.worries = Worries()
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def _follow(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "committed",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
                "error_cb": self.worries.hear,
            }
        )
        consumer.assign([TopicPartition(self._topic, partition, 0) for partition in range(self._partitions)])
        last: dict[int, int] = {}
        while not self._over.is_set():
            message = consumer.poll(POLL_SECONDS)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                self.worries.hear(error)
                continue
            partition, offset = place = place_of(message)
            if offset <= last.get(partition, NOTHING):
                self.wrong.append(f"{place} was read after offset {last[partition]}")
            last[partition], self.seen[place] = offset, text_of(message)
        consumer.close()

    def check(self, written: Mapping[Place, str]) -> None:
        """With all that is committed in the end."""
        wait_until(lambda: len(self.seen) >= len(written), "all that is committed was seen", SECONDS, 0.2)
        assert self.wrong == [], self.wrong[:10]
        self.worries.check()
        must_be_there(self.seen, written)

    def end(self) -> None:
        self._over.set()
        self._thread.join()


def must_be_there(seen: Mapping[Place, str], written: Mapping[Place, str]) -> None:
    differing = {place: value for place, value in seen.items() if written.get(place) != value}
    assert differing == {}, f"read, but not there at the end: {list(differing.items())[:10]}"


def place_of(message: Message) -> Place:
    partition, offset = message.partition(), message.offset()
    assert partition is not None
    assert offset is not None
    return partition, offset


def behind(message: Message) -> TopicPartition:
    topic, (partition, offset), epoch = message.topic(), place_of(message), message.leader_epoch()
    assert topic is not None
    return TopicPartition(topic, partition, offset + 1, leader_epoch=-1 if epoch is None else epoch)


def text_of(message: Message) -> str:
    value = message.value()
    assert value is not None
    return value.decode() if isinstance(value, bytes) else value
