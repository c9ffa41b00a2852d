"""What clients ask to be done to a setting, and how names and lists in it are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from moldau.types.errors import ErrorCode, KafkaError

_INTEGER = re.compile(r"[+-]?[0-9]{1,10}")


class AlterOperation(IntEnum):
    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


@dataclass(frozen=True, slots=True)
class SettingChange:
    """`operation` is as the client sent it and may be none of AlterOperation."""

    name: str
    operation: int
    value: str | None


def java_split(text: str, separator: str = ",") -> list[str]:
    """As Java's String.split: empty pieces at the end are dropped, unless the text itself is empty."""
    pieces = text.split(separator)
    while text and pieces and not pieces[-1]:
        pieces.pop()
    return pieces


def parse_node_id(name: str) -> int:
    if not _INTEGER.fullmatch(name):
        raise invalid_request(f"Node id must be an integer, but it is: {name}")
    return int(name)


def invalid_request(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
