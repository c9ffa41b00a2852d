"""Several Apache Kafka brokers as a peer: one cluster, every broker a controller too (KRaft)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.peers.apache_kafka import ApacheKafka, new_cluster_id
from tests.support.process import free_port


class ApacheCluster:
    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, object] | None = None,
        brokers: int = 3,
        heap: Sequence[str] = ("-Xms256m", "-Xmx512m"),
    ) -> None:
        ports = [(free_port(), free_port()) for _ in range(brokers)]
        voters = ",".join(f"{number}@127.0.0.1:{inner}" for number, (_, inner) in enumerate(ports, 1))
        cluster_id = new_cluster_id()
        copies = min(brokers, 3)
        self.brokers: dict[int, ApacheKafka] = {}
        for number, (port, inner) in enumerate(ports, 1):
            own: dict[str, object] = {
                "node.id": number,
                "controller.quorum.voters": voters,
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{inner}",
                "offsets.topic.replication.factor": copies,
                "transaction.state.log.replication.factor": copies,
                "transaction.state.log.min.isr": min(copies, 2),
                **(settings or {}),
            }
            folder = directory / f"broker-{number}"
            self.brokers[number] = ApacheKafka(folder, own, port=port, heap=heap, cluster_id=cluster_id)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    def prepare(self) -> None:
        for broker in self.brokers.values():
            broker.prepare()

    def start(self) -> None:
        """All that do not run, at once: one alone has no majority and does not come up."""
        self.prepare()
        begun = [broker for broker in self.brokers.values() if not broker.running]
        for broker in begun:
            broker.begin()
        for broker in begun:
            broker.wait_until_up()

    def kill(self) -> None:
        for broker in self.brokers.values():
            broker.kill()

    @property
    def bootstrap(self) -> str:
        return ",".join(broker.address for broker in self.brokers.values())
