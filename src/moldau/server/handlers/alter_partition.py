"""AlterPartition, versions 2 and 3: the leader of partitions asks the controller for other in-sync sets.

An answer without an error says how the partition will be; what counts for the leader is the image, which brings it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.in_sync import ANY_EPOCH, AlteredPartition, WantedIsr
from moldau.security.context import RequestContext
from moldau.server.cluster_access import acts_for_cluster
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicId
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    PartitionData,
    PartitionDataInResponse,
    TopicDataInResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

BROKER_EPOCHS_FROM = 3


async def handle(broker: Broker, context: RequestContext, request: AlterPartitionRequest) -> AlterPartitionResponse:
    if not acts_for_cluster(broker, context):
        return AlterPartitionResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = [
        wanted_isr(topic.topic_id, partition, context.api_version)
        for topic in request.topics
        for partition in topic.partitions
    ]
    try:
        altered = await broker.controller.alter_partition(request.broker_id, request.broker_epoch, wanted)
    except KafkaError as error:
        return AlterPartitionResponse(error_code=error.code)
    topics: dict[TopicId, list[PartitionDataInResponse]] = {}
    for each in altered:
        topics.setdefault(each.topic_id, []).append(result(each))
    return AlterPartitionResponse(
        topics=[TopicDataInResponse(topic_id=topic_id, partitions=found) for topic_id, found in topics.items()]
    )


def wanted_isr(topic_id: TopicId, asked: PartitionData, version: int) -> WantedIsr:
    if version >= BROKER_EPOCHS_FROM:
        isr = tuple((member.broker_id, member.broker_epoch) for member in asked.new_isr_with_epochs)
    else:
        isr = tuple((member, ANY_EPOCH) for member in asked.new_isr)
    return WantedIsr(
        topic_id,
        asked.partition_index,
        asked.leader_epoch,
        asked.partition_epoch,
        isr,
        bool(asked.leader_recovery_state),
    )


def result(altered: AlteredPartition) -> PartitionDataInResponse:
    if altered.state is None:
        return PartitionDataInResponse(partition_index=altered.partition, error_code=altered.code)
    return PartitionDataInResponse(
        partition_index=altered.partition,
        error_code=altered.code,
        leader_id=altered.state.leader,
        leader_epoch=altered.state.leader_epoch,
        isr=altered.state.isr,
        leader_recovery_state=altered.state.recovering,
        partition_epoch=altered.state.partition_epoch,
    )


API = Api(ApiKey.ALTER_PARTITION, 2, 3, AlterPartitionRequest, handle, between_brokers=True)
