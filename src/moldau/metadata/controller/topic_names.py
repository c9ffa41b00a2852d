"""Which names a topic may have."""

from __future__ import annotations

import re

from moldau.types.errors import ErrorCode, KafkaError

MAX_LENGTH = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raises KafkaError with Apache Kafka's reason if no topic can have this name."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def metric_name(name: str) -> str:
    """Two topics whose names differ only in '.' and '_' would share their metrics."""
    return name.replace(".", "_")


def has_colliding_characters(name: str) -> bool:
    return "." in name or "_" in name
