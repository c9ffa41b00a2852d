"""Settings that all brokers have in common, by our own client: librdkafka asks only about brokers that are named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from moldau.rest import errors
from moldau.types.errors import ErrorCode

if TYPE_CHECKING:
    from moldau.client.cluster import Cluster

BROKER: Final = 4
"""Kafka's number of the kind."""
OPERATIONS: Final = {"SET": 0, "DELETE": 1}


@dataclass(frozen=True, slots=True)
class Entry:
    """As librdkafka has it."""

    name: str
    value: str | None
    source: int
    is_read_only: bool
    is_sensitive: bool
    is_default: bool = False
    synonyms: dict[str, Entry] = field(default_factory=dict)


def described() -> Callable[[Cluster], dict[str, Entry]]:
    from moldau.wire.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
        DescribeConfigsResponse,
    )

    def ask(cluster: Cluster) -> dict[str, Entry]:
        everybody = DescribeConfigsResource(resource_type=BROKER, resource_name="", configuration_keys=None)
        request = DescribeConfigsRequest(resources=[everybody], include_synonyms=True)
        (result,) = cluster.any(request, DescribeConfigsResponse).results
        refuse(result.error_code, result.error_message)
        return {
            each.name: Entry(
                each.name,
                each.value,
                each.config_source,
                each.read_only,
                each.is_sensitive,
                synonyms={
                    f"{synonym.name} {synonym.source}": Entry(
                        synonym.name, synonym.value, synonym.source, each.read_only, each.is_sensitive
                    )
                    for synonym in each.synonyms
                },
            )
            for each in result.configs
        }

    return ask


def altered(changes: Sequence[tuple[str, str | None, str]], *, validate_only: bool) -> Callable[[Cluster], None]:
    from moldau.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

    def ask(cluster: Cluster) -> None:
        configs = [
            AlterableConfig(name=name, config_operation=OPERATIONS[operation], value=value or "")
            for name, value, operation in changes
        ]
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="", configs=configs)
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
        (done,) = cluster.any(request, IncrementalAlterConfigsResponse).responses
        refuse(done.error_code, done.error_message)

    return ask


def refuse(code: int, message: str | None) -> None:
    if code:
        raise errors.of_name(ErrorCode(code).name, message or ErrorCode(code).name, False)
