"""Quotas of clients as Kafka has them: limits, by name, for a user, a client id, both, or an address."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, TypeAlias


class EntityType(StrEnum):
    USER = "user"
    CLIENT_ID = "client-id"
    IP = "ip"


class QuotaKey(StrEnum):
    PRODUCER_BYTE_RATE = "producer_byte_rate"
    CONSUMER_BYTE_RATE = "consumer_byte_rate"
    REQUEST_PERCENTAGE = "request_percentage"
    CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
    CONNECTION_CREATION_RATE = "connection_creation_rate"


DEFAULT: Final = None
"""In the place of a name: whoever has no quota under their own."""

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""Types with names, sorted by type."""


def quota_entity(names: dict[str, str | None]) -> QuotaEntity:
    return tuple(sorted(names.items()))
