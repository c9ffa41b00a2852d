"""Settings of any resource, asked and changed over the protocol: librdkafka knows neither the brokers' common settings
nor those of client metrics.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from moldau.cli.kafka.failures import java_text
from moldau.cli.kafka.options import ToolError
from moldau.client.errors import VersionUnsupported
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

SET, DELETE = 0, 1


class Resource(IntEnum):
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG", 2: "DYNAMIC_BROKER_CONFIG", 3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG", 5: "DEFAULT_CONFIG", 6: "DYNAMIC_BROKER_LOGGER_CONFIG",
    7: "DYNAMIC_CLIENT_METRICS_CONFIG", 8: "DYNAMIC_GROUP_CONFIG",
}  # fmt: skip


class Refused(ToolError):
    """The cluster said no; the message names Java's class."""


def describe(cluster: Cluster, kind: Resource, name: str) -> list[DescribeConfigsResourceResult]:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)],
        include_synonyms=True,
    )
    if kind in (Resource.BROKER, Resource.BROKER_LOGGER) and name:
        answer = cluster.to_broker(int(name), request, DescribeConfigsResponse)
    else:
        answer = cluster.any(request, DescribeConfigsResponse)
    (result,) = answer.results
    if result.error_code:
        raise Refused(java_text(result.error_code, result.error_message))
    return sorted(result.configs, key=lambda entry: entry.name)


def alter(cluster: Cluster, kind: Resource, name: str, added: dict[str, str], deleted: Sequence[str]) -> None:
    changes = [AlterableConfig(name=key, config_operation=DELETE, value="") for key in deleted]
    changes += [AlterableConfig(name=key, config_operation=SET, value=value) for key, value in added.items()]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=changes)
    request = IncrementalAlterConfigsRequest(resources=[resource])
    if kind in (Resource.BROKER, Resource.BROKER_LOGGER) and name:
        answer = cluster.to_broker(int(name), request, IncrementalAlterConfigsResponse)
    else:
        answer = cluster.any(request, IncrementalAlterConfigsResponse)
    for result in answer.responses:
        if result.error_code:
            raise Refused(java_text(result.error_code, result.error_message))


def names_with_settings(cluster: Cluster, kind: Resource) -> list[str] | None:
    """Names that have settings of their own; None where the cluster cannot say."""
    try:
        answer = cluster.any(ListConfigResourcesRequest(resource_types=[kind]), ListConfigResourcesResponse)
    except VersionUnsupported:
        return None
    return [each.resource_name for each in answer.config_resources]
