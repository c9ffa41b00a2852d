"""ElectLeaders, versions 0 to 2: preferred or unclean elections for partitions.

On one broker every partition with a leader has its preferred one, and a partition without a leader waits for the log
folder that holds it: there is never another replica to elect.
"""

from __future__ import annotations

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


def handle(broker: Broker, context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    if not may_access(broker, context, Operation.ALTER, None, ""):
        return ElectLeadersResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if request.election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.topic_partitions is None:
        # Asked for all, Kafka leaves out where no election is needed, which is everywhere.
        return ElectLeadersResponse()
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(
                topic=wanted.topic,
                partition_result=[elect(broker, request, wanted.topic, index) for index in wanted.partitions],
            )
            for wanted in request.topic_partitions
        ]
    )


def elect(broker: Broker, request: ElectLeadersRequest, topic: str, index: int) -> PartitionResult:
    if topic not in broker.image.topics:
        code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {topic}"
    else:
        partition = broker.image.partition(topic, index)
        if partition is None:
            code, message = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {topic}-{index}"
        elif partition.leader >= 0:
            return PartitionResult(partition_id=index, error_code=ErrorCode.ELECTION_NOT_NEEDED)
        elif request.election_type == PREFERRED:
            code, message = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available."
        else:
            code, message = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available."
    return PartitionResult(partition_id=index, error_code=code, error_message=message)


API = Api(ApiKey.ELECT_LEADERS, 0, 2, ElectLeadersRequest, handle)
