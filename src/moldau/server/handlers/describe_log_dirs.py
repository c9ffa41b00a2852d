"""DescribeLogDirs, versions 1 to 5: the log directories with the size of each partition in them."""

from __future__ import annotations

from collections.abc import Awaitable
from itertools import chain, repeat
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin

if TYPE_CHECKING:
    from moldau.server.broker import Broker
    from moldau.storage.log import PartitionLog
    from moldau.storage.manager import LogDirectory


def handle(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> DescribeLogDirsResponse | Awaitable[DescribeLogDirsResponse]:
    if not broker.authorizer.allows(context, Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    return begin(respond(broker, request))


def respond(broker: Broker, request: DescribeLogDirsRequest) -> Work[DescribeLogDirsResponse]:
    wanted = None
    if request.topics is not None:
        wanted = {TopicPartition(topic.topic, index) for topic in request.topics for index in topic.partitions}
    results = []
    for directory in broker.logs.table.directories:
        result = yield from describe(broker, directory, wanted)
        results.append(result)
    return DescribeLogDirsResponse(results=results)


def describe(
    broker: Broker, directory: LogDirectory, wanted: set[TopicPartition] | None
) -> Work[DescribeLogDirsResult]:
    if directory.offline:
        return DescribeLogDirsResult(error_code=ErrorCode.KAFKA_STORAGE_ERROR, log_dir=directory.path)
    topics: dict[str, list[DescribeLogDirsPartition]] = {}
    replicas = list(chain(zip(directory.logs.values(), repeat(False)), zip(directory.futures.values(), repeat(True))))
    paused = pauses()
    for replica, is_future in replicas:
        if next(paused):
            yield
        if wanted is not None and replica.topic_partition not in wanted:
            continue
        topics.setdefault(replica.topic_partition.topic, []).append(
            DescribeLogDirsPartition(
                partition_index=replica.topic_partition.partition,
                partition_size=replica.size_bytes,
                offset_lag=lag(broker, replica),
                is_future_key=is_future,
            )
        )
    space = directory.space()
    return DescribeLogDirsResult(
        log_dir=directory.path,
        topics=[DescribeLogDirsTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        total_bytes=space.total,
        usable_bytes=space.usable,
    )


def lag(broker: Broker, replica: PartitionLog) -> int:
    """How far a copy that is being made is behind the log it will replace."""
    current = broker.logs.table.get(replica.topic_partition)
    return 0 if current is None else max(0, current.log_end_offset - replica.log_end_offset)


API = Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 5, DescribeLogDirsRequest, handle)
