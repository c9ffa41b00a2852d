"""Altering settings: some of them (IncrementalAlterConfigs) or all of them at once (AlterConfigs)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from moldau.config.broker import BrokerConfig
from moldau.config.definition import ConfigError, ConfigType, Settings
from moldau.config.dynamic_updates import apply_updates
from moldau.config.tables import broker_settings, topic_settings
from moldau.metadata import codec
from moldau.metadata.controller.claims import ended_claims
from moldau.metadata.controller.config_operations import (
    AlterOperation,
    SettingChange,
    invalid_request,
    java_split,
    parse_node_id,
)
from moldau.metadata.controller.config_resources import ResourceType, check_resource, path_of, settings_of
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.logger_levels import check_logger_changes
from moldau.metadata.controller.min_insync import check_min_insync
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Delete, Operation, Put
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work, pauses

_OPERATIONS = frozenset(AlterOperation)
RESOURCES_PER_TURN = 6


@dataclass(frozen=True, slots=True)
class ResourceChanges:
    """A resource and the changes asked for; `resource_type` may be none of ResourceType."""

    resource_type: int
    resource_name: str
    changes: Sequence[SettingChange]


@dataclass(frozen=True, slots=True)
class ResourceSettings:
    """A resource and all the settings it shall have."""

    resource_type: int
    resource_name: str
    settings: Sequence[tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class AlteredResource:
    resource_type: int
    resource_name: str
    code: ErrorCode = ErrorCode.NONE
    message: str | None = None


MayAlter: TypeAlias = Callable[[ResourceType, str], bool]
Try: TypeAlias = Callable[[BrokerConfig], None]
"""Raises KafkaError where this broker could not work with this configuration, for reasons outside the settings."""


def everything(_kind: ResourceType, _name: str) -> bool:
    return True


def not_tried(_config: BrokerConfig) -> None:
    pass


def incremental_alter_configs(
    image: ClusterImage,
    resources: Sequence[ResourceChanges],
    broker: BrokerConfig,
    *,
    validate_only: bool = False,
    may_alter: MayAlter = everything,
    loggers: Collection[str] = (),
    try_out: Try = not_tried,
) -> Work[Decision[list[AlteredResource]]]:
    """Each resource is altered as a whole or not at all. Levels of loggers are only checked: they are not metadata."""
    repeated = _repeated(resources)
    unknown_operation = any(_has_unknown_operation(resource) for resource in resources)
    operations: list[Operation] = []
    answers = []
    paused = pauses(RESOURCES_PER_TURN)
    for resource in resources:
        if next(paused):
            yield
        try:
            kind = _checked_kind(
                resource, repeated, [change.name for change in resource.changes], _null_names(resource)
            )
            if kind is ResourceType.BROKER_LOGGER:
                _check_permission(may_alter, kind, resource.resource_name)
                check_logger_changes(resource.resource_name, resource.changes, broker.node_id, loggers)
            else:
                name = resource.resource_name
                changed = None
                if kind is ResourceType.BROKER:
                    changed = _check_broker_changes(image, resource, broker)
                if unknown_operation:
                    # Apache Kafka's controller answers nothing better, and to all that it was sent.
                    raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
                _check_permission(may_alter, kind, name)
                if changed is not None:
                    try_out(changed)
                current = settings_of(image, kind, name).values
                check_min_insync(kind, name, _altered(resource.changes))
                operations += _stored(image, kind, name, _changed(kind, current, resource.changes), broker)
        except KafkaError as error:
            answers.append(AlteredResource(resource.resource_type, resource.resource_name, error.code, error.message))
        else:
            answers.append(AlteredResource(resource.resource_type, resource.resource_name))
    ended = yield from ended_claims(image, operations, broker)
    return Decision(() if validate_only else [*ended, *operations], answers)


def alter_configs(
    image: ClusterImage,
    resources: Sequence[ResourceSettings],
    broker: BrokerConfig,
    *,
    validate_only: bool = False,
    may_alter: MayAlter = everything,
    try_out: Try = not_tried,
) -> Work[Decision[list[AlteredResource]]]:
    """Each resource gets exactly the settings given, or keeps those it has."""
    repeated = _repeated(resources)
    operations: list[Operation] = []
    answers = []
    paused = pauses(RESOURCES_PER_TURN)
    for resource in resources:
        if next(paused):
            yield
        name = resource.resource_name
        try:
            null_names = [key for key, value in resource.settings if value is None]
            kind = _checked_kind(resource, repeated, [key for key, _ in resource.settings], null_names)
            if kind is ResourceType.BROKER_LOGGER:
                raise _unknown_type(resource.resource_type)
            wanted = {key: value for key, value in resource.settings if value is not None}
            changed = None
            if kind is ResourceType.BROKER:
                _check_broker_name(image, name, broker.node_id)
                changed = _check_broker_settings(wanted, name, broker)
            _check_permission(may_alter, kind, name)
            if changed is not None:
                try_out(changed)
            check_min_insync(kind, name, _differing(settings_of(image, kind, name).values, wanted))
            operations += _stored(image, kind, name, wanted, broker)
        except KafkaError as error:
            answers.append(AlteredResource(resource.resource_type, name, error.code, error.message))
        else:
            answers.append(AlteredResource(resource.resource_type, name))
    ended = yield from ended_claims(image, operations, broker)
    return Decision(() if validate_only else [*ended, *operations], answers)


def _repeated(resources: Sequence[ResourceChanges] | Sequence[ResourceSettings]) -> set[tuple[int, str]]:
    times = Counter((resource.resource_type, resource.resource_name) for resource in resources)
    return {resource for resource, count in times.items() if count > 1}


def _checked_kind(
    resource: ResourceChanges | ResourceSettings,
    repeated: Collection[tuple[int, str]],
    names: Sequence[str],
    null_names: Sequence[str],
) -> ResourceType:
    if (resource.resource_type, resource.resource_name) in repeated:
        raise invalid_request("Each resource must appear at most once.")
    if len(set(names)) < len(names):
        raise invalid_request("Error due to duplicate config keys")
    if null_names:
        raise invalid_request(f"Null value not supported for : {', '.join(null_names)}")
    try:
        return ResourceType(resource.resource_type)
    except ValueError:
        raise _unknown_type(resource.resource_type) from None


def _null_names(resource: ResourceChanges) -> list[str]:
    return [
        change.name for change in resource.changes if change.operation != AlterOperation.DELETE and change.value is None
    ]


def _altered(changes: Sequence[SettingChange]) -> dict[str, str | None]:
    return {change.name: None if change.operation == AlterOperation.DELETE else change.value for change in changes}


def _differing(current: Mapping[str, str], wanted: Mapping[str, str]) -> dict[str, str | None]:
    removed: dict[str, str | None] = {name: None for name in current if name not in wanted}
    return removed | {name: value for name, value in wanted.items() if current.get(name) != value}


def _has_unknown_operation(resource: ResourceChanges) -> bool:
    if resource.resource_type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return False
    return any(change.operation not in _OPERATIONS for change in resource.changes)


def _changed(kind: ResourceType, current: Mapping[str, str], changes: Sequence[SettingChange]) -> dict[str, str]:
    """The settings after the changes. Only topics and brokers have settings that Kafka takes for lists here."""
    known: Settings = {}
    if kind is ResourceType.TOPIC:
        known = topic_settings()
    elif kind is ResourceType.BROKER:
        known = broker_settings()
    settings = dict(current)
    # Whether a list can be changed is looked at before any value is.
    for change in changes:
        operation = AlterOperation(change.operation)
        if operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
            setting = known.get(change.name)
            if setting is None or setting.type is not ConfigType.LIST:
                message = f"Can't {operation.name} to key {change.name} because its type is not LIST."
                raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    for change in changes:
        _change_one(settings, change, known)
    return settings


def _change_one(settings: dict[str, str], change: SettingChange, known: Settings) -> None:
    name, value = change.name, change.value or ""
    match change.operation:
        case AlterOperation.SET:
            settings[name] = value
        case AlterOperation.DELETE:
            settings.pop(name, None)
        case AlterOperation.APPEND:
            items = _list_items(settings.get(name, known[name].default))
            settings[name] = ",".join([*items, *(i for i in dict.fromkeys(java_split(value)) if i not in items)])
        case AlterOperation.SUBTRACT:
            items = _list_items(settings.get(name, known[name].default))
            for item in java_split(value):
                if item in items:
                    items.remove(item)
            settings[name] = ",".join(items)


def _list_items(text: str | None) -> list[str]:
    return [item for item in (text or "").split(",") if item]


def _stored(
    image: ClusterImage, kind: ResourceType, name: str, wanted: dict[str, str], broker: BrokerConfig
) -> list[Operation]:
    check_resource(image, kind, name, wanted, broker)
    current = settings_of(image, kind, name)
    if wanted == current.values:
        return []
    if not wanted:
        return [Delete(path_of(kind, name), current.version)]
    return [Put(path_of(kind, name), codec.encode_settings(wanted, current.unknown), current.version)]


def _check_broker_changes(image: ClusterImage, resource: ResourceChanges, broker: BrokerConfig) -> BrokerConfig | None:
    name = resource.resource_name
    _check_broker_name(image, name, broker.node_id)
    known = broker_settings()
    for change in resource.changes:
        if change.operation not in _OPERATIONS:
            raise invalid_request(f"Unknown operations type {change.operation}")
        if change.operation in (AlterOperation.APPEND, AlterOperation.SUBTRACT):
            if change.name not in known:
                raise KafkaError(ErrorCode.INVALID_CONFIG, f"Unknown config name: {change.name}")
            if known[change.name].type is not ConfigType.LIST:
                verb = AlterOperation(change.operation).name.lower()
                message = f"Config value {verb} is not allowed for config key: {change.name}"
                raise KafkaError(ErrorCode.INVALID_CONFIG, message)
    current = settings_of(image, ResourceType.BROKER, name).values
    wanted = _changed(ResourceType.BROKER, current, resource.changes)
    return _check_broker_settings(wanted, name, broker)


def _check_broker_name(image: ClusterImage, name: str, node_id: int) -> None:
    """Settings of a broker that is registered, or those that all brokers have by default (no name)."""
    if name and (number := parse_node_id(name)) != node_id and number not in image.brokers:
        raise invalid_request(f"Unexpected broker id, expected {node_id}, but received {name}")


def _check_broker_settings(wanted: Mapping[str, str], name: str, broker: BrokerConfig) -> BrokerConfig | None:
    """How this broker would be configured; None if it is about another one."""
    try:
        changed = apply_updates(broker, wanted, per_broker=bool(name))
    except ConfigError as error:
        raise invalid_request(str(error)) from error
    return changed if not name or parse_node_id(name) == broker.node_id else None


def _check_permission(may_alter: MayAlter, kind: ResourceType, name: str) -> None:
    if may_alter(kind, name):
        return
    match kind:
        case ResourceType.TOPIC:
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
        case ResourceType.GROUP:
            raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
        case _:
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def _unknown_type(number: int) -> KafkaError:
    return invalid_request(f"Unknown resource type {number}")
