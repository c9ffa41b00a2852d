"""`metrics.listeners`: where the broker's metrics are read over HTTP."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from moldau.config.definition import ConfigError

KEY = "metrics.listeners"
_ADDRESS = re.compile(r"(?:http://)?(\[[0-9a-fA-F:.]+\]|[0-9a-zA-Z\-._]*):([0-9]+)", re.IGNORECASE)
_LARGEST_PORT = 65535


@dataclass(frozen=True, slots=True)
class HttpAddress:
    """An empty host means every interface, and port 0 one that the system picks."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"http://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def metrics_listeners(texts: Sequence[str]) -> tuple[HttpAddress, ...]:
    """Raises ConfigError."""
    return tuple(_parsed(text.strip()) for text in texts)


def _parsed(text: str) -> HttpAddress:
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found[2]) > _LARGEST_PORT:
        raise ConfigError(KEY, text, "an address like http://localhost:9404")
    return HttpAddress(found[1].strip("[]"), int(found[2]))
