"""The two clusters that are compared, behind one face. Both number their brokers 1 to 3."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.peers.apache_cluster import ApacheCluster
from tests.support.process import die_with_parent

BROKERS: Final = (1, 2, 3)
SETTINGS: Final = {
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}


class Nodes(Protocol):
    def address(self, number: int) -> str: ...

    def stop(self, number: int) -> None:
        """In order, with the leaders handed over."""

    def start(self, number: int) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class MoldauNodes:
    def __init__(self, cluster: LocalCluster) -> None:
        self._cluster = cluster

    @classmethod
    def make(cls, home: Path) -> Self:
        return cls(LocalCluster.make(home, settings=SETTINGS, before_start=die_with_parent))

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.kill_all()

    def address(self, number: int) -> str:
        return self._cluster.broker(number).address

    def stop(self, number: int) -> None:
        self._cluster.stop_member(self._cluster.broker(number))

    def start(self, number: int) -> None:
        self._cluster.start_member(self._cluster.broker(number))


class KafkaNodes:
    def __init__(self, home: Path) -> None:
        self._cluster = ApacheCluster(home, SETTINGS)

    def __enter__(self) -> Self:
        self._cluster.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.kill()

    def address(self, number: int) -> str:
        return self._cluster.brokers[number].address

    def stop(self, number: int) -> None:
        self._cluster.brokers[number].stop()

    def start(self, number: int) -> None:
        self._cluster.brokers[number].start()
