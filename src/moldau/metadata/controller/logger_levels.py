"""Whether the levels of a running broker's loggers may be changed as asked."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from moldau.metadata.controller.config_operations import (
    AlterOperation,
    SettingChange,
    invalid_request,
    parse_node_id,
)
from moldau.types.errors import ErrorCode, KafkaError

LOG_LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "TRACE", "WARN")
ROOT_LOGGER = "root"


def check_logger_changes(name: str, changes: Sequence[SettingChange], node_id: int, loggers: Collection[str]) -> None:
    """Raises KafkaError unless the broker of this name is this one and every change can be made."""
    if parse_node_id(name) != node_id:
        raise invalid_request(f"Unexpected node id. Expected {node_id}, but received {name}")
    for change in changes:
        _check_logger_change(change, loggers)


def _check_logger_change(change: SettingChange, loggers: Collection[str]) -> None:
    match change.operation:
        case AlterOperation.SET:
            _check_logger(change.name, loggers)
            if change.value not in LOG_LEVELS:
                message = (
                    f"Cannot set the log level of {change.name} to {change.value} as it is not a supported log level. "
                    f"Valid log levels are {', '.join(LOG_LEVELS)}"
                )
                raise KafkaError(ErrorCode.INVALID_CONFIG, message)
        case AlterOperation.DELETE:
            _check_logger(change.name, loggers)
            if change.name == ROOT_LOGGER:
                raise invalid_request("Removing the log level of the root logger is not allowed")
        case AlterOperation.APPEND | AlterOperation.SUBTRACT:
            verb = AlterOperation(change.operation).name
            raise invalid_request(f"{verb} operation is not allowed for the BROKER_LOGGER resource")
        case _:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _check_logger(name: str, loggers: Collection[str]) -> None:
    if name != ROOT_LOGGER and name not in loggers:
        raise KafkaError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
