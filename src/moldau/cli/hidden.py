"""What belongs to the platform itself and is left out of lists unless asked for."""

from __future__ import annotations

from moldau.types.internal_topics import INTERNAL_TOPICS, OWN_PREFIX


def hidden_topic(name: str) -> bool:
    return name in INTERNAL_TOPICS or name.startswith(OWN_PREFIX)


def hidden_group(name: str) -> bool:
    return name.startswith(OWN_PREFIX)
