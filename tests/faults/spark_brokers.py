"""What a pipeline under attack stands on: one broker that is started again at once, or three of which one is always
away, another one each time.
"""

from __future__ import annotations

import random
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from moldau.cli.cluster.local_cluster import LocalCluster, Process
from tests.cluster.looking import create, partitions_of, wait_until_whole
from tests.peers.choice import new_broker
from tests.support.admin import admin_client, create_topic
from tests.support.process import die_with_parent, free_port

SETTLE_SECONDS = 180.0


class Brokers(Protocol):
    @property
    def address(self) -> str: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def create(self, topic: str, partitions: int) -> None: ...

    def lose_one(self, topic: str, chance: random.Random) -> None:
        """SIGKILL, without a word to the pipeline."""


class OneBroker:
    def __init__(self, folder: Path) -> None:
        self._broker = new_broker(folder, {}, free_port())

    def __enter__(self) -> Self:
        self._broker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._broker.kill()

    @property
    def address(self) -> str:
        return self._broker.address

    def create(self, topic: str, partitions: int) -> None:
        create_topic(admin_client(self.address), topic, partitions)

    def lose_one(self, topic: str, chance: random.Random) -> None:
        self._broker.kill()
        self._broker.start()


class ThreeBrokers:
    """Three copies, two of them in sync at least: whoever is lost, everything is there and can be written on."""

    def __init__(self, folder: Path) -> None:
        self.cluster = LocalCluster.make(folder, before_start=die_with_parent)
        self._away: Process | None = None

    def __enter__(self) -> Self:
        self.cluster.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cluster.kill_all()

    @property
    def address(self) -> str:
        return self.cluster.bootstrap

    def create(self, topic: str, partitions: int) -> None:
        create(self.cluster, topic, partitions, min_insync_replicas="2")

    def lose_one(self, topic: str, chance: random.Random) -> None:
        """The one that was lost before is brought back first; the next is a leader of the topic."""
        if self._away is not None:
            self.cluster.start_member(self._away)
            wait_until_whole(self.cluster, SETTLE_SECONDS)
        leaders = {leader for leader, _, _ in partitions_of(self.cluster, topic).values()}
        self._away = self.cluster.broker(chance.choice(sorted(leaders)))
        self.cluster.kill_member(self._away)
