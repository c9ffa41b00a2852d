"""The cluster as one immutable value, built from the entries of the metadata store.

A topic is in the image when its entry and all the partitions it counts are there. What is not (yet) part of a whole
topic waits in `loose`, so that a store may deliver a large change in any order and in pieces, and applying changes one
by one gives the same image as building it anew. Parts that did not change keep their identity from image to image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from uuid import UUID

from moldau.metadata.codec import Listener
from moldau.metadata.store import ABSENT, Revision

NO_LEADER = -1

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})

_EMPTY: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PartitionImage:
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one resource, and the version of the entry that holds them."""

    values: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    version: int = ABSENT


NO_SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    id: UUID
    partitions: tuple[PartitionImage, ...]
    settings: Settings = NO_SETTINGS
    version: int = 0

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def configs(self) -> Mapping[str, str]:
        """The settings that were given for this topic."""
        return self.settings.values

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True)
class BrokerImage:
    id: int
    epoch: int
    incarnation: UUID
    listeners: Mapping[str, Listener]
    rack: str | None
    fenced: bool
    version: int


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """Finalized feature levels; `epoch` grows with each change."""

    levels: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    epoch: int = ABSENT


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    next_id: int = 0
    version: int = ABSENT


@dataclass(frozen=True, slots=True)
class LooseTopic:
    """Pieces that do not make a whole topic; `entry` is the topic's own: id, number of partitions, version."""

    entry: tuple[UUID, int, int] | None
    partitions: Mapping[int, PartitionImage]
    settings: Settings


@dataclass(frozen=True, slots=True)
class ClusterImage:
    version: Revision = 0
    cluster_id: str | None = None
    brokers: Mapping[int, BrokerImage] = field(default_factory=lambda: _EMPTY)
    topics: Mapping[str, TopicImage] = field(default_factory=lambda: _EMPTY)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=lambda: _EMPTY)
    broker_settings: Mapping[int, Settings] = field(default_factory=lambda: _EMPTY)
    default_broker_settings: Settings = NO_SETTINGS
    group_settings: Mapping[str, Settings] = field(default_factory=lambda: _EMPTY)
    client_metrics_settings: Mapping[str, Settings] = field(default_factory=lambda: _EMPTY)
    features: FeaturesImage = field(default_factory=FeaturesImage)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    loose: Mapping[str, LooseTopic] = field(default_factory=lambda: _EMPTY)

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None


EMPTY_IMAGE = ClusterImage()
