"""How a task reads its split; a value that travels to the executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from moldau.client.errors import SettingError
from moldau.client.settings import integer

READ_COMMITTED: Final = "read_committed"
READ_UNCOMMITTED: Final = "read_uncommitted"
MEBIBYTE: Final = 1 << 20
LARGEST_BATCH_BYTES: Final = 16 * MEBIBYTE
FIRST_TIMESTAMP: Final = -(2**63)
LAST_TIMESTAMP: Final = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ReadSettings:
    isolation: str = READ_COMMITTED
    fail_on_data_loss: bool = True
    timeout_seconds: float = 120.0
    """How long a task waits without getting on (`kafkaConsumer.pollTimeoutMs`)."""
    missing_seconds: float = 10.0
    """How long brokers may say that a topic is unknown before that is believed: news of it travels."""
    check_crcs: bool = True
    fetch_bytes: int = 20 * MEBIBYTE
    """Most bytes of one answer (`max.partition.fetch.bytes`); a larger batch still comes whole."""
    max_wait_ms: int = 500
    budget_bytes: int = 32 * MEBIBYTE
    """Answers that wait to be decoded, and the one under way."""
    far_seconds: float = 0.005
    """A broker that is further away, there and back, is asked for several answers at once."""
    far_budget_bytes: int = 64 * MEBIBYTE
    """Then this is for those that wait and all that are under way."""
    batch_bytes: int = 4 * MEBIBYTE
    """Size of an Arrow batch; a larger record stands alone in one."""
    rack: str = ""
    low_timestamp: int = FIRST_TIMESTAMP
    """Records before it are left out; microseconds, as in the column."""
    high_timestamp: int = LAST_TIMESTAMP

    @property
    def committed(self) -> bool:
        return self.isolation == READ_COMMITTED

    def with_properties(self, properties: Mapping[str, str]) -> ReadSettings:
        """What Kafka's consumer properties say, under Java's names."""
        check = properties.get("check.crcs", "true").lower()
        if check not in ("true", "false"):
            raise SettingError("check.crcs", f"{check!r} is neither true nor false")
        fetch_bytes = integer(properties, "max.partition.fetch.bytes", self.fetch_bytes)
        if not 0 < fetch_bytes < 2**31:
            raise SettingError("max.partition.fetch.bytes", f"{fetch_bytes} is not between 1 and 2147483647")
        max_wait_ms = integer(properties, "fetch.max.wait.ms", self.max_wait_ms)
        if max_wait_ms < 0:
            raise SettingError("fetch.max.wait.ms", f"{max_wait_ms} is less than 0")
        return replace(
            self,
            check_crcs=check == "true",
            fetch_bytes=fetch_bytes,
            max_wait_ms=max_wait_ms,
            rack=properties.get("client.rack", self.rack),
        )
