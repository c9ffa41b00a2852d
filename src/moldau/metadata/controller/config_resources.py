"""The kinds of things that have settings: where these are stored, and which settings each kind accepts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum

from moldau.config.broker import BrokerConfig
from moldau.config.definition import ConfigError, Settings, Value
from moldau.config.javatext import in_hash_order
from moldau.config.tables import client_metrics_settings, group_settings
from moldau.config.topic import validate_overrides
from moldau.metadata import image as images
from moldau.metadata import paths
from moldau.metadata.controller.config_operations import java_split
from moldau.metadata.controller.topic_names import check_topic_name
from moldau.metadata.image import NO_SETTINGS, ClusterImage
from moldau.types.errors import ErrorCode, KafkaError


class ResourceType(IntEnum):
    """The numbers of Kafka's config resources."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


CLIENT_MATCHES = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
SHORTEST_PUSH_INTERVAL_MS = 100
LONGEST_PUSH_INTERVAL_MS = 3_600_000

# A group's setting, and the broker's settings that bound it from below and from above; in Kafka's order.
GROUP_BOUNDS = (
    ("consumer.heartbeat.interval.ms", "group.consumer.{}.heartbeat.interval.ms", "min max"),
    ("consumer.session.timeout.ms", "group.consumer.{}.session.timeout.ms", "min max"),
    ("consumer.assignment.interval.ms", "group.consumer.{}.assignment.interval.ms", "min max"),
    ("share.heartbeat.interval.ms", "group.share.{}.heartbeat.interval.ms", "min max"),
    ("share.session.timeout.ms", "group.share.{}.session.timeout.ms", "min max"),
    ("share.record.lock.duration.ms", "group.share.{}.record.lock.duration.ms", "min max"),
    ("share.delivery.count.limit", "group.share.{}.delivery.count.limit", "min max"),
    ("share.partition.max.record.locks", "group.share.{}.partition.max.record.locks", "min max"),
    ("share.assignment.interval.ms", "group.share.{}.assignment.interval.ms", "min max"),
    ("streams.heartbeat.interval.ms", "group.streams.{}.heartbeat.interval.ms", "min max"),
    ("streams.session.timeout.ms", "group.streams.{}.session.timeout.ms", "min max"),
    ("streams.num.standby.replicas", "group.streams.{}.standby.replicas", "max"),
    ("streams.assignment.interval.ms", "group.streams.{}.assignment.interval.ms", "min max"),
)
_SESSIONS = ("consumer", "share", "streams")


def path_of(kind: ResourceType, name: str) -> str:
    match kind:
        case ResourceType.TOPIC:
            return paths.topic_config(name)
        case ResourceType.BROKER:
            return paths.broker_config(int(name) if name else None)
        case ResourceType.GROUP:
            return paths.group_config(name)
        case ResourceType.CLIENT_METRICS:
            return paths.client_metrics_config(name)
        case ResourceType.BROKER_LOGGER:
            raise ValueError("levels of loggers are not stored")


def settings_of(image: ClusterImage, kind: ResourceType, name: str) -> images.Settings:
    match kind:
        case ResourceType.TOPIC:
            topic = image.topics.get(name)
            return NO_SETTINGS if topic is None else topic.settings
        case ResourceType.BROKER if not name:
            return image.default_broker_settings
        case ResourceType.BROKER:
            return image.broker_settings.get(int(name), NO_SETTINGS)
        case ResourceType.GROUP:
            return image.group_settings.get(name, NO_SETTINGS)
        case ResourceType.CLIENT_METRICS:
            return image.client_metrics_settings.get(name, NO_SETTINGS)
        case ResourceType.BROKER_LOGGER:
            return NO_SETTINGS


def check_resource(
    image: ClusterImage, kind: ResourceType, name: str, settings: Mapping[str, str], broker: BrokerConfig
) -> None:
    """Raises KafkaError unless the resource may have exactly these settings."""
    try:
        match kind:
            case ResourceType.TOPIC:
                _check_topic(image, name, settings, broker)
            case ResourceType.GROUP:
                _check_group(name, settings, broker)
            case ResourceType.CLIENT_METRICS:
                _check_client_metrics(name, settings)
    except ConfigError as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from error


def _check_topic(image: ClusterImage, name: str, settings: Mapping[str, str], broker: BrokerConfig) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed.")
    check_topic_name(name)
    validate_overrides(settings, broker)
    if name not in image.topics:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")


def _check_group(name: str, settings: Mapping[str, str], broker: BrokerConfig) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Default group resources are not allowed.")
    known = group_settings()
    for key in in_hash_order(settings):
        if key not in known:
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown group config name: {key}")
    values = _parsed(known, settings)
    for key, bound, sides in GROUP_BOUNDS:
        if "min" in sides and _number(values[key]) < _number(broker.values[bound.format("min")]):
            raise _group_refused(f"{key} must be greater than or equal to {bound.format('min')}")
        if _number(values[key]) > _number(broker.values[bound.format("max")]):
            raise _group_refused(f"{key} must be less than or equal to {bound.format('max')}")
    for protocol in _SESSIONS:
        session, heartbeat = f"{protocol}.session.timeout.ms", f"{protocol}.heartbeat.interval.ms"
        if _number(values[session]) <= _number(values[heartbeat]):
            raise _group_refused(f"{session} must be greater than {heartbeat}")


def _group_refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_CONFIG, message)


def _check_client_metrics(name: str, settings: Mapping[str, str]) -> None:
    if not name:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    known = client_metrics_settings()
    for key in settings:
        if key not in known:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}")
    values = _parsed(known, settings)
    interval = _number(values["interval.ms"])
    if not SHORTEST_PUSH_INTERVAL_MS <= interval <= LONGEST_PUSH_INTERVAL_MS:
        message = (
            f"Invalid value {interval} for interval.ms, interval must be between {SHORTEST_PUSH_INTERVAL_MS} and "
            f"{LONGEST_PUSH_INTERVAL_MS} (1 hour)"
        )
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    patterns = values["match"]
    for pattern in patterns if isinstance(patterns, tuple) else ():
        if not _is_client_match(pattern):
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


def _is_client_match(pattern: str) -> bool:
    parts = java_split(pattern, "=")
    if len(parts) != 2 or parts[0].strip() not in CLIENT_MATCHES:
        return False
    try:
        re.compile(parts[1].strip())
    except re.error:
        return False
    return True


def _parsed(known: Settings, given: Mapping[str, str]) -> dict[str, Value]:
    return {
        name: setting.parse(given[name]) if name in given else setting.default_value for name, setting in known.items()
    }


def _number(value: Value) -> int:
    assert isinstance(value, int)
    return value
