"""A member of a consumer group as a process of its own, which can be stopped, killed and paused.

    python -m tests.support.group_worker CLIENT ADDRESS GROUP TOPIC STRATEGY SESSION_MS NAME [INSTANCE]

Prints what happens, a line each, as JSON: {"assigned": [[topic, partition], …]} with all it has after a rebalance, and
{"records": [[partition, offset], …]}. Ends cleanly on SIGTERM: commits, leaves the group.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

HEARTBEAT_PART = 4
POLL_SECONDS = 0.1
#: kafka-python loses its place if a join is answered between two polls: its heartbeats stay off for good.
PATIENT_POLL_SECONDS = 5.0


class Job(NamedTuple):
    address: str
    group: str
    topic: str
    strategy: str
    session_ms: int
    name: str
    instance: str | None = None


class Ending:
    def __init__(self) -> None:
        self.wanted = False
        signal.signal(signal.SIGTERM, self._wanted)

    def _wanted(self, *_: object) -> None:
        self.wanted = True


def tell(**what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def tell_assigned(partitions: Iterable[tuple[str, int]]) -> None:
    tell(assigned=sorted(partitions))


def tell_records(records: Iterable[tuple[int, int]]) -> None:
    tell(records=list(records))


def run_confluent(job: Job) -> None:
    from confluent_kafka import Consumer, KafkaError

    settings: dict[str, Any] = {
        "bootstrap.servers": job.address,
        "group.id": job.group,
        "client.id": job.name,
        "partition.assignment.strategy": job.strategy,
        "session.timeout.ms": job.session_ms,
        "heartbeat.interval.ms": job.session_ms // HEARTBEAT_PART,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": 200,
        "topic.metadata.refresh.interval.ms": 500,
        "reconnect.backoff.max.ms": 200,
        "log_level": 0,
    }
    if job.instance:
        settings["group.instance.id"] = job.instance
    consumer = Consumer(settings)

    is_incremental = job.strategy == "cooperative-sticky"
    mine: set[tuple[str, int]] = set()

    def changed(consumer: Consumer, partitions: Any) -> None:
        if is_incremental:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)
            mine.clear()
        mine.update((each.topic, each.partition) for each in partitions)
        tell_assigned(mine)

    def taken(consumer: Consumer, partitions: Any) -> None:
        if is_incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()
        mine.difference_update((each.topic, each.partition) for each in partitions)
        tell_assigned(mine)

    ending = Ending()
    consumer.subscribe([job.topic], on_assign=changed, on_revoke=taken)
    while not ending.wanted:
        records = consumer.consume(500, POLL_SECONDS)
        errors = [each.error() for each in records if each.error() is not None]
        fatal = [error for error in errors if error.code() == KafkaError._FATAL]
        if fatal:
            tell(fatal=fatal[0].str())
            return
        good = [(each.partition(), each.offset()) for each in records if each.error() is None]
        if good:
            tell_records(good)
    consumer.close()


def run_kafka_python(job: Job) -> None:
    import kafka
    from kafka.coordinator.assignors.range import RangePartitionAssignor
    from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment

    class Listener(kafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            tell_assigned([])

        def on_partitions_assigned(self, assigned: Any) -> None:
            tell_assigned((each.topic, each.partition) for each in assigned)

    class Greedy(RangePartitionAssignor):
        """An assignor of a user's own: the first member has everything."""

        name = "greedy"

        @classmethod
        def assign(cls, cluster: Any, members: Any) -> Any:
            first = min(members, key=lambda member: member.member_id)
            none = {each.member_id: ConsumerProtocolAssignment(cls.version, [], b"") for each in members}
            return {**none, **RangePartitionAssignor.assign(cluster, [first])}

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor, "greedy": Greedy}
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=job.address,
        group_id=job.group,
        client_id=job.name,
        partition_assignment_strategy=[assignors[job.strategy]],
        session_timeout_ms=job.session_ms,
        heartbeat_interval_ms=job.session_ms // HEARTBEAT_PART,
        max_poll_interval_ms=60_000,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        metadata_max_age_ms=500,
    )
    ending = Ending()
    consumer.subscribe([job.topic], listener=Listener())
    while not ending.wanted:
        try:
            found = consumer.poll(timeout_ms=int(PATIENT_POLL_SECONDS * 1000))
        except kafka.errors.KafkaConnectionError:
            # The client lets its user know that the broker is away.
            continue
        records = [(each.partition, each.offset) for batch in found.values() for each in batch]
        if records:
            tell_records(records)
    consumer.close()


async def run_aiokafka(job: Job) -> None:
    import aiokafka
    from aiokafka.coordinator.assignors.range import RangePartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor

    class Listener(aiokafka.ConsumerRebalanceListener):
        def on_partitions_revoked(self, revoked: Any) -> None:
            tell_assigned([])

        def on_partitions_assigned(self, assigned: Any) -> None:
            tell_assigned((each.topic, each.partition) for each in assigned)

    assignors = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=job.address,
        group_id=job.group,
        client_id=job.name,
        partition_assignment_strategy=[assignors[job.strategy]],
        session_timeout_ms=job.session_ms,
        heartbeat_interval_ms=job.session_ms // HEARTBEAT_PART,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=200,
        metadata_max_age_ms=500,
    )
    ending = Ending()
    consumer.subscribe([job.topic], listener=Listener())
    await consumer.start()
    while not ending.wanted:
        found = await consumer.getmany(timeout_ms=int(POLL_SECONDS * 1000))
        records = [(each.partition, each.offset) for batch in found.values() for each in batch]
        if records:
            tell_records(records)
    await consumer.stop()


def main() -> None:
    client, address, group, topic, strategy, session_ms, name, *instance = sys.argv[1:]
    job = Job(address, group, topic, strategy, int(session_ms), name, *instance)
    if client == "confluent":
        run_confluent(job)
    elif client == "kafka-python":
        run_kafka_python(job)
    else:
        asyncio.run(run_aiokafka(job))


if __name__ == "__main__":
    main()
