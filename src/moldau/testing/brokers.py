"""A broker, a cluster, and a Kafka that runs already, with the same face."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from moldau.testing.processes import GoesOn, OwnProcess, end_with_parent, in_lasting_thread

if TYPE_CHECKING:
    from moldau.cli.cluster.local_cluster import LocalCluster
    from moldau.cli.embedded import EmbeddedBroker
    from moldau.clients.admin import Admin
    from moldau.clients.consumer import Consumer
    from moldau.clients.producer import Producer
    from moldau.clients.records import TopicPartition

FOR_TESTS: Final = {
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.ms": -1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
"""A group does not wait for more members, records with times of long ago stay, and the topics that Kafka keeps for
itself are quickly made."""

LOOK_AGAIN_SECONDS: Final = 0.05

COPIES: Final = ("offsets.topic.replication.factor", "transaction.state.log.replication.factor")


class Kafka:
    """What tests ask of a cluster, whoever runs it. `bootstrap` is its address."""

    bootstrap: str

    @property
    def properties(self) -> dict[str, str]:
        """For any client with Java's property names."""
        return {"bootstrap.servers": self.bootstrap}

    def producer(self, properties: Mapping[str, object] | None = None, /, **more: object) -> Producer:
        from moldau.clients.producer import Producer

        return Producer({**self.properties, **(properties or {})}, **more)

    def consumer(self, properties: Mapping[str, object] | None = None, /, **more: object) -> Consumer:
        """Reads from the beginning unless the properties say something else."""
        from moldau.clients.consumer import Consumer

        return Consumer({"auto.offset.reset": "earliest", **self.properties, **(properties or {})}, **more)

    def admin(self) -> Admin:
        from moldau.clients.admin import Admin

        return Admin(self.properties)

    def topic(self, name: str | None = None, partitions: int = 1, **config: object) -> str:
        """Creates a topic, with a name that nobody has if none is given, and returns its name. Settings are keywords,
        with
        `_` for `.`."""
        chosen = name or f"topic-{secrets.token_hex(6)}"
        settings = {key.replace("_", "."): value for key, value in config.items()}
        with self.admin() as admin:
            admin.create_topic(chosen, partitions, config=settings)
        return chosen

    def values(self, topic: str, count: int, seconds: float = 30.0, **properties: object) -> list[Any]:
        """The first `count` values of a topic, partition by partition where it has several. Waits for them, and for a
        topic that somebody else is about to make. Raises if so many do not come."""
        found: list[Any] = []
        with self.consumer(**properties) as consumer:
            consumer.assign(places_in(consumer, topic, monotonic() + seconds))
            for record in consumer.records(seconds):
                found.append(record)
                if len(found) == count:
                    break
        if len(found) < count:
            raise AssertionError(f"{topic} has {len(found)} records, not {count}, after {seconds:g} s")
        return [record.value for record in sorted(found, key=lambda each: (each.partition, each.offset))]


def places_in(consumer: Consumer, topic: str, deadline: float) -> list[TopicPartition]:
    from moldau.clients.errors import UnknownTopic
    from moldau.clients.records import TopicPartition

    while True:
        try:
            return [TopicPartition(topic, each.partition) for each in consumer.partitions_for(topic)]
        except UnknownTopic:
            if monotonic() >= deadline:
                raise
        sleep(LOOK_AGAIN_SECONDS)


class Running(GoesOn, Kafka):
    """A Kafka that somebody else runs: Apache Kafka, a container, a cluster for tests."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap


class Broker(OwnProcess["EmbeddedBroker"], Kafka):
    """One broker in a process of its own, on a free port. `settings` are the broker's, with Kafka's names.

    Without a `folder` its data lies in a temporary one, which is removed at the end.
    """

    noun = "broker"

    def __init__(self, settings: Mapping[str, object] | None = None, *, folder: Path | None = None) -> None:
        super().__init__({**FOR_TESTS, **(settings or {})}, folder)

    @property
    def bootstrap(self) -> str:  # type: ignore[override]
        return self._started().address

    def _made(self) -> EmbeddedBroker:
        from moldau.cli.embedded import EmbeddedBroker

        return EmbeddedBroker(self.folder, self._settings, before_start=end_with_parent)


class Cluster(Kafka):
    """Several brokers over ZooKeeper, each a process; needs Java for ZooKeeper. `local` is the cluster with its
    members."""

    def __init__(
        self, brokers: int = 3, settings: Mapping[str, object] | None = None, *, folder: Path | None = None
    ) -> None:
        self._brokers = brokers
        copies = dict.fromkeys(COPIES, min(3, brokers))
        self._settings = {**FOR_TESTS, **copies, **(settings or {})}
        self._temporary = None if folder is not None else tempfile.TemporaryDirectory(prefix="moldau-")
        self.folder = folder if folder is not None else Path(self._temporary.name)  # type: ignore[union-attr]
        self.local: LocalCluster

    @property
    def bootstrap(self) -> str:  # type: ignore[override]
        return self.local.bootstrap

    def __enter__(self) -> Self:
        from moldau.cli.cluster.local_cluster import LocalCluster

        settings = {name: str(value) for name, value in self._settings.items()}
        self.local = LocalCluster.make(
            self.folder, brokers=self._brokers, settings=settings, before_start=end_with_parent
        )
        try:
            in_lasting_thread(self.local.start)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.local.kill_all()
        if self._temporary is not None:
            self._temporary.cleanup()

    def stop(self, number: int) -> None:
        """Ends broker `number` (they count from 1) in order."""
        self.local.stop_member(self.local.broker(number))

    def kill(self, number: int) -> None:
        self.local.kill_member(self.local.broker(number))

    def start(self, number: int) -> None:
        in_lasting_thread(self.local.start_member, self.local.broker(number))
