"""Very many partitions: what creating them, losing brokers and starting them again takes, and how long the event loops
are held meanwhile.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import ClassVar, Self

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cluster.asking import MIN_IN_SYNC, Asking
from bench.cluster.clusters import BROKERS, MeasuredCluster, Member
from bench.cluster.scenarios import Stage
from bench.measure import resident_mb
from bench.outcomes import Values
from bench.scenarios import SETTLE_SECONDS
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

SECONDS = 600.0
LOOK_AGAIN_SECONDS = 0.05
METADATA_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class ManyPartitions:
    """With three copies each. A broker that does not control the cluster is killed and started again, then the one that
    does; each is over when others lead all partitions and no in-sync set names the dead."""

    standing: ClassVar[bool] = False
    topics: int
    partitions: int

    def run(self, stage: Stage) -> Values:
        with stage.cluster as cluster:
            values: dict[str, float] = {}
            with Probes(cluster) as probes:
                view = View(cluster, self.topics * self.partitions)
                values["created_s"] = seconds(lambda: self._create(stage.topic, view))
                values["serving_loop_ms"], values["created_wait_ms"] = probes.longest()
                time.sleep(SETTLE_SECONDS)
                values["rest_mb"] = sum(resident_mb(pid) for pid in cluster.pids)
                controller = Asking(cluster).controller()
                other = next(number for number in cluster.members if number != controller)
                probes.longest()
                values["broker_lost_s"] = lost(cluster, other, view)
                loop_ms, values["lost_wait_ms"] = probes.longest()
            values["started_s"] = seconds(cluster.start)
            values["back_s"] = values["started_s"] + seconds(view.is_whole.wait)
            with Probes(cluster) as probes:
                controller = Asking(cluster).controller()
                values["controller_lost_s"] = lost(cluster, controller, view)
                values["lost_loop_ms"] = max(loop_ms, probes.longest()[0])
        return values if cluster.has_one_loop else {key: each for key, each in values.items() if "_loop_" not in key}

    def _create(self, prefix: str, view: View) -> None:
        config = {"min.insync.replicas": str(MIN_IN_SYNC)}
        for number in range(self.topics):
            topic = NewTopic(f"{prefix}-{number}", self.partitions, BROKERS, config=config)
            made = view.admin.create_topics([topic], operation_timeout=SECONDS, request_timeout=SECONDS)
            made[topic.topic].result(SECONDS)
        view.is_whole.wait()


def lost(cluster: MeasuredCluster, number: int, view: View) -> float:
    def kill_and_wait() -> None:
        cluster.kill_broker(number)
        view.without(number).wait()

    return seconds(kill_and_wait)


def seconds(work: Callable[[], None]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


@dataclass(frozen=True, slots=True)
class Condition:
    holds: Callable[[], bool]
    what: str

    def wait(self) -> None:
        wait_until(self.holds, self.what, SECONDS, LOOK_AGAIN_SECONDS)


class View:
    """All partitions, as some broker tells them."""

    def __init__(self, cluster: MeasuredCluster, count: int) -> None:
        self.admin = AdminClient(
            {
                "bootstrap.servers": cluster.bootstrap,
                "log_level": 0,
                "socket.timeout.ms": 60_000,
                "reconnect.backoff.max.ms": 100,
            }
        )
        self._count = count
        self.is_whole = Condition(
            lambda: self._all(lambda leader, isr: leader >= 0 and len(isr) == BROKERS), "all are in sync"
        )

    def without(self, number: int) -> Condition:
        return Condition(
            lambda: self._all(lambda leader, isr: leader not in (number, -1) and number not in isr),
            f"nothing is left to broker {number}",
        )

    def _all(self, fits: Callable[[int, list[int]], bool]) -> bool:
        with suppress(KafkaException):
            topics = self.admin.list_topics(timeout=METADATA_SECONDS).topics.values()
            found = [each for topic in topics for each in topic.partitions.values()]
            return len(found) >= self._count and all(fits(each.leader, each.isrs) for each in found)
        return False


class Probes:
    """One process for each broker that asks it all the time."""

    def __init__(self, cluster: MeasuredCluster) -> None:
        self._members: Mapping[int, Member] = cluster.members
        self._processes: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        for member in self._members.values():
            command = [sys.executable, "-m", "bench.cluster.probe", member.address, str(member.pid)]
            self._processes.append(
                subprocess.Popen(
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, taken from a library loaded before
                )
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._processes:
            process.kill()
            with process:
                pass

    def longest(self) -> tuple[float, float]:
        """Since it was asked last: CPU time of a loop, and the wait for an answer."""
        told = []
        for process in self._processes:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n")
            process.stdin.flush()
            told.append([float(each) for each in process.stdout.readline().split()])
        waits, busy = zip(*told, strict=True)
        return max(busy), max(waits)
