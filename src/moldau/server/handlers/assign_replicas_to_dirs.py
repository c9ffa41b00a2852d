"""AssignReplicasToDirs, version 0: a broker tells the controller in which of its log directories replicas are."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from moldau.metadata.controller.log_directories import PlacedReplica, place_in_directories
from moldau.security.context import RequestContext
from moldau.server.cluster_access import acts_for_cluster
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryDataInResponse,
    PartitionDataInResponse,
    TopicDataInResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(
    broker: Broker, context: RequestContext, request: AssignReplicasToDirsRequest
) -> AssignReplicasToDirsResponse:
    if not acts_for_cluster(broker, context):
        return AssignReplicasToDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    places = {
        (topic.topic_id, partition.partition_index): directory.id_
        for directory in request.directories
        for topic in directory.topics
        for partition in topic.partitions
    }
    try:
        placed = await broker.controller.decide(
            lambda image: place_in_directories(image, request.broker_id, request.broker_epoch, places, broker.config)
        )
    except KafkaError as error:
        return AssignReplicasToDirsResponse(error_code=error.code)
    directories: dict[UUID, dict[UUID, list[PlacedReplica]]] = {}
    for each in placed:
        directories.setdefault(each.directory, {}).setdefault(each.topic_id, []).append(each)
    return AssignReplicasToDirsResponse(
        directories=[
            DirectoryDataInResponse(id_=directory, topics=[answer(*topic) for topic in topics.items()])
            for directory, topics in directories.items()
        ]
    )


def answer(topic_id: UUID, placed: list[PlacedReplica]) -> TopicDataInResponse:
    partitions = [PartitionDataInResponse(partition_index=each.partition, error_code=each.code) for each in placed]
    return TopicDataInResponse(topic_id=topic_id, partitions=partitions)


API = Api(ApiKey.ASSIGN_REPLICAS_TO_DIRS, 0, 0, AssignReplicasToDirsRequest, handle, between_brokers=True)
