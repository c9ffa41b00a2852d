"""A transactional producer that never pauses: what it commits is there once and in order with the offsets that belong
to it, what it aborts is not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import TracebackType

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.looking import QUIET, partitions_of, read_all
from tests.cluster.worries import Worries
from tests.support.waiting import wait_until

RECORDS = 10
ABORTED_EVERY = 7
SECONDS = 60.0


class Transactions:
    """Numbers, a few in each transaction, to the partitions in turn. The group's offset in partition 0 is the number of
    the next record, as that of a program would be that reads what it writes from there."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self._cluster, self._topic = cluster, topic
        self._partitions = len(partitions_of(cluster, topic))
        self.committed: list[int] = []
        self.failed: list[str] = []
        self.worries = Worries()
        self._stopping = threading.Event()
        common = {"bootstrap.servers": cluster.bootstrap, "error_cb": self.worries.hear, **QUIET}
        self._producer = Producer(
            {"transactional.id": topic, "retry.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "linger.ms": 1}
            | common
        )
        self._group = Consumer({"group.id": topic, "enable.auto.commit": False} | common)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Transactions:
        self._thread.start()
        self.go_on()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
        try:
            if kind is None:
                assert self.failed == [], self.failed
                self.worries.check()
                self._check()
        finally:
            self._group.close()

    def go_on(self, more: int = 5 * RECORDS) -> None:
        """Waits until so many further records are committed."""
        goal = len(self.committed) + more
        wait_until(lambda: self.failed or len(self.committed) >= goal, f"{more} more committed records", SECONDS)
        assert self.failed == [], self.failed

    def _run(self) -> None:
        try:
            patiently(lambda: self._producer.init_transactions(SECONDS))
            number = 0
            while not self._stopping.is_set():
                self._transact(range(number, number + RECORDS))
                number += RECORDS
        except KafkaException as error:
            self.failed.append(str(error))

    def _transact(self, numbers: range) -> None:
        self._producer.begin_transaction()
        for each in numbers:
            self._producer.produce(self._topic, str(each), partition=each % self._partitions)
        group = self._group.consumer_group_metadata()
        offsets = [TopicPartition(self._topic, 0, numbers.stop)]
        patiently(lambda: self._producer.send_offsets_to_transaction(offsets, group, SECONDS))
        if numbers.start // RECORDS % ABORTED_EVERY == ABORTED_EVERY - 1:
            patiently(lambda: self._producer.abort_transaction(SECONDS))
        else:
            patiently(lambda: self._producer.commit_transaction(SECONDS))
            self.committed += numbers

    def _check(self) -> None:
        found = read_all(self._cluster, self._topic)
        for partition, records in found.items():
            wanted = [each for each in self.committed if each % self._partitions == partition]
            assert [int(value) for _, value in records] == wanted, f"what is committed in partition {partition}"
        (place,) = self._group.committed([TopicPartition(self._topic, 0)], timeout=SECONDS)
        assert place.offset == self.committed[-1] + 1, f"the group's offset is {place.offset}"


def patiently(call: Callable[[], None]) -> None:
    """Again as long as the client says that the same call may succeed later."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
