"""The requests that only the controller decides, and how each is refused as a whole where it cannot be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from moldau.metadata.controller.config_resources import ResourceType
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from moldau.wire.messages.alter_configs import AlterConfigsResourceResponse as AlterResult
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from moldau.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from moldau.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from moldau.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from moldau.wire.schema import Message

Refuse = Callable[[Any, ErrorCode, str | None], Message]


@dataclass(frozen=True, slots=True)
class Decided:
    refuse: Refuse
    #: Whether the controller is needed for this very request.
    applies: Callable[[Any], bool] = lambda _: True


def no_topics(request: CreateTopicsRequest, code: ErrorCode, message: str | None) -> CreateTopicsResponse:
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(name=topic.name, error_code=code, error_message=message) for topic in request.topics
        ]
    )


def nothing_deleted(request: DeleteTopicsRequest, code: ErrorCode, message: str | None) -> DeleteTopicsResponse:
    named = [DeletableTopicResult(name=name, error_code=code, error_message=message) for name in request.topic_names]
    either = [
        DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=code, error_message=message)
        for topic in request.topics
    ]
    return DeleteTopicsResponse(responses=[*named, *either])


def nothing_grown(request: CreatePartitionsRequest, code: ErrorCode, message: str | None) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(name=topic.name, error_code=code, error_message=message)
            for topic in request.topics
        ]
    )


def nothing_altered(request: AlterConfigsRequest, code: ErrorCode, message: str | None) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterResult(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def nothing_changed(
    request: IncrementalAlterConfigsRequest, code: ErrorCode, message: str | None
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            AlterConfigsResourceResponse(
                error_code=code,
                error_message=message,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
            for resource in request.resources
        ]
    )


def changes_more_than_loggers(request: IncrementalAlterConfigsRequest) -> bool:
    """The levels of its loggers are each broker's own business."""
    return any(resource.resource_type != ResourceType.BROKER_LOGGER for resource in request.resources)


def nobody_elected(request: ElectLeadersRequest, code: ErrorCode, message: str | None) -> ElectLeadersResponse:
    return ElectLeadersResponse(
        error_code=code,
        replica_election_results=[
            ReplicaElectionResult(
                topic=wanted.topic,
                partition_result=[
                    PartitionResult(partition_id=index, error_code=code, error_message=message)
                    for index in wanted.partitions
                ],
            )
            for wanted in request.topic_partitions or ()
        ],
    )


def nothing_reassigned(
    request: AlterPartitionReassignmentsRequest, code: ErrorCode, message: str | None
) -> AlterPartitionReassignmentsResponse:
    return AlterPartitionReassignmentsResponse(error_code=code, error_message=message)


def nothing_updated(request: UpdateFeaturesRequest, code: ErrorCode, message: str | None) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(error_code=code, error_message=message)


CONTROLLER_REQUESTS: Mapping[int, Decided] = {
    ApiKey.CREATE_TOPICS: Decided(no_topics),
    ApiKey.DELETE_TOPICS: Decided(nothing_deleted),
    ApiKey.CREATE_PARTITIONS: Decided(nothing_grown),
    ApiKey.ALTER_CONFIGS: Decided(nothing_altered),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Decided(nothing_changed, changes_more_than_loggers),
    ApiKey.ELECT_LEADERS: Decided(nobody_elected),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Decided(nothing_reassigned),
    ApiKey.UPDATE_FEATURES: Decided(nothing_updated),
}
