"""ElectLeaders, versions 0 to 2: preferred or unclean elections for partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from moldau.metadata.controller.elect import Elected, ElectionKind, elect_leaders
from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.apis import ApiKey
from moldau.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker


async def handle(broker: Broker, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if not may_access(broker, context, Operation.ALTER, None, ""):
        return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, needs(context, Operation.ALTER))
    if request.timeout_ms <= 0:
        return refused(request, ErrorCode.REQUEST_TIMED_OUT)
    if request.election_type not in ElectionKind.__members__.values():
        return refused(request, ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    kind = ElectionKind(request.election_type)
    wanted = None
    if request.topic_partitions is not None:
        wanted = [TopicPartition(each.topic, index) for each in request.topic_partitions for index in each.partitions]
    elected = await broker.controller.decide(lambda image: elect_leaders(image, kind, wanted, broker.config))
    if wanted is None:
        # Asked for all, Kafka names every topic and leaves out the partitions where no election is needed.
        return by_topic(elected, broker.image.topics)
    results = iter(elected)
    return each_partition(request, lambda topic, index: result(next(results)))


def by_topic(elected: Iterable[Elected], topics: Iterable[str]) -> ElectLeadersResponse:
    results: dict[str, list[PartitionResult]] = {name: [] for name in topics}
    for each in elected:
        results.setdefault(each.topic, []).append(result(each))
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic=name, partition_result=found) for name, found in results.items()
        ]
    )


def result(each: Elected) -> PartitionResult:
    return PartitionResult(partition_id=each.partition, error_code=each.code, error_message=each.message)


def refused(request: ElectLeadersRequest, code: ErrorCode, message: str | None = None) -> ElectLeadersResponse:
    answer = each_partition(
        request, lambda topic, index: PartitionResult(partition_id=index, error_code=code, error_message=message)
    )
    answer.error_code = code
    return answer


def each_partition(request: ElectLeadersRequest, result: Callable[[str, int], PartitionResult]) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=wanted.topic, partition_result=[result(wanted.topic, index) for index in wanted.partitions]
            )
            for wanted in request.topic_partitions or ()
        ]
    )


API = Api(ApiKey.ELECT_LEADERS, 0, 2, ElectLeadersRequest, handle)
