"""How many connections one listener takes: `max.connections` and `max.connection.creation.rate` with its prefix."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from moldau.config.listener_security import setting_of
from moldau.config.listeners import Listener


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    most: int
    per_second: int


def connection_limits(
    values: Mapping[str, Any], written: Mapping[str, str], listeners: Iterable[Listener]
) -> dict[str, ConnectionLimits]:
    """By listener name; without values of its own a listener has the broker's, as in Kafka. Raises ConfigError."""
    found = {}
    for listener in listeners:
        most = setting_of(listener.name, "max.connections", values, written)
        per_second = setting_of(listener.name, "max.connection.creation.rate", values, written)
        assert isinstance(most, int)
        assert isinstance(per_second, int)
        found[listener.name] = ConnectionLimits(most, per_second)
    return found
