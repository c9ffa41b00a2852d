"""The catalogue: every case with its load, its figures and their goals. A goal is a ratio to Apache Kafka's figure."""

from __future__ import annotations

import resource
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from bench.coordination import (
    ClassicJoin,
    Commits,
    ConsumerJoin,
    Heartbeats,
    JavaTransactions,
    LoadOffsets,
    ManyTopics,
    Transactions,
)
from bench.doors import Handshakes, Logins
from bench.figures import Figure, Goal, at_least, at_most, under
from bench.load import Load
from bench.scenarios import (
    CleanStart,
    IdleConnections,
    Memory,
    RestartAfterKill,
    Scenario,
    SmallRequests,
    Throughput,
)

QUICK_SHARE = 10
IDLE_CONNECTIONS = 10_000
# File handles that broker and load generator need besides the connections.
OTHER_HANDLES = 500
SMALL, LARGE = 100, 1000
A_SIXTH = 1 / 6
JOINING = 100
HELD_MEMBERS = 5_000
COMMITTED_OFFSETS = 1_000_000


@dataclass(frozen=True, slots=True)
class Case:
    """One thing to measure. `name` is what --only takes, `title` what the report shows."""

    name: str
    title: str
    scenario: Scenario
    figures: tuple[Figure, ...]
    locked: bool = False
    """Whether it runs on brokers whose listeners have TLS and logins."""


@dataclass(frozen=True, slots=True)
class ThroughputGoals:
    produce_rate: Goal | None = None
    produce_cpu: Goal | None = None
    consume_rate: Goal | None = None
    consume_cpu: Goal | None = None


GOALS = {
    (SMALL, "none", "1"): ThroughputGoals(at_least(1.0), at_most(0.5), at_least(1.0), at_most(0.75)),
    (LARGE, "none", "1"): ThroughputGoals(at_least(1.5), at_most(0.4), at_least(1.0), at_most(0.75)),
    (LARGE, "lz4", "1"): ThroughputGoals(produce_cpu=at_most(0.5)),
    (LARGE, "lz4", "all"): ThroughputGoals(produce_cpu=at_most(0.5)),
}
WITHOUT_GOALS = ThroughputGoals()


def catalogue(quick: bool = False) -> list[Case]:
    """Every case; quick ones do a tenth of the work."""
    share = QUICK_SHARE if quick else 1
    return [
        *_throughput_cases(share),
        *_request_cases(share),
        *_locked_cases(share),
        *_partition_cases(share),
        *_life_cases(share),
        *_memory_cases(share),
        *_administration_cases(share),
        *_coordinator_cases(share),
    ]


def chosen(cases: Sequence[Case], patterns: Sequence[str]) -> list[Case]:
    """The cases whose names fit a pattern (with * and ?), all without any; a pattern that fits none is refused."""
    unknown = [pattern for pattern in patterns if not any(fnmatchcase(case.name, pattern) for case in cases)]
    if unknown:
        known = " ".join(case.name for case in cases)
        raise ValueError(f"no case is called {', '.join(unknown)}; there are: {known}")
    return [case for case in cases if not patterns or any(fnmatchcase(case.name, each) for each in patterns)]


def _throughput_cases(share: int) -> Iterator[Case]:
    for size, count in ((SMALL, 5_000_000), (LARGE, 1_000_000)):
        for codec in ("none", "lz4"):
            for acks in ("1", "all"):
                load = Load(count // share, size=size, codec=codec, acks=acks)
                goals = GOALS.get((size, codec, acks), WITHOUT_GOALS)
                figures = _direction("produce", size, goals.produce_rate, goals.produce_cpu)
                reads = acks == "1"  # what is stored is the same, and so is reading it
                if reads:
                    figures += _direction("consume", size, goals.consume_rate, goals.consume_cpu)
                name = f"{'100b' if size == SMALL else '1kb'}-{codec}-{acks}"
                title = f"{'100 B' if size == SMALL else '1 KB'}, {codec}, acks={acks}, {load.count:,} messages"
                yield Case(name, title, Throughput(load, consume=reads), figures)


def _direction(name: str, size: int, rate: Goal | None, cpu: Goal | None) -> tuple[Figure, ...]:
    in_messages = size == SMALL
    return (
        Figure(
            f"{name}_msgs" if in_messages else f"{name}_mb", f"{name} rate", "msg/s" if in_messages else "MB/s", rate
        ),
        Figure(f"{name}_cpu_gb", f"{name}, broker CPU", "s/GB", cpu),
        Figure(f"{name}_client_gb", f"{name}, client CPU", "s/GB"),
    )


def _request_cases(share: int) -> Iterator[Case]:
    one_each = Load(100_000 // share, linger_ms=0)
    pipelined = replace(one_each, settings=("batch.num.messages=1",))
    yield Case(
        "pipelined",
        f"one 100 B message per request, pipelined, {pipelined.count:,} requests",
        SmallRequests(pipelined),
        (Figure("requests", "rate", "req/s", at_least(3.0)), *_request_cpu(None)),
    )
    for producers, count in ((1, 20_000), (8, 80_000), (32, 96_000)):
        load = replace(one_each, count=count // share, threads=producers)
        yield Case(
            f"sync-{producers}",
            f"{producers} synchronous producer{'s' if producers > 1 else ''}, {load.count:,} requests of 100 B",
            SmallRequests(load, synchronous=True),
            (Figure("requests", "rate", "req/s"), *_latencies(at_most(1.0)), *_request_cpu(at_most(1.0))),
        )
    steady = replace(one_each, count=20_000 // share, size=LARGE, rate=2_000)
    yield Case(
        "steady",
        f"a steady {steady.rate:,} messages of 1 KB per second, {steady.count:,} messages",
        SmallRequests(steady),
        (*_latencies(at_most(1.0)), *_request_cpu(None)),
    )


def _latencies(p99: Goal | None) -> tuple[Figure, ...]:
    return Figure("p50_us", "latency p50", "µs"), Figure("p99_us", "latency p99", "µs", p99)


def _request_cpu(broker: Goal | None) -> tuple[Figure, ...]:
    return Figure("cpu_us", "broker CPU", "µs/req", broker), Figure("client_us", "client CPU", "µs/req")


def _locked_cases(share: int) -> Iterator[Case]:
    load = Load(1_000_000 // share, size=LARGE)
    yield Case(
        "tls",
        f"1 KB over TLS, none, acks=1, {load.count:,} messages",
        Throughput(load),
        _direction("produce", LARGE, at_least(1.0), at_most(0.8))
        + _direction("consume", LARGE, at_least(1.0), at_most(0.8)),
        locked=True,
    )
    handshakes = Handshakes(4_000 // share)
    yield Case(
        "handshakes",
        f"{handshakes.count:,} TLS handshakes, 4 at a time, each with one request",
        handshakes,
        (Figure("handshakes", "rate", "per s"), Figure("handshake_cpu_us", "broker CPU", "µs each")),
        locked=True,
    )
    steady = Load(4_000 // share, size=SMALL, linger_ms=0, rate=1_000)
    logins = Logins(8_000 // share, steady)
    yield Case(
        "logins",
        f"{logins.count:,} logins with SCRAM-SHA-256, 4 at a time, then beside {steady.rate:,} messages per second",
        logins,
        (
            Figure("logins", "rate", "per s"),
            Figure("login_cpu_us", "broker CPU", "µs each"),
            Figure("alone_p99_us", "another client alone, p99", "µs"),
            Figure("beside_p50_us", "beside logins, p50", "µs"),
            Figure("beside_p99_us", "beside logins, p99", "µs", at_most(1.0)),
        ),
        locked=True,
    )


def _partition_cases(share: int) -> Iterator[Case]:
    for partitions in (1, 12, 100, 500):
        load = Load(2_000_000 // share, size=SMALL, partitions=partitions)
        yield Case(
            f"partitions-{partitions}",
            f"{partitions} partition{'s' if partitions > 1 else ''}, 100 B, none, acks=1, {load.count:,} messages",
            Throughput(load),
            _direction("produce", SMALL, None, None) + _direction("consume", SMALL, None, None),
        )


def _life_cases(share: int) -> Iterator[Case]:
    yield Case(
        "start",
        "start on an empty folder to the first Metadata answer",
        CleanStart(),
        (Figure("start_s", "time", "s", at_most(0.2)), Figure("start_cpu_s", "broker CPU", "s")),
    )
    for name, title, count, goal in (
        ("restart-small", "10 MB", 10_000, under(1.0)),
        ("restart-large", "1 GB", 1_000_000, None),
    ):
        load = Load(count // share, size=LARGE, partitions=4)
        yield Case(
            name,
            f"restart after SIGKILL with {title if share == 1 else 'a tenth of ' + title} of log in 4 partitions, "
            "until all is served",
            RestartAfterKill(load),
            (Figure("restart_s", "time", "s", goal), Figure("restart_cpu_s", "broker CPU", "s")),
        )


def _memory_cases(share: int) -> Iterator[Case]:
    loads = (Load(5_000_000 // share, size=SMALL), Load(1_000_000 // share, size=LARGE, partitions=12))
    yield Case(
        "memory",
        f"memory (RSS); the load is {sum(load.payload_bytes for load in loads) / 1e9:g} GB in and out",
        Memory(loads),
        (
            Figure("rest_mb", "at rest", "MB", at_most(A_SIXTH)),
            Figure("loaded_mb", "after the load", "MB", at_most(A_SIXTH)),
            Figure("rest_cpu_percent", "CPU at rest", "%"),
        ),
    )
    connections = min(IDLE_CONNECTIONS // share, file_limit() - OTHER_HANDLES)
    yield Case(
        "idle",
        f"{connections:,} idle connections",
        IdleConnections(connections),
        (
            Figure("held_mb", "memory (RSS)", "MB", at_most(A_SIXTH)),
            Figure("per_connection_kb", "memory per connection", "KB"),
            Figure("open_cpu_us", "broker CPU to open one", "µs"),
        ),
    )


def _administration_cases(share: int) -> Iterator[Case]:
    for count, partitions in ((20_000, 4), (5_000, 64), (500, 1_000)):
        commits = Commits(count // share, partitions)
        yield Case(
            "commits" if partitions == 4 else f"commits-{partitions}",
            f"{commits.count:,} offset commits of {commits.partitions:,} partitions, 8 under way",
            commits,
            (
                Figure("commits", "rate", "req/s", at_least(1.5)),
                Figure("commit_cpu_us", "broker CPU", "µs/req", at_most(0.5)),
            ),
        )
    many = ManyTopics(2_000 // share)
    yield Case(
        "many-topics",
        f"{many.count:,} topics of {many.partitions} partitions, by Java's administrator, a hundred in a request",
        many,
        (
            Figure("created", "created", "s", at_most(1.0)),
            Figure("described", "described", "s", at_most(1.0)),
            Figure("deleted", "deleted", "s", at_most(1.0)),
            Figure("topics_cpu_ms", "broker CPU", "ms/topic"),
        ),
    )


def _coordinator_cases(share: int) -> Iterator[Case]:
    yield Case(
        "join-classic",
        f"{JOINING} members join one group at once and then all again, classic protocol",
        ClassicJoin(JOINING),
        (
            Figure("join_s", "first join, delay of 3 s", "s"),
            Figure("again_s", "rebalance", "s"),
            Figure("join_cpu_s", "broker CPU", "s"),
        ),
    )
    yield Case(
        "join-consumer",
        f"{JOINING} members join one group at once, consumer protocol",
        ConsumerJoin(JOINING),
        (Figure("join_s", "time", "s"), Figure("join_cpu_s", "broker CPU", "s")),
    )
    transactions = Transactions(1_000 // share)
    yield Case(
        "transactions",
        f"{transactions.count:,} transactions of one record, one after the other",
        transactions,
        (*_latencies(None), Figure("cpu_us", "broker CPU", "µs/txn")),
    )
    for producers, count in ((1, 2_000), (8, 500)):
        yield Case(
            f"java-transactions-{producers}",
            f"{producers} Java producer{'s' if producers > 1 else ''}, {count // share:,} transactions of one record "
            "each, one behind the other",
            JavaTransactions(count // share, producers),
            (Figure("txns", "rate", "txn/s", at_least(1.5)), Figure("cpu_us", "broker CPU", "µs/txn")),
        )
    steady = Load(20_000 // share, size=LARGE, rate=2_000, linger_ms=0)
    members = HELD_MEMBERS // share
    yield Case(
        "heartbeats",
        f"a steady {steady.rate:,} messages of 1 KB per second beside the heartbeats of {members:,} members",
        Heartbeats(members, steady),
        (
            Figure("alone_p99_us", "produce p99, alone", "µs"),
            Figure("beside_p50_us", "produce p50, beside them", "µs"),
            Figure("beside_p99_us", "produce p99, beside them", "µs", at_most(1.0)),
            Figure("beside_cpu_percent", "broker CPU", "%"),
        ),
    )
    stored = COMMITTED_OFFSETS // share
    yield Case(
        "load-offsets",
        f"restart with {stored:,} committed offsets, until every group is answered",
        LoadOffsets(stored),
        (Figure("load_s", "time", "s", at_most(0.5)), Figure("load_cpu_s", "broker CPU", "s")),
    )


def file_limit() -> int:
    """How many files a process here may be allowed to open."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return hard if hard != resource.RLIM_INFINITY else 1 << 20
