"""Settings of anything that has some.

Over our own client, which knows every kind and tells the broker's own words; through librdkafka where only that knows
the login, for the kinds it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.calls import groups, topics
from moldau.cli.calls.answers import SECONDS, demanded, outcome
from moldau.cli.calls.cluster import broker_ids
from moldau.client.asking.answers import refuse

if TYPE_CHECKING:
    from moldau.cli.connection import Connection
    from moldau.client.cluster import Cluster
    from moldau.wire.messages.describe_configs import DescribeConfigsResourceResult


class ConfigKind(IntEnum):
    """Kafka's numbers of what has settings."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Change(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class Source(IntEnum):
    """Where a value comes from."""

    UNKNOWN = 0
    DYNAMIC_TOPIC_CONFIG = 1
    DYNAMIC_BROKER_CONFIG = 2
    DYNAMIC_DEFAULT_BROKER_CONFIG = 3
    STATIC_BROKER_CONFIG = 4
    DEFAULT_CONFIG = 5
    DYNAMIC_BROKER_LOGGER_CONFIG = 6
    DYNAMIC_CLIENT_METRICS_CONFIG = 7
    DYNAMIC_GROUP_CONFIG = 8

    @classmethod
    def _missing_(cls, value: object) -> Source:
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True)
class Synonym:
    name: str
    value: str | None
    source: Source


@dataclass(frozen=True, slots=True)
class Setting:
    name: str
    value: str | None
    source: Source
    read_only: bool
    sensitive: bool
    synonyms: tuple[Synonym, ...]


Changes = Sequence[tuple[Change, str, str | None]]
BROKERS_OWN: Final = (ConfigKind.BROKER, ConfigKind.BROKER_LOGGER)
"""Asked of the broker itself, if one is named; without a name they are the common settings of all brokers."""
LIBRDKAFKA_KINDS: Final = {ConfigKind.TOPIC: "topic", ConfigKind.BROKER: "broker", ConfigKind.GROUP: "group"}


def describe(cluster: Connection, kind: ConfigKind, name: str) -> list[Setting]:
    """Every setting of one thing, by name."""
    if _only_librdkafka(cluster, kind, name):
        found = _through_librdkafka(cluster, kind, name)
    else:
        found = [_from_wire(entry) for entry in _over_the_wire(cluster.wire(), kind, [name])[name]]
    return sorted(found, key=lambda setting: setting.name)


def describe_topics(cluster: Connection, names: Sequence[str]) -> dict[str, list[Setting]]:
    """The settings of many topics in one request."""
    if not names:
        return {}
    if _only_librdkafka(cluster, ConfigKind.TOPIC, names[0]):
        return {name: _through_librdkafka(cluster, ConfigKind.TOPIC, name) for name in names}
    found = _over_the_wire(cluster.wire(), ConfigKind.TOPIC, names)
    return {name: [_from_wire(entry) for entry in found[name]] for name in names}


def alter(cluster: Connection, kind: ConfigKind, name: str, changes: Changes, validate_only: bool = False) -> None:
    """Incremental changes: what they do, the setting, the value."""
    if _only_librdkafka(cluster, kind, name):
        _alter_through_librdkafka(cluster, kind, name, changes, validate_only)
        return
    from moldau.wire.messages.incremental_alter_configs import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

    configs = [
        AlterableConfig(name=key, config_operation=change, value="" if change is Change.DELETE else value)
        for change, key, value in changes
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    (done,) = _send(cluster.wire(), kind, name, request, IncrementalAlterConfigsResponse).responses
    refuse(done.error_code, done.error_message)


def names(cluster: Connection, kind: ConfigKind) -> list[str]:
    """What of this kind there is."""
    match kind:
        case ConfigKind.TOPIC:
            return topics.names(cluster)
        case ConfigKind.BROKER | ConfigKind.BROKER_LOGGER:
            return [str(broker) for broker in broker_ids(cluster)]
        case ConfigKind.GROUP:
            return sorted({*groups.names(cluster), *_with_settings(cluster, kind)})
        case _:
            return _with_settings(cluster, kind)


def _with_settings(cluster: Connection, kind: ConfigKind) -> list[str]:
    """What has settings of its own; nothing where the cluster is too old to say."""
    from moldau.client.errors import VersionUnsupported
    from moldau.wire.messages.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse

    try:
        answer = cluster.wire().any(ListConfigResourcesRequest(resource_types=[kind]), ListConfigResourcesResponse)
    except VersionUnsupported:
        return []
    refuse(answer.error_code)
    return sorted(found.resource_name for found in answer.config_resources if found.resource_type == kind)


# -- over our own client -------------------------------------------------------------------------------------------


def _over_the_wire(
    wire: Cluster, kind: ConfigKind, names: Sequence[str]
) -> dict[str, list[DescribeConfigsResourceResult]]:
    from moldau.wire.messages.describe_configs import (
        DescribeConfigsRequest,
        DescribeConfigsResource,
        DescribeConfigsResponse,
    )

    resources = [
        DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None) for name in names
    ]
    request = DescribeConfigsRequest(resources=resources, include_synonyms=True)
    found = {}
    for result in _send(wire, kind, names[0], request, DescribeConfigsResponse).results:
        refuse(result.error_code, result.error_message)
        found[result.resource_name] = list(result.configs)
    return found


def _send(wire: Cluster, kind: ConfigKind, name: str, request: Any, answer_class: Any) -> Any:
    def ask() -> Any:
        if kind in BROKERS_OWN and name:
            return wire.to_broker(int(name), request, answer_class)
        return wire.any(request, answer_class)

    return wire.retrying(ask)


def _from_wire(entry: DescribeConfigsResourceResult) -> Setting:
    synonyms = tuple(Synonym(each.name, each.value, Source(each.source)) for each in entry.synonyms)
    return Setting(entry.name, entry.value, Source(entry.config_source), entry.read_only, entry.is_sensitive, synonyms)


# -- through librdkafka --------------------------------------------------------------------------------------------


def _only_librdkafka(cluster: Connection, kind: ConfigKind, name: str) -> bool:
    return cluster.needs_librdkafka and kind in LIBRDKAFKA_KINDS and bool(name)


def _resource(kind: ConfigKind, name: str, **more: Any) -> Any:
    from confluent_kafka.admin import ConfigResource

    return ConfigResource(LIBRDKAFKA_KINDS[kind], name, **more)


def _through_librdkafka(cluster: Connection, kind: ConfigKind, name: str) -> list[Setting]:
    resource = _resource(kind, name)
    entries = demanded(outcome(cluster.admin().describe_configs([resource], request_timeout=SECONDS)[resource]))
    return [
        Setting(
            entry.name,
            entry.value,
            Source(int(entry.source)),
            bool(entry.is_read_only),
            bool(entry.is_sensitive),
            tuple(Synonym(each.name, each.value, Source(int(each.source))) for each in entry.synonyms.values()),
        )
        for entry in entries.values()
    ]


def _alter_through_librdkafka(
    cluster: Connection, kind: ConfigKind, name: str, changes: Changes, validate_only: bool
) -> None:
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry

    entries = [
        ConfigEntry(key, value, incremental_operation=AlterConfigOpType[change.name]) for change, key, value in changes
    ]
    resource = _resource(kind, name, incremental_configs=entries)
    asked = cluster.admin().incremental_alter_configs([resource], validate_only=validate_only, request_timeout=SECONDS)
    demanded(outcome(asked[resource]))
