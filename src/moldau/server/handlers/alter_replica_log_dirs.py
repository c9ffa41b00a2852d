"""AlterReplicaLogDirs, versions 1 and 2: begins to move replicas to other log directories of this broker.

The answer does not wait for the moves; DescribeLogDirs shows them. A folder for a partition that is still to come is
remembered until the broker stops.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

LONGEST_FOLDER_NAME = 255
#: A dot, an id of 32 digits and "-future" follow the partition's name.
FUTURE_SUFFIX_LENGTH = 40


async def handle(
    broker: Broker, context: RequestContext, request: AlterReplicaLogDirsRequest
) -> AlterReplicaLogDirsResponse:
    # Of several folders for one partition the last one counts.
    wanted = {
        TopicPartition(topic.name, index): folder.path
        for folder in request.dirs
        for topic in folder.topics
        for index in topic.partitions
    }
    permitted = may_access(broker, context, Operation.ALTER, None, "")
    topics: dict[str, list[AlterReplicaLogDirPartitionResult]] = {}
    for partition, path in wanted.items():
        code = await move(broker, partition, path) if permitted else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        answer = AlterReplicaLogDirPartitionResult(partition_index=partition.partition, error_code=code)
        topics.setdefault(partition.topic, []).append(answer)
    return AlterReplicaLogDirsResponse(
        results=[AlterReplicaLogDirTopicResult(topic_name=name, partitions=answers) for name, answers in topics.items()]
    )


async def move(broker: Broker, partition: TopicPartition, path: str) -> ErrorCode:
    if len(f"{partition.topic}-{partition.partition}") + FUTURE_SUFFIX_LENGTH > LONGEST_FOLDER_NAME:
        return ErrorCode.INVALID_TOPIC_EXCEPTION
    try:
        await broker.logs.moves.move(partition, path)
    except KafkaError as error:
        missing = broker.image.partition(partition.topic, partition.partition) is None
        if error.code == ErrorCode.REPLICA_NOT_AVAILABLE and missing:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return error.code
    return ErrorCode.NONE


API = Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 1, 2, AlterReplicaLogDirsRequest, handle)
