"""How kafka-consumer-groups tells what went wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from moldau.cli.calls.group_states import Group, describe_group
from moldau.cli.kafka.failures import code_and_message, java_text, message_of
from moldau.cli.kafka.options import ToolError
from moldau.types.error_codes import RETRIABLE
from moldau.types.errors import KafkaError

if TYPE_CHECKING:
    from moldau.cli.connection import Connection


class IllegalArgument(ToolError):
    """An option's value that makes no sense; the usage follows."""


class Wrapped(ToolError):
    """An error whose class Kafka's tool names before its message."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(java_text(code, message))


def described(connection: Connection, group_id: str) -> Group:
    """A group, or its error with the class that Kafka's tool names."""
    try:
        return describe_group(connection, group_id)
    except KafkaError as error:
        if error.code in RETRIABLE:
            raise
        raise Wrapped(error.code, error.message) from None


def print_error(message: str) -> None:
    print(f"\nError: {message}")


def reason(error: Exception) -> str:
    return message_of(error)


def class_and_message(error: Any) -> str:
    """A refusal or an exception of the cluster as Java prints it."""
    code, message = code_and_message(error)
    return str(error) if code is None else java_text(code, message)
