"""ElectLeaders, versions 0 to 2: preferred or unclean elections for partitions.

On one broker every partition with a leader has its preferred one, and a partition without a leader waits for the log
folder that holds it: there is never another replica to elect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

PREFERRED, UNCLEAN = 0, 1
MESSAGES = {
    ErrorCode.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "Eligible topic partition leaders are not available.",
}


def handle(broker: Broker, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if not may_access(broker, context, Operation.ALTER, None, ""):
        return refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.timeout_ms <= 0:
        return refused(request, ErrorCode.REQUEST_TIMED_OUT)
    if request.election_type not in (PREFERRED, UNCLEAN):
        return refused(request, ErrorCode.INVALID_REQUEST, f"Unknown election type {request.election_type}")
    if request.topic_partitions is None:
        # Asked for all, Kafka names every topic and leaves out the partitions where no election is needed: here all.
        return ElectLeadersResponse(
            replica_election_results=[ReplicaElectionResult(topic=name) for name in broker.image.topics]
        )
    return each_partition(request, lambda topic, index: elect(broker, request.election_type, topic, index))


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


def elect(broker: Broker, kind: int, topic: str, index: int) -> PartitionResult:
    partition = broker.image.partition(topic, index)
    if topic not in broker.image.topics:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}"
    elif partition is None:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}"
    else:
        code = outcome(kind, has_leader=partition.leader >= 0)
        message = MESSAGES[code]
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


def outcome(kind: int, has_leader: bool) -> ErrorCode:
    if has_leader:
        return ErrorCode.ELECTION_NOT_NEEDED
    preferred = kind == PREFERRED
    return ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE if preferred else ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


API = Api(ApiKey.ELECT_LEADERS, 0, 2, ElectLeadersRequest, handle)
