"""Who is a coordinator no more answers nothing, from the moment at which its partition is another's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.coordinators.machine import Write
from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.replication.leader import Neighbours
from moldau.replication.leases import Lease
from moldau.replication.partition import Partition
from moldau.server.coordination.service import CoordinatorService
from moldau.server.coordination.transactions import TransactionCoordinator
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.types.internal_topics import TRANSACTIONS_TOPIC
from tests.support.logs import NOW, open_log
from tests.support.terms import term

TOPIC = "__consumer_offsets"


class Machine:
    def loaded(self, _now: float) -> None: ...

    def unloaded(self) -> None: ...


def service_over(partition: Partition) -> CoordinatorService[Any]:
    nothing = cast(Any, None)
    table = SimpleNamespace(find=lambda _topic, _index: partition, get=lambda _topic, _index: partition)
    service: CoordinatorService[Any] = CoordinatorService(
        TOPIC,
        lambda _index, _timers: cast(Any, Machine()),
        nothing,
        cast(Any, table),
        nothing,
        nothing,
        lambda: 0.0,
        lambda: NOW,
        checks_lease=True,
    )
    service.load(cast(Any, SimpleNamespace(topics={TOPIC: SimpleNamespace(partitions=(partition,))})))
    return service


@pytest.mark.parametrize("later", [term(2, 4, isr=(1, 2)), term(1, 5, isr=(1, 2))], ids=["another's", "its own again"])
def test_a_shard_of_an_earlier_term_answers_nothing_though_nobody_has_unloaded_it_yet(
    tmp_path: Path, later: Any
) -> None:
    """An image is applied in turns: between that of the partitions and that of the coordinators requests come."""

    async def main() -> None:
        partition = Partition(TopicPartition(TOPIC, 0), UUID(int=1), 1)
        partition.log = open_log(str(tmp_path))
        partition.lead(term(1, 3, isr=(1, 2)))
        service = service_over(partition)
        assert service.read("a group", lambda _machine, _now: "answered").outcome == ("answered", None)
        take = partition.lead if later.leader == 1 else partition.follow
        take(later)
        for ask in (service.read, service.write):
            with pytest.raises(KafkaError) as refused:
                ask("a group", cast(Any, lambda _machine, _now: Write("answered")))
            assert refused.value.code is ErrorCode.NOT_COORDINATOR

    asyncio.run(main())


def test_a_transaction_coordinator_without_a_lease_answers_nothing_from_memory(tmp_path: Path) -> None:
    """Somebody else may have ended the transaction that it is asked about."""
    nothing = cast(Any, None)
    heard = [100.0]
    neighbours = Neighbours(
        lambda: 0.0, lambda _: 5, lambda _: True, lambda: 1000, Lease(4.0, lambda: 100.0, lambda: heard[0])
    )

    async def main() -> None:
        partition = Partition(TopicPartition(TRANSACTIONS_TOPIC, 0), UUID(int=1), 1, neighbours)
        partition.log = open_log(str(tmp_path))
        partition.lead(term(1, 3, isr=(1, 2)))
        table = cast(Any, SimpleNamespace(find=lambda _topic, _index: partition, get=lambda _topic, _index: partition))
        coordinator = TransactionCoordinator(
            nothing, table, nothing, nothing, nothing, nothing, lambda: 0.0, lambda: NOW, nothing, nothing, broker_id=1
        )
        topics = {TRANSACTIONS_TOPIC: SimpleNamespace(partitions=(partition,))}
        coordinator.service.load(cast(Any, SimpleNamespace(topics=topics)))
        assert await refusal(coordinator) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
        heard[0] -= 5.0
        assert await refusal(coordinator) is ErrorCode.NOT_COORDINATOR

    asyncio.run(main())


async def refusal(coordinator: TransactionCoordinator) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        await coordinator.verify_partitions("id", ProducerIdentity(7, 3), [TopicPartition("t", 0)])
    return refused.value.code
