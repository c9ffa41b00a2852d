"""What a connector says of its settings, without the rest of a configuration."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.connect.definitions import ConfigRefused
from moldau.connect.interface import Connector


def problems_of(connector: type[Connector], given: Mapping[str, str]) -> str:
    """All that is wrong, by themselves or together."""
    reading = connector.CONFIG.read(given)
    together = connector.problems({**given, **connector.CONFIG.as_far_as_known(reading)})
    return str(ConfigRefused([*reading.problems, *(problem for _, problem in together)]))
