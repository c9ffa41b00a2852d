"""How the coordinators are measured: commits, joins, transactions, heartbeats beside a load, offsets read at start."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

from confluent_kafka import Producer

from bench.committing import commit_frame, committers
from bench.group_clients import ClassicGroup, connections, join_consumer, settings
from bench.load import Load, LoadFailed
from bench.measure import Watch, clients_cpu_seconds, cpu_seconds
from bench.outcomes import Values
from bench.peers import Topics
from bench.scenarios import SERVED_SECONDS, Stage
from moldau.client.cluster import Cluster, CoordinatorKind
from moldau.client.errors import ConnectionLost
from moldau.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from tests.peers.java_programs import CLIENTS
from tests.peers.java_programs import run as run_java
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

COMMITTERS = 8
COMMITTING_GROUPS = 200
NAMES_IN_REQUESTS = 9
"""The last OffsetFetch version that names topics instead of giving their ids."""
OFFSETS_PER_COMMIT = 100
GROUPS_PER_FETCH = 500
TRANSACTION_SECONDS = 60.0


def wait_for_coordinators(broker: BrokerProcess) -> None:
    """The first request that asks for a coordinator makes its topic; then each of its partitions takes up its work."""
    with Cluster(settings(broker.address)) as cluster:
        cluster.retrying(lambda: cluster.coordinator(CoordinatorKind.GROUP, "any"))
    wait_for_groups(broker, GROUPS_PER_FETCH)


@dataclass(frozen=True, slots=True)
class Commits:
    """Offsets of a few partitions for many groups, eight commits under way."""

    standing: ClassVar[bool] = True
    count: int
    partitions: int = 4

    def run(self, stage: Stage) -> Values:
        topics = Topics(stage.broker)
        topics.create(stage.topic, self.partitions)
        wait_for_coordinators(stage.broker)
        with committers(stage.broker.address, COMMITTERS) as clients:
            clients.commit_all(self._frames(stage, COMMITTERS * 50))
            frames = self._frames(stage, self.count)
            with Watch(stage.broker.pid) as watch:
                done = clients.commit_all(frames)
        topics.delete(stage.topic)
        return {
            "commits": done / watch.seconds,
            "commit_cpu_us": watch.broker_cpu / done * 1e6,
        }

    def _frames(self, stage: Stage, count: int) -> list[bytes]:
        return [commit_frame(n, f"g{n % COMMITTING_GROUPS}", stage.topic, self.partitions) for n in range(count)]


@dataclass(frozen=True, slots=True)
class ClassicJoin:
    """Many members join one group at once (the initial delay is part of it), then all join again at once."""

    standing: ClassVar[bool] = True
    members: int

    def run(self, stage: Stage) -> Values:
        wait_for_coordinators(stage.broker)
        with connections(stage.broker.address, self.members) as opened:
            group = ClassicGroup(f"join-{stage.topic}", opened)
            with Watch(stage.broker.pid) as joining:
                group.join()
            with Watch(stage.broker.pid) as again:
                group.rebalance()
        return {
            "join_s": joining.seconds,
            "again_s": again.seconds,
            "join_cpu_s": joining.broker_cpu + again.broker_cpu,
        }


@dataclass(frozen=True, slots=True)
class ConsumerJoin:
    """From the first heartbeat of many members that join one group at once until all are in its last epoch."""

    standing: ClassVar[bool] = True
    members: int

    def run(self, stage: Stage) -> Values:
        topics = Topics(stage.broker)
        topics.create(stage.topic, self.members)
        wait_for_coordinators(stage.broker)
        with connections(stage.broker.address, self.members) as opened, Watch(stage.broker.pid) as watch:
            join_consumer(f"join-{stage.topic}", stage.topic, opened)
        topics.delete(stage.topic)
        return {"join_s": watch.seconds, "join_cpu_s": watch.broker_cpu}


@dataclass(frozen=True, slots=True)
class Transactions:
    """One record in one transaction after the other: from its begin to the answer to its commit."""

    standing: ClassVar[bool] = True
    count: int

    def run(self, stage: Stage) -> Values:
        topics = Topics(stage.broker)
        topics.create(stage.topic, 1)
        producer = Producer(
            {"bootstrap.servers": stage.broker.address, "transactional.id": stage.topic, "linger.ms": 0, "log_level": 0}
        )
        producer.init_transactions(TRANSACTION_SECONDS)
        for _ in range(10):
            commit_one(producer, stage.topic)
        with Watch(stage.broker.pid) as watch:
            taken = sorted(commit_one(producer, stage.topic) for _ in range(self.count))
        topics.delete(stage.topic)
        return {
            "p50_us": statistics.median(taken) * 1e6,
            "p99_us": taken[int(len(taken) * 0.99)] * 1e6,
            "cpu_us": watch.broker_cpu / self.count * 1e6,
        }


def commit_one(producer: Producer, topic: str) -> float:
    started = time.perf_counter()
    producer.begin_transaction()
    producer.produce(topic, b"x" * 100)
    producer.commit_transaction(TRANSACTION_SECONDS)
    return time.perf_counter() - started


@dataclass(frozen=True, slots=True)
class JavaTransactions:
    """Java's producers, each with one record in one transaction after the other, without a pause."""

    standing: ClassVar[bool] = True
    count: int
    producers: int

    def run(self, stage: Stage) -> Values:
        topics = Topics(stage.broker)
        topics.create(stage.topic, self.producers)
        with Watch(stage.broker.pid) as watch:
            printed = self._loop(stage)
        topics.delete(stage.topic)
        seconds = int(printed[-1].split()[1]) / 1000
        all_of_them = self.count * self.producers
        return {"txns": all_of_them / seconds, "cpu_us": watch.broker_cpu / (2 * all_of_them) * 1e6}

    def _loop(self, stage: Stage) -> list[str]:
        given = {"bootstrap": stage.broker.address, "topic": stage.topic, "id": stage.topic, "count": self.count,
                 "warm": self.count, "producers": self.producers}  # fmt: skip
        try:
            return run_java("TransactionLoop", CLIENTS, *(f"{name}={value}" for name, value in given.items()))
        except AssertionError as error:
            raise LoadFailed(f"{stage.broker.name}: {error}") from error


@dataclass(frozen=True, slots=True)
class ManyTopics:
    """Java's administrator creates, describes and deletes topics, a hundred in each request."""

    standing: ClassVar[bool] = True
    count: int
    partitions: int = 3

    def run(self, stage: Stage) -> Values:
        given = {"bootstrap": stage.broker.address, "topic": stage.topic, "count": self.count,
                 "partitions": self.partitions}  # fmt: skip
        with Watch(stage.broker.pid) as watch:
            try:
                printed = run_java("ManyTopics", CLIENTS, *(f"{name}={value}" for name, value in given.items()))
            except AssertionError as error:
                raise LoadFailed(f"{stage.broker.name}: {error}") from error
        took = {what: int(milliseconds) / 1000 for what, milliseconds in map(str.split, printed)}
        return {**took, "topics_cpu_ms": watch.broker_cpu / self.count * 1e3}


@dataclass(frozen=True, slots=True)
class Heartbeats:
    """A steady produce load, alone and beside many members that send heartbeats."""

    standing: ClassVar[bool] = False
    members: int
    load: Load

    def run(self, stage: Stage) -> Values:
        broker = stage.broker
        Topics(broker).create(stage.topic, 1)
        Topics(broker).create(f"{stage.topic}-held", 10)
        wait_for_coordinators(broker)
        stage.generator.produce(broker.address, stage.topic, self.load)
        alone = stage.generator.produce(broker.address, stage.topic, self.load)
        with held_members(broker.address, f"{stage.topic}-held", self.members):
            before = cpu_seconds(broker.pid), clients_cpu_seconds(), time.monotonic()
            beside = stage.generator.produce(broker.address, stage.topic, self.load)
            seconds = time.monotonic() - before[2]
            used = cpu_seconds(broker.pid) - before[0]
        return {
            "alone_p99_us": alone.p99_us,
            "beside_p50_us": beside.p50_us,
            "beside_p99_us": beside.p99_us,
            "beside_cpu_percent": used / seconds * 100,
        }


@contextmanager
def held_members(address: str, topic: str, count: int) -> Iterator[None]:
    command = [sys.executable, "-m", "bench.group_clients", address, topic, str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        if process.stdout.readline() != "ready\n":
            raise LoadFailed(f"{count} members could not join")
        yield
        if process.poll() is not None:
            raise LoadFailed(f"the members ended with {process.returncode}")
        process.stdin.close()


@dataclass(frozen=True, slots=True)
class LoadOffsets:
    """A restart with many committed offsets, until every group is answered again."""

    standing: ClassVar[bool] = False
    offsets: int

    def run(self, stage: Stage) -> Values:
        broker, groups = stage.broker, self.offsets // OFFSETS_PER_COMMIT
        Topics(broker).create(stage.topic, OFFSETS_PER_COMMIT)
        wait_for_coordinators(broker)
        with committers(broker.address, COMMITTERS) as clients:
            clients.commit_all([commit_frame(n, f"g{n}", stage.topic, OFFSETS_PER_COMMIT) for n in range(groups)])
        broker.stop()
        started = time.monotonic()
        broker.start()
        wait_for_groups(broker, groups)
        return {"load_s": time.monotonic() - started, "load_cpu_s": cpu_seconds(broker.pid)}


def wait_for_groups(broker: BrokerProcess, groups: int) -> None:
    answered = "every group is answered"
    wait_until(lambda: all_groups_answer(broker, groups), answered, seconds=SERVED_SECONDS, pause=0.01)


def all_groups_answer(broker: BrokerProcess, groups: int) -> bool:
    """Asks for one partition of some groups of every coordinator: with hundreds of names each has its share."""
    asked = [
        OffsetFetchRequestGroup(group_id=f"g{n}", topics=[]) for n in range(0, groups, -(-groups // GROUPS_PER_FETCH))
    ]
    try:
        with connections(broker.address, 1) as (connection,):
            answer = connection.call(
                OffsetFetchRequest(groups=asked), OffsetFetchResponse, max_version=NAMES_IN_REQUESTS
            )
    except ConnectionLost:
        return False
    return not any(group.error_code for group in answer.groups)
