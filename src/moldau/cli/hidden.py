"""What belongs to the platform itself and is left out of lists unless asked for."""

from __future__ import annotations

from typing import Final

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
OWN_PREFIX: Final = "__moldau"
"""Topics and groups that our own services keep, such as the markers of Spark's sinks."""


def hidden_topic(name: str) -> bool:
    return name in INTERNAL_TOPICS or name.startswith(OWN_PREFIX)


def hidden_group(name: str) -> bool:
    return name.startswith(OWN_PREFIX)
