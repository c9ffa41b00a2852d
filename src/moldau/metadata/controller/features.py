"""Feature levels: what this release supports, and what a new cluster is finalized at.

Clients choose protocols by these: transactions of the second kind only where `transaction.version` is finalized at 2,
the newer consumer groups only where `group.version` is at 1. A feature that is not served is not named.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

GROUP_VERSION = "group.version"
METADATA_VERSION = "metadata.version"
TRANSACTION_VERSION = "transaction.version"


class SupportedRange(NamedTuple):
    lowest: int
    highest: int


SUPPORTED_FEATURES: Mapping[str, SupportedRange] = MappingProxyType(
    {
        GROUP_VERSION: SupportedRange(0, 1),
        METADATA_VERSION: SupportedRange(7, 30),
        TRANSACTION_VERSION: SupportedRange(0, 2),
    }
)

FEATURES_OF_A_NEW_CLUSTER: Mapping[str, int] = MappingProxyType(
    {name: supported.highest for name, supported in SUPPORTED_FEATURES.items()}
)
