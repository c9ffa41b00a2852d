"""Errors in the words of Kafka's tools: Java's class names and its messages for codes that came without one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from typing import Any, Final

from moldau.cli.kafka.options import ToolError

EXCEPTIONS: Final = "org.apache.kafka.common.errors."
GENERIC: Final = "Broker: "
"""How librdkafka's own texts begin, which stand where the broker sent none."""


@cache
def table() -> dict[int, tuple[str, str]]:
    lines = files("moldau.cli.kafka").joinpath("errors.tsv").read_text().splitlines()[1:]
    rows = (line.split("\t") for line in lines)
    return {int(code): (name, message) for code, name, message in rows}


def java_message(code: int, message: str | None = None) -> str:
    """What an exception's getMessage() says in Kafka's tools."""
    if message:
        return message
    return table().get(code, ("", f"error {code}"))[1]


def java_class(code: int) -> str:
    return EXCEPTIONS + table().get(code, ("UnknownServerException", ""))[0]


def java_text(code: int, message: str | None = None) -> str:
    """What such an exception prints as."""
    return f"{java_class(code)}: {java_message(code, message)}"


class Refused(ToolError):
    """The cluster said no; the message names Java's class."""


@contextmanager
def java_refusals() -> Iterator[None]:
    """What a call was refused with, as Java prints its exception."""
    try:
        yield
    except Exception as error:
        code, message = code_and_message(error)
        if not is_failure(error) or code is None or code < 0:
            raise
        raise Refused(java_text(code, message)) from None


def is_failure(error: BaseException) -> bool:
    """Whether an error is one of cluster, connection or input, and not a mistake of ours."""
    if isinstance(error, ToolError | OSError):
        return True
    kind = type(error)
    return kind.__module__.partition(".")[0] in ("cimpl", "confluent_kafka") or any(
        base.__module__ in ("moldau.client.errors", "moldau.types.errors", "moldau.cli.output") for base in kind.__mro__
    )


def message_of(error: BaseException) -> str:
    """One line for any error that `is_failure` knows."""
    if isinstance(error, ToolError):
        return str(error)
    code, text = code_and_message(error)
    if code is not None and code > -100:
        return java_message(code, text)
    return " ".join((text or str(error)).split())


def code_and_message(error: Any) -> tuple[int | None, str | None]:
    """The protocol's error code and the broker's message, from either client's exception."""
    found: Any = error
    if getattr(found, "args", ()) and hasattr(found.args[0], "code"):
        found = found.args[0]
    if not hasattr(found, "code"):
        return (None, describe_os_error(error) if isinstance(error, OSError) else None)
    code = found.code() if callable(found.code) else int(found.code)
    text = found.str() if hasattr(found, "str") else found.message
    return code, None if text and text.startswith(GENERIC) else text


def describe_os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason
