"""Who is a coordinator no more answers nothing, from the moment at which its partition is another's."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.coordinators.machine import Write
from moldau.replication.partition import Partition
from moldau.server.coordination.service import CoordinatorService
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
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
