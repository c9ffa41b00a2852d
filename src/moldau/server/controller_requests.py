"""The requests that only the controller decides, and how each is refused as a whole where it cannot be asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.metadata.controller.config_resources import ResourceType
from moldau.security.context import RequestContext
from moldau.server.token_requests import NEVER, refusal_of, with_owner
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityDataInResponse,
    EntryDataInResponse,
)
from moldau.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
from moldau.wire.messages.alter_configs import AlterConfigsResourceResponse as AlterResult
from moldau.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
)
from moldau.wire.messages.alter_roles import AlterRolesRequest, AlterRolesResponse
from moldau.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from moldau.wire.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from moldau.wire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from moldau.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse
from moldau.wire.messages.delete_topics import DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse
from moldau.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from moldau.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from moldau.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from moldau.wire.messages.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.server.broker import Broker

Refuse = Callable[[Any, ErrorCode, str | None], Message]


@dataclass(frozen=True, slots=True)
class Decided:
    refuse: Refuse
    #: Whether the controller is needed for this very request.
    applies: Callable[[Any], bool] = lambda _: True
    #: Asked on the broker that the client is connected to, which alone knows how it came.
    refusal_of: Callable[[Broker, RequestContext], ErrorCode | None] = lambda _broker, _context: None
    #: Whether the time that a client has to wait is the answer's first field.
    begins_with_throttle: bool = True
    #: A refusal with what it says of the client.
    completed: Callable[[Any, RequestContext, Any], Message] = lambda refusal, _context, _request: refusal


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


def nobody_forgotten(
    _request: UnregisterBrokerRequest, code: ErrorCode, message: str | None
) -> UnregisterBrokerResponse:
    return UnregisterBrokerResponse(error_code=code, error_message=message)


def no_credentials(
    request: AlterUserScramCredentialsRequest, code: ErrorCode, message: str | None
) -> AlterUserScramCredentialsResponse:
    names = [deletion.name for deletion in request.deletions] + [upsertion.name for upsertion in request.upsertions]
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=code, error_message=message)
            for user in dict.fromkeys(names)
        ]
    )


def no_rules(request: CreateAclsRequest, code: ErrorCode, message: str | None) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[AclCreationResult(error_code=code, error_message=message)] * len(request.creations)
    )


def no_rules_deleted(request: DeleteAclsRequest, code: ErrorCode, message: str | None) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error_code=code, error_message=message)] * len(request.filters)
    )


def no_quotas_altered(
    request: AlterClientQuotasRequest, code: ErrorCode, message: str | None
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryDataInResponse(
                error_code=code,
                error_message=message,
                entity=[
                    EntityDataInResponse(entity_type=each.entity_type, entity_name=each.entity_name)
                    for each in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


def no_roles_altered(_request: AlterRolesRequest, code: ErrorCode, message: str | None) -> AlterRolesResponse:
    return AlterRolesResponse(error_code=code, error_message=message or "")


def no_token(
    _request: CreateDelegationTokenRequest, code: ErrorCode, _message: str | None
) -> CreateDelegationTokenResponse:
    return CreateDelegationTokenResponse(
        error_code=code, issue_timestamp_ms=NEVER, expiry_timestamp_ms=NEVER, max_timestamp_ms=NEVER
    )


def not_renewed(
    _request: RenewDelegationTokenRequest, code: ErrorCode, _message: str | None
) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER)


def not_expired(
    _request: ExpireDelegationTokenRequest, code: ErrorCode, _message: str | None
) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NEVER)


CONTROLLER_REQUESTS: Mapping[int, Decided] = {
    ApiKey.CREATE_TOPICS: Decided(no_topics),
    ApiKey.DELETE_TOPICS: Decided(nothing_deleted),
    ApiKey.CREATE_PARTITIONS: Decided(nothing_grown),
    ApiKey.ALTER_CONFIGS: Decided(nothing_altered),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: Decided(nothing_changed, changes_more_than_loggers),
    ApiKey.ELECT_LEADERS: Decided(nobody_elected),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: Decided(nothing_reassigned),
    ApiKey.UPDATE_FEATURES: Decided(nothing_updated),
    ApiKey.UNREGISTER_BROKER: Decided(nobody_forgotten),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: Decided(no_credentials),
    ApiKey.CREATE_ACLS: Decided(no_rules),
    ApiKey.DELETE_ACLS: Decided(no_rules_deleted),
    ApiKey.ALTER_ROLES: Decided(no_roles_altered),
    ApiKey.ALTER_CLIENT_QUOTAS: Decided(no_quotas_altered),
    ApiKey.CREATE_DELEGATION_TOKEN: Decided(
        no_token, refusal_of=refusal_of, begins_with_throttle=False, completed=with_owner
    ),
    ApiKey.RENEW_DELEGATION_TOKEN: Decided(not_renewed, refusal_of=refusal_of, begins_with_throttle=False),
    ApiKey.EXPIRE_DELEGATION_TOKEN: Decided(not_expired, refusal_of=refusal_of, begins_with_throttle=False),
}
