"""The two clusters that are compared, behind one face. What ZooKeeper uses counts as Moldau's: Apache Kafka's brokers
keep their metadata themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from bench.peers import SETTINGS
from moldau.cli.cluster.local_cluster import LocalCluster
from tests.peers.apache_cluster import ApacheCluster
from tests.peers.apache_kafka import VERSION
from tests.support.process import die_with_parent

BROKERS = 3
#: As measured before; Kafka's own start script would take 1 GB for each from the beginning.
APACHE_HEAP = ("-Xms512m", "-Xmx1G")


@dataclass(frozen=True, slots=True)
class Member:
    """A broker that runs."""

    address: str
    pid: int


class MeasuredCluster(Protocol):
    has_one_loop: bool
    """Whether the main thread of a broker is its event loop."""

    @property
    def bootstrap(self) -> str: ...

    @property
    def pids(self) -> Sequence[int]:
        """Of everything that belongs to it and runs."""

    @property
    def members(self) -> Mapping[int, Member]:
        """The brokers, by their ids."""

    @property
    def data(self) -> Sequence[Path]:
        """The log directory of each broker."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def start(self) -> None:
        """Whatever does not run; returns when it serves."""

    def kill(self) -> None: ...

    def kill_broker(self, number: int) -> None: ...


class MoldauCluster:
    has_one_loop = True

    def __init__(self, directory: Path, settings: Mapping[str, object]) -> None:
        told = {name: str(value) for name, value in settings.items()}
        self._cluster = LocalCluster.make(directory, brokers=BROKERS, settings=told, before_start=die_with_parent)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def pids(self) -> Sequence[int]:
        return [member.pid for member in self._cluster.members if member.pid is not None]

    @property
    def members(self) -> Mapping[int, Member]:
        return {each.number: Member(each.address, each.pid) for each in self._cluster.brokers if each.pid is not None}

    @property
    def data(self) -> Sequence[Path]:
        return [self._cluster.folder(broker) / "data" for broker in self._cluster.brokers]

    def start(self) -> None:
        self._cluster.start()

    def kill(self) -> None:
        self._cluster.kill_all()

    def kill_broker(self, number: int) -> None:
        self._cluster.kill_member(self._cluster.broker(number))


class KafkaCluster:
    has_one_loop = False

    def __init__(self, directory: Path, settings: Mapping[str, object]) -> None:
        self._cluster = ApacheCluster(directory, settings, BROKERS, APACHE_HEAP)
        self._cluster.prepare()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap

    @property
    def pids(self) -> Sequence[int]:
        return [broker.pid for broker in self._cluster.brokers.values() if broker.running]

    @property
    def members(self) -> Mapping[int, Member]:
        return {
            number: Member(broker.address, broker.pid)
            for number, broker in self._cluster.brokers.items()
            if broker.running
        }

    @property
    def data(self) -> Sequence[Path]:
        return [broker.data for broker in self._cluster.brokers.values()]

    def start(self) -> None:
        self._cluster.start()

    def kill(self) -> None:
        self._cluster.kill()

    def kill_broker(self, number: int) -> None:
        self._cluster.brokers[number].kill()


class Kind(Enum):
    MOLDAU = "moldau"
    APACHE = "apache"

    @property
    def title(self) -> str:
        return f"{BROKERS} × Moldau" if self is Kind.MOLDAU else f"{BROKERS} × Apache Kafka {VERSION}"

    @property
    def column(self) -> str:
        return "Moldau" if self is Kind.MOLDAU else "Apache Kafka"

    def cluster(self, directory: Path) -> MeasuredCluster:
        """A cluster of this kind in a folder of its own, ready to be started."""
        return MoldauCluster(directory, SETTINGS) if self is Kind.MOLDAU else KafkaCluster(directory, SETTINGS)
