"""How kafka-consumer-groups tells what went wrong."""

from __future__ import annotations

from moldau.cli.kafka.failures import code_and_message, java_text, message_of
from moldau.cli.kafka.options import ToolError


class IllegalArgument(ToolError):
    """An option's value that makes no sense; the usage follows."""


class Wrapped(ToolError):
    """An error whose class Kafka's tool names before its message."""

    def __init__(self, code: int, message: str | None = None) -> None:
        super().__init__(java_text(code, message))


def print_error(message: str) -> None:
    print(f"\nError: {message}")


def reason(error: Exception) -> str:
    return message_of(error)


def class_and_message(error: Exception) -> str:
    """An exception of the cluster as Java prints it."""
    code, message = code_and_message(error)
    return str(error) if code is None else java_text(code, message)
