"""DescribeConfigs, versions 1 to 4: settings of topics, this broker, all brokers by default, this broker's loggers,
groups and subscriptions to client metrics, each with its source, its synonyms and its documentation.

Loggers are those of this process and not the ones that Apache Kafka has; documentation is in our own words.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Collection, Iterable
from typing import TYPE_CHECKING

from moldau.config import dynamic
from moldau.config.dynamic import ConfigEntry, ConfigSource
from moldau.metadata.controller.config_operations import invalid_request, parse_node_id
from moldau.metadata.controller.config_resources import ResourceType, settings_of
from moldau.metadata.controller.topic_names import check_topic_name
from moldau.security.authorizer import Operation
from moldau.security.context import RequestContext
from moldau.server.broker_loggers import BrokerLoggers
from moldau.server.config_access import may_access
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.codec import Encoded, encode_part
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from moldau.work.slices import Work, pauses
from moldau.work.turns import begin

if TYPE_CHECKING:
    from moldau.server.broker import Broker

MALFORMED = (
    "This most likely occurs because of a request being malformed by the client library or the message was sent to an "
    "incompatible broker. See the broker logs for more details."
)
#: Kafka sends an empty message, not none, where there is nothing to say.
NOTHING_TO_SAY = ""
RESOURCES_PER_TURN = 1


def handle(
    broker: Broker, context: RequestContext, request: DescribeConfigsRequest
) -> DescribeConfigsResponse | Awaitable[DescribeConfigsResponse]:
    return begin(respond(broker, context, request))


def respond(broker: Broker, context: RequestContext, request: DescribeConfigsRequest) -> Work[DescribeConfigsResponse]:
    paused = pauses(RESOURCES_PER_TURN)
    asked: list[tuple[ResourceType, DescribeConfigsResource]] = []
    try:
        asked = [(ResourceType(resource.resource_type), resource) for resource in request.resources]
    except ValueError:
        # One kind that nobody knows spoils the whole request.
        return DescribeConfigsResponse(
            results=[refused(resource, ErrorCode.INVALID_REQUEST, MALFORMED) for resource in request.resources]
        )
    permitted: list[Encoded] = []
    others: list[Encoded] = []
    for kind, resource in asked:
        if may_access(broker, context, Operation.DESCRIBE_CONFIGS, kind, resource.resource_name):
            answers, answer = permitted, describe(broker, kind, resource, request)
        else:
            answers, answer = others, refused(resource, *not_permitted(kind))
        # A hundred objects each: letting go of all of them in the end would take longer than a turn.
        answers.append(encode_part(DescribeConfigsResponse, answer, context.api_version))
        if next(paused):
            yield
    return DescribeConfigsResponse(results=permitted + others)  # type: ignore[arg-type]  # the codec takes these too


def describe(
    broker: Broker, kind: ResourceType, resource: DescribeConfigsResource, request: DescribeConfigsRequest
) -> DescribeConfigsResult:
    try:
        entries = found_entries(broker, kind, resource.resource_name, resource.configuration_keys)
    except KafkaError as error:
        return refused(resource, error.code, error.message)
    return DescribeConfigsResult(
        error_message=NOTHING_TO_SAY,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[result(entry, request) for entry in entries],
    )


def found_entries(broker: Broker, kind: ResourceType, name: str, keys: Collection[str] | None) -> Iterable[ConfigEntry]:
    keys = frozenset(keys) if keys else None
    match kind:
        case ResourceType.TOPIC:
            check_topic_name(name)
            if name not in broker.image.topics:
                raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, NOTHING_TO_SAY)
            return dynamic.describe_topic(broker.image.topics[name].configs, broker.config, keys)
        case ResourceType.BROKER if not name:
            return dynamic.describe_broker_defaults(broker.config, keys)
        case ResourceType.BROKER:
            if broker_id(name) != broker.node_id:
                expected = f"expected {broker.node_id} or empty string"
                raise invalid_request(f"Unexpected broker id, {expected}, but received {name}")
            return dynamic.describe_broker(broker.config, keys)
        case ResourceType.BROKER_LOGGER:
            if broker_id(name) != broker.node_id:
                raise invalid_request(f"Unexpected broker id, expected {broker.node_id} but received {name}")
            return logger_entries(BrokerLoggers(logging.getLogger()), keys)
        case ResourceType.CLIENT_METRICS:
            if not name:
                raise invalid_request("Client metrics subscription name must not be empty")
            return dynamic.describe_client_metrics(settings_of(broker.image, kind, name).values, keys)
        case ResourceType.GROUP:
            if not name:
                raise invalid_request("Group name must not be empty")
            return dynamic.describe_group(settings_of(broker.image, kind, name).values, broker.config, keys)


def broker_id(name: str) -> int:
    if not name:
        raise invalid_request("Broker id must not be empty")
    try:
        return parse_node_id(name)
    except KafkaError:
        raise invalid_request(f"Broker id must be an integer, but it is: {name}") from None


def logger_entries(loggers: BrokerLoggers, keys: Collection[str] | None) -> list[ConfigEntry]:
    return [
        ConfigEntry(
            name=name,
            value=loggers.level(name),
            source=ConfigSource.DYNAMIC_BROKER_LOGGER_CONFIG,
            type=dynamic.UNKNOWN_TYPE,
            read_only=False,
            sensitive=False,
            synonyms=(),
            documentation="",
        )
        for name in loggers.names()
        if keys is None or name in keys
    ]


def result(entry: ConfigEntry, request: DescribeConfigsRequest) -> DescribeConfigsResourceResult:
    synonyms = entry.synonyms if request.include_synonyms else ()
    # Loggers have an empty documentation whether it was asked for or not.
    documented = request.include_documentation or entry.documentation == ""
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.read_only,
        config_source=entry.source,
        is_sensitive=entry.sensitive,
        synonyms=[DescribeConfigsSynonym(name=name, value=value, source=source) for name, value, source in synonyms],
        config_type=entry.type,
        documentation=entry.documentation if documented else None,
    )


def refused(resource: DescribeConfigsResource, code: ErrorCode, message: str | None) -> DescribeConfigsResult:
    return DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
    )


def not_permitted(kind: ResourceType) -> tuple[ErrorCode, str]:
    match kind:
        case ResourceType.TOPIC:
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed."
        case ResourceType.GROUP:
            return ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."
        case _:
            return ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed."


API = Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, DescribeConfigsRequest, handle)
