"""Ids of new topics."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from moldau.metadata.image import ClusterImage
from moldau.types.uuid_text import encode_uuid

# Kafka gives meanings of its own to the lowest ids (0: none, 1: its metadata topic).
FIRST_FREE = 100


def new_topic_id(image: ClusterImage, new_uuid: Callable[[], UUID]) -> UUID:
    """An id that no topic has, and that is not taken for an option when it stands on a command line."""
    while True:
        topic_id = new_uuid()
        if (
            topic_id.int >= FIRST_FREE
            and topic_id not in image.topics_by_id
            and not encode_uuid(topic_id).startswith("-")
        ):
            return topic_id
