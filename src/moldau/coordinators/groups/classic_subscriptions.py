"""What the members of consumer-type classic groups tell each other, as far as the coordinator looks into it.

subscription  int16 version, array of string topics, then what later versions add
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError

from moldau.wire.primitives import DecodeError, read_count, read_string

CONSUMER_PROTOCOL_TYPE = "consumer"
_VERSION = Struct(">h")


def subscribed_topics(subscriptions: Iterable[bytes]) -> frozenset[str] | None:
    """The topics of all these subscriptions; None if one of them cannot be read."""
    topics: set[str] = set()
    try:
        for subscription in subscriptions:
            topics.update(_topics_of(subscription))
    except (DecodeError, StructError, IndexError):
        return None
    return frozenset(topics)


def _topics_of(subscription: bytes) -> list[str]:
    (version,) = _VERSION.unpack_from(subscription)
    if version < 0:
        raise DecodeError(f"subscription version {version}")
    count, position = read_count(subscription, _VERSION.size, "topics")
    topics = []
    for _ in range(count):
        topic, position = read_string(subscription, position, "topic")
        if topic is None:
            raise DecodeError("a topic is null")
        topics.append(topic)
    return topics
