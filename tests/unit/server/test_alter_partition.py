"""AlterPartition between a leader and the controller: what the rule decides, as it goes over the wire."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.metadata.controller.in_sync import WantedIsr, alter_partitions
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.security.authorizer import AllowAll, Operation, Resource
from moldau.security.context import ClientIdentity, RequestContext
from moldau.server.handlers.alter_partition import handle
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.codec import decode, encode
from moldau.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
    PartitionData,
    TopicData,
)
from tests.support.loops import on_loop
from tests.support.metadata import Cluster


class Scene:
    """Three brokers; broker 1 leads the only partition of topic t."""

    def __init__(self) -> None:
        self.cluster = Cluster({1: None, 2: None, 3: None})
        self.cluster.create(NewTopic("t", assignments=[(0, (1, 2, 3))]))
        self.authorizer: Any = AllowAll()
        self.refusal: ErrorCode | None = None

    async def alter_partition(self, broker_id: int, broker_epoch: int, wanted: Sequence[WantedIsr]) -> Any:
        """As the controller does it, over a cluster without a store."""
        if self.refusal is not None:
            raise KafkaError(self.refusal)
        config = self.cluster.config
        return self.cluster.decide(lambda image: alter_partitions(image, broker_id, broker_epoch, wanted, config))

    @property
    def topic_id(self) -> UUID:
        return self.cluster.image.topics["t"].id

    async def ask(self, version: int, isr: tuple[int, ...], **changes: Any) -> AlterPartitionResponse:
        partition = self.cluster.image.topics["t"].partitions[0]
        brokers = self.cluster.image.brokers
        values: dict[str, Any] = {
            "partition_index": 0,
            "leader_epoch": partition.leader_epoch,
            "partition_epoch": partition.partition_epoch,
            "new_isr": isr,
            "new_isr_with_epochs": [BrokerState(broker_id=each, broker_epoch=brokers[each].epoch) for each in isr],
        } | changes
        topic_id = values.pop("topic_id", self.topic_id)
        broker_epoch = values.pop("broker_epoch", brokers[1].epoch)
        request = AlterPartitionRequest(
            broker_id=1,
            broker_epoch=broker_epoch,
            topics=[TopicData(topic_id=topic_id, partitions=[PartitionData(**values)])],
        )
        received, _ = decode(AlterPartitionRequest, version, encode(request, version))
        broker = SimpleNamespace(authorizer=self.authorizer, controller=self)
        context = RequestContext(ClientIdentity("User:b", "PLAINTEXT", "127.0.0.1"), "", 56, version, 1)
        answer = await handle(cast(Any, broker), context, received)
        return decode(AlterPartitionResponse, version, encode(answer, version))[0]


@pytest.mark.parametrize("version", [2, 3])
@on_loop
async def test_a_smaller_set_is_committed_and_told(version: int) -> None:
    scene = Scene()
    answer = await scene.ask(version, (1, 3))
    (topic,) = answer.topics
    (partition,) = topic.partitions
    assert topic.topic_id == scene.topic_id
    now = scene.cluster.image.topics["t"].partitions[0]
    assert now.isr == (1, 3)
    assert (partition.error_code, partition.leader_id, partition.leader_epoch) == (0, 1, now.leader_epoch)
    assert (tuple(partition.isr), partition.partition_epoch) == ((1, 3), now.partition_epoch)


@on_loop
async def test_a_partition_is_refused_alone() -> None:
    scene = Scene()
    stale = await scene.ask(3, (1, 3), partition_epoch=-1)
    unknown = await scene.ask(3, (1, 3), topic_id=UUID(int=99))
    wrong_life = await scene.ask(3, (1, 2), new_isr_with_epochs=[BrokerState(broker_id=1, broker_epoch=0)])
    codes = [answer.topics[0].partitions[0].error_code for answer in (stale, unknown, wrong_life)]
    assert codes == [ErrorCode.INVALID_UPDATE_VERSION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INELIGIBLE_REPLICA]
    assert scene.cluster.image.topics["t"].partitions[0].isr == (1, 2, 3)


@on_loop
async def test_a_broker_of_an_earlier_registration_is_refused_as_a_whole() -> None:
    answer = await Scene().ask(3, (1,), broker_epoch=-5)
    assert (answer.error_code, list(answer.topics)) == (ErrorCode.STALE_BROKER_EPOCH, [])


@on_loop
async def test_one_that_is_not_the_controller_says_so() -> None:
    scene = Scene()
    scene.refusal = ErrorCode.NOT_CONTROLLER
    assert (await scene.ask(3, (1,))).error_code == ErrorCode.NOT_CONTROLLER


class NotForTheCluster:
    def allows(self, context: RequestContext, operation: Operation, resource: Resource, name: str) -> bool:
        return operation is not Operation.CLUSTER_ACTION


@on_loop
async def test_who_may_not_act_for_the_cluster_changes_nothing() -> None:
    scene = Scene()
    scene.authorizer = NotForTheCluster()
    assert (await scene.ask(3, (1,))).error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert scene.cluster.image.topics["t"].partitions[0].isr == (1, 2, 3)
