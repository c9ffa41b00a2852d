"""The catalogue for clusters. A goal is a ratio to three Apache Kafka brokers in the same run."""

from __future__ import annotations

from dataclasses import dataclass

from bench.cluster.many import ManyPartitions
from bench.cluster.scenarios import ControllerKilled, LeaderKilled, LeaderKilledUnderJava, Replicated, Scenario, Start
from bench.figures import Figure, at_least, at_most, under
from bench.load import Load

QUICK_SHARE = 10
PARTITIONS = 6
A_QUARTER = 0.25


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    title: str
    scenario: Scenario
    figures: tuple[Figure, ...]


def catalogue(quick: bool = False) -> list[Case]:
    share = QUICK_SHARE if quick else 1
    produced = Load(1_000_000 // share, size=1000, acks="all", partitions=PARTITIONS)
    steady = Load(
        30_000 // share,
        size=1000,
        acks="all",
        partitions=PARTITIONS,
        rate=3_000,
        settings=("enable.idempotence=true",),
    )
    copies = "three copies, acks=all, at least two in sync"
    return [
        Case(
            "produce",
            f"{produced.count:,} messages of 1 KB into {PARTITIONS} partitions, {copies}",
            Replicated(produced),
            (
                Figure("produce_mb", "rate", "MB/s", at_least(1.5)),
                Figure("produce_cpu_gb", "CPU of all brokers", "s/GB", at_most(0.5)),
                Figure("produce_client_gb", "client CPU", "s/GB"),
                Figure("memory_mb", "memory afterwards (RSS)", "MB", at_most(A_QUARTER)),
            ),
        ),
        Case(
            "steady",
            f"a steady {steady.rate:,} messages of 1 KB per second, {steady.count:,} messages, idempotent, {copies}",
            Replicated(steady),
            (
                Figure("p50_us", "latency p50", "µs"),
                Figure("p99_us", "latency p99", "µs", at_most(1.0)),
                Figure("p999_us", "latency p99.9", "µs"),
                Figure("produce_cpu_us", "CPU of all brokers", "µs/msg"),
            ),
        ),
        *killed(),
        Case(
            "start",
            "start of the whole cluster, ZooKeeper included, and three copies in sync",
            Start(),
            (
                Figure("up_s", "all brokers answer", "s"),
                Figure("usable_s", "first topic in sync", "s"),
                Figure("rest_mb", "memory at rest (RSS)", "MB", at_most(A_QUARTER)),
                Figure("rest_cpu_percent", "CPU at rest", "%"),
            ),
        ),
        many_partitions(quick),
    ]


def killed() -> list[Case]:
    return [
        Case(
            "leader-killed",
            "SIGKILL of a leader: longest time without an acknowledgement, librdkafka with quick retries",
            LeaderKilled(),
            (Figure("gap_s", "gap", "s", under(1.0)),),
        ),
        Case(
            "leader-killed-java",
            "the same with Java's producer, at its defaults but for quick retries",
            LeaderKilledUnderJava(),
            (Figure("gap_s", "gap", "s", under(1.0)),),
        ),
        Case(
            "controller-killed",
            "SIGKILL of the controller: until a topic can be created again",
            ControllerKilled(),
            (Figure("gap_s", "gap", "s", at_most(1.0)),),
        ),
    ]


def many_partitions(quick: bool) -> Case:
    topics, per_topic = (2, 200) if quick else (10, 1_000)
    return Case(
        "partitions",
        f"{topics * per_topic:,} partitions in {topics} topics, three copies each",
        ManyPartitions(topics, per_topic),
        (
            Figure("created_s", "created and in sync", "s"),
            Figure("broker_lost_s", "SIGKILL of a broker, until others lead", "s"),
            Figure("controller_lost_s", "SIGKILL of the controller, the same", "s"),
            Figure("started_s", "start of a killed broker", "s"),
            Figure("back_s", "… and it is in sync everywhere", "s"),
            Figure("rest_mb", "memory at rest (RSS)", "MB"),
            Figure("serving_loop_ms", "event loop held while they are made (CPU)", "ms", under(100.0)),
            Figure("lost_loop_ms", "event loop held while brokers are lost (CPU)", "ms", under(100.0)),
            Figure("created_wait_ms", "longest wait for ApiVersions while they are made", "ms"),
            Figure("lost_wait_ms", "… while a broker is lost", "ms"),
        ),
    )
