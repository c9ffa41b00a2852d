"""Breaks a cluster of three ZooKeeper servers and three brokers in many ways under load, and checks every promise.

An idempotent producer with acks=all writes numbers, a consumer group reads them, and workers copy them to another topic
in transactions that hold the offsets too, some of them aborted on purpose. Faults are drawn from a seed, one after the
other; each is healed, and the cluster must be whole again before the next. At the end:
  - every acknowledged record is at the offset that was acknowledged, none is there twice, those of a key are in order;
  - the group has seen every one of them, at no place anything but what is there at the end, has passed over none, and
    what it committed is kept;
  - the copy holds each record exactly once for read_committed: nothing of an aborted transaction, at no time;
  - all replicas are equal byte for byte.

    python -m tests.faults.cluster_chaos --minutes 60 [--seed N] [--only FAULT ...] [--keep DIRECTORY] [--proxies]
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.load import Load
from tests.cluster.looking import create, digests, partitions_of, read_all, wait_until_whole
from tests.faults import namespaces
from tests.faults.cluster_faults import ALL_FAULTS, CUTS, FAULTS, FAULTS_OF_ROOT, Fault, Network, Scene
from tests.faults.cluster_readers import CommittedReader, Readers
from tests.faults.exactly_once import Outcome as CopyOutcome
from tests.faults.exactly_once import Workers
from tests.faults.exactly_once_worker import SOURCE, TARGET, TARGET_PARTITIONS, transformed
from tests.faults.proxies import Proxies
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

SOURCE_PARTITIONS = 3
SETTLE_SECONDS = 180.0
TEND_SECONDS = 0.25
RECORDS_PER_SECOND = 200.0
SETTINGS = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}

Say = Callable[[str], None]


class PromiseBroken(AssertionError):
    """Something was lost, doubled, reordered or differs between replicas."""


@dataclass(frozen=True, slots=True)
class Row:
    """One fault: how long it was until the cluster was whole again, and how long nothing was acknowledged meanwhile."""

    fault: str
    healed_seconds: float
    gap_seconds: float


@dataclass(slots=True)
class Outcome:
    rows: list[Row]
    records: int
    workers_replaced: int

    def __str__(self) -> str:
        by_fault: dict[str, list[Row]] = {}
        for row in self.rows:
            by_fault.setdefault(row.fault, []).append(row)
        lines = [f"{'fault':<34}{'times':>6}{'longest gap':>13}{'median gap':>12}{'slowest to be whole':>21}"]
        for fault, rows in sorted(by_fault.items()):
            gaps = sorted(row.gap_seconds for row in rows)
            slowest = max(row.healed_seconds for row in rows)
            lines.append(
                f"{fault:<34}{len(rows):>6}{gaps[-1]:>11.2f} s{gaps[len(gaps) // 2]:>10.2f} s{slowest:>19.1f} s"
            )
        lines.append(
            f"{self.records} records acknowledged, copied once and equal on all replicas; "
            f"{self.workers_replaced} workers gave up and were replaced"
        )
        return "\n".join(lines)


class Copiers:
    """Looks after the workers of the copy while others wait."""

    def __init__(self, cluster: LocalCluster, folder: Path) -> None:
        self.outcome = CopyOutcome()
        self._workers = Workers(cluster.bootstrap, self.outcome, folder)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tend, daemon=True)
        self._thread.start()

    def _tend(self) -> None:
        while not self._over.wait(TEND_SECONDS):
            self._workers.tend()

    def end(self) -> None:
        self._over.set()
        self._thread.join()
        self._workers.end()


def drawn(chance: random.Random, names: Iterable[str]) -> Iterator[str]:
    """Every fault once in each round, in an order of its own: a short run misses none for long."""
    while True:
        yield from chance.sample(sorted(names), len(list(names)))


def run(
    cluster: LocalCluster,
    seed: int,
    faults: Iterable[str],
    minutes: float,
    say: Say,
    network: Network | None = None,
) -> Outcome:
    """Until the faults are over or the time is, whichever comes first. Raises PromiseBroken."""
    chance, rows = random.Random(seed), []
    end = time.monotonic() + 60 * minutes
    with ExitStack() as ending:
        cluster.start()
        create(cluster, SOURCE, SOURCE_PARTITIONS, min_insync_replicas="2")
        create(cluster, TARGET, TARGET_PARTITIONS, min_insync_replicas="2")
        readers = Readers(cluster.bootstrap, SOURCE)
        ending.callback(readers.end)
        committed = CommittedReader(cluster.bootstrap, TARGET, TARGET_PARTITIONS)
        ending.callback(committed.end)
        copiers = Copiers(cluster, cluster.home)
        ending.callback(copiers.end)
        with Load(cluster, SOURCE, RECORDS_PER_SECOND) as load:
            for name in faults:
                if time.monotonic() > end:
                    break
                rows.append(suffered(name, Scene(cluster, load, chance, SOURCE, network)))
                say(f"{name}: whole after {rows[-1].healed_seconds:.1f} s, gap {rows[-1].gap_seconds:.2f} s")
        say("all faults over; waiting for the copy and the group")
        check(cluster, load, readers, committed)
    return Outcome(rows, len(load.acknowledged), copiers.outcome.workers_ended)


def suffered(name: str, scene: Scene) -> Row:
    scene.load.longest_gap = 0.0
    began = time.monotonic()
    ALL_FAULTS[name](scene)
    scene.wait_until_gone()
    scene.cluster.start()
    wait_until_whole(scene.cluster, SETTLE_SECONDS)
    healed = time.monotonic() - began
    scene.load.goes_on()
    return Row(name, healed, scene.load.longest_gap)


def check(cluster: LocalCluster, load: Load, readers: Readers, committed: CommittedReader) -> None:
    wait_until_whole(cluster, SETTLE_SECONDS)
    load.assert_nothing_lost_or_doubled()
    source = read_all(cluster, SOURCE)
    written = {(partition, offset): value for partition, held in source.items() for offset, value in held}
    wait_until(lambda: len(readers.seen) >= len(written), "the group has seen all", SETTLE_SECONDS, 0.2)
    readers.check(written)
    wanted = sorted(transformed(value.encode()).decode() for value in written.values())

    def copied() -> list[str]:
        return sorted(value for held in read_all(cluster, TARGET).values() for _, value in held)

    wait_until(lambda: len(copied()) >= len(wanted), f"{len(wanted)} records copied", SETTLE_SECONDS, 1.0)
    found = copied()
    if found != wanted:
        doubled = len(found) - len(set(found))
        raise PromiseBroken(
            f"the copy: {doubled} doubled, missing {sorted(set(wanted) - set(found))[:10]}, "
            f"never written {sorted(set(found) - set(wanted))[:10]}"
        )
    target = read_all(cluster, TARGET)
    committed.check({(partition, offset): value for partition, held in target.items() for offset, value in held})
    for topic in (SOURCE, TARGET):
        for partition in partitions_of(cluster, topic):
            equal(cluster, topic, partition)


def equal(cluster: LocalCluster, topic: str, partition: int) -> None:
    wait_until(lambda: len(digests(cluster, topic, partition)) == 1, f"equal replicas of {topic}-{partition}")


def logs_of(cluster: LocalCluster, characters: int = 3000) -> str:
    return "\n".join(
        f"--- {each.name}\n{cluster.log_file(each).read_text(errors='replace')[-characters:]}"
        for each in cluster.brokers
    )


def new_cluster(home: Path, network: Network | None = None) -> LocalCluster:
    if network is None:
        return LocalCluster.make(home, zookeepers=3, settings=SETTINGS, before_start=die_with_parent)
    made = LocalCluster.make(
        home,
        zookeepers=3,
        settings=SETTINGS,
        before_start=die_with_parent,
        host_of=network.host_of,
        wrap=network.wrap,
    )
    network.prepare(made)
    return made


def faults_here() -> Mapping[str, Fault]:
    """Full disks need mounts, which are root's."""
    return ALL_FAULTS if namespaces.can_make_networks() else {**FAULTS, **CUTS}


def network_here(*, proxies: bool = False) -> AbstractContextManager[Network]:
    """Namespaces, which are root's; proxies elsewhere."""
    return Proxies() if proxies or not namespaces.can_make_networks() else namespaces.Network()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument(
        "--only", nargs="+", choices=sorted(faults_here()), default=sorted(faults_here()), help="not any other fault"
    )
    parser.add_argument("--proxies", action="store_true", help="between brokers, as for who is not root")
    parser.add_argument("--keep", type=Path, help="run in this new folder and leave it there")
    chosen = parser.parse_args(arguments)
    print(f"seed {chosen.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory(prefix="moldau-cluster-") as scratch,
        network_here(proxies=chosen.proxies) as network,
    ):
        cluster = new_cluster(chosen.keep or Path(scratch) / "cluster", network)
        names = set(chosen.only) - (FAULTS_OF_ROOT.keys() if chosen.proxies else set())
        faults = drawn(random.Random(chosen.seed), names)
        try:
            print(run(cluster, chosen.seed, faults, chosen.minutes, lambda text: print(text, flush=True), network))
        except AssertionError as error:
            print(f"FAILED with seed {chosen.seed}: {error}\n{logs_of(cluster)}", file=sys.stderr)
            return 1
        finally:
            cluster.kill_all()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
