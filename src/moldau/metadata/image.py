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

from moldau.metadata.codec import NO_EPOCH, BrokerStateEntry, Listener, TopicEntry
from moldau.metadata.delegation_tokens import TokenImage
from moldau.metadata.partition_index import PartitionIndex, indexed
from moldau.metadata.scram_users import ScramUserImage
from moldau.metadata.security_codec import RoleEntry
from moldau.metadata.store import ABSENT, Revision
from moldau.types.acls import Acl
from moldau.types.internal_topics import INTERNAL_TOPICS
from moldau.types.quotas import QuotaEntity
from moldau.work.slices import Work, at_once

NO_LEADER = -1
NO_CONTROLLER = -1


_EMPTY: Mapping[Any, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PartitionImage:
    """`version` is the entry's, which a change of it expects; `partition_epoch` rises with each change too.

    `elr` are replicas out of the in-sync set that have all that was committed (eligible leaders); `recovering` tells
    that the leader was elected without that being known. `directories` has one for each replica, or is empty.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    version: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_leader: int = NO_LEADER
    recovering: bool = False
    directories: tuple[UUID | None, ...] = ()
    unknown: str = ""

    @property
    def is_reassigning(self) -> bool:
        return bool(self.adding or self.removing)

    def directory_of(self, broker: int) -> UUID | None:
        """In which of the broker's log directories the replica is, where that was told."""
        if not self.directories or broker not in self.replicas:
            return None
        return self.directories[self.replicas.index(broker)]


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one resource, and the version of the entry that holds them."""

    values: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    version: int = ABSENT
    unknown: str = ""


NO_SETTINGS = Settings()


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    id: UUID
    partitions: tuple[PartitionImage, ...]
    settings: Settings = NO_SETTINGS
    version: int = 0
    unknown: str = ""

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
class BrokerStateImage:
    """The controller's entry about a broker, and the version of it."""

    entry: BrokerStateEntry
    version: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    """A registration and what the controller says of it: nothing, or about an earlier one, is fenced.

    `epoch` is the revision of the registration. `state` is the controller's entry even where it is about an earlier
    registration: `boot_id` and `directories` of that one are there.
    """

    id: int
    epoch: int
    incarnation: UUID
    listeners: Mapping[str, Listener]
    rack: str | None
    fenced: bool
    version: int
    shutting_down: bool = False
    boot_id: str = ""
    directories: tuple[UUID, ...] = ()
    offline_directories: tuple[UUID, ...] = ()
    features: Mapping[str, tuple[int, int]] = field(default_factory=lambda: _EMPTY)
    clean: bool = False
    previous_epoch: int = NO_EPOCH
    state: BrokerStateImage | None = None

    @property
    def is_active(self) -> bool:
        return not self.fenced and not self.shutting_down


@dataclass(frozen=True, slots=True)
class ControllerImage:
    """Who decides: `id` is NO_CONTROLLER after it stepped down. The entry is never deleted, so epochs only rise."""

    id: int
    broker_epoch: int
    version: int
    unknown: str = ""

    @property
    def epoch(self) -> int:
        return self.version + 1


@dataclass(frozen=True, slots=True)
class FeaturesImage:
    """Finalized feature levels; `epoch` grows with each change."""

    levels: Mapping[str, int] = field(default_factory=lambda: _EMPTY)
    epoch: int = ABSENT
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class ProducerIdsImage:
    next_id: int = 0
    version: int = ABSENT
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class AclImage:
    acl: Acl
    version: int


@dataclass(frozen=True, slots=True)
class RoleImage:
    entry: RoleEntry
    version: int


@dataclass(frozen=True, slots=True)
class QuotasImage:
    """The limits of one entity, by key."""

    values: Mapping[str, float]
    version: int
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class LooseTopic:
    """Pieces that do not make a whole topic; `entry` is the topic's own, with its version."""

    entry: tuple[TopicEntry, int] | None
    partitions: Mapping[int, PartitionImage]
    settings: Settings


class IndexCell:
    """Where an image keeps its index once somebody wanted it."""

    __slots__ = ("index",)

    def __init__(self) -> None:
        self.index: PartitionIndex | None = None


@dataclass(frozen=True, slots=True)
class ClusterImage:
    version: Revision = 0
    cluster_id: str | None = None
    controller: ControllerImage | None = None
    broker_states: Mapping[int, BrokerStateImage] = field(default_factory=lambda: _EMPTY)
    brokers: Mapping[int, BrokerImage] = field(default_factory=lambda: _EMPTY)
    topics: Mapping[str, TopicImage] = field(default_factory=lambda: _EMPTY)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=lambda: _EMPTY)
    broker_settings: Mapping[int, Settings] = field(default_factory=lambda: _EMPTY)
    default_broker_settings: Settings = NO_SETTINGS
    group_settings: Mapping[str, Settings] = field(default_factory=lambda: _EMPTY)
    client_metrics_settings: Mapping[str, Settings] = field(default_factory=lambda: _EMPTY)
    scram_users: Mapping[str, ScramUserImage] = field(default_factory=lambda: _EMPTY)
    tokens: Mapping[str, TokenImage] = field(default_factory=lambda: _EMPTY)
    features: FeaturesImage = field(default_factory=FeaturesImage)
    producer_ids: ProducerIdsImage = field(default_factory=ProducerIdsImage)
    loose: Mapping[str, LooseTopic] = field(default_factory=lambda: _EMPTY)
    acls: Mapping[UUID, AclImage] = field(default_factory=lambda: _EMPTY)
    roles: Mapping[str, RoleImage] = field(default_factory=lambda: _EMPTY)
    quotas: Mapping[QuotaEntity, QuotasImage] = field(default_factory=lambda: _EMPTY)
    _found: IndexCell = field(default_factory=IndexCell, init=False, compare=False, repr=False)

    @property
    def index(self) -> PartitionIndex:
        """Made when it is first asked for, and kept up from image to image from then on."""
        return at_once(self.indexing())

    def indexing(self) -> Work[PartitionIndex]:
        """`index`, in turns where it is not there yet."""
        if self._found.index is None:
            self._found.index = yield from indexed(self.topics.values())
        return self._found.index

    @property
    def known_index(self) -> PartitionIndex | None:
        return self._found.index

    def keep_index(self, index: PartitionIndex) -> None:
        """For those who make images: the index of this one, as it follows from that of the image before."""
        self._found.index = index

    def is_offline(self, replica: int, partition: PartitionImage) -> bool:
        """Whether the replica's broker takes no part, or the log directory that it is in has failed or is gone."""
        broker = self.brokers.get(replica)
        if broker is None or broker.fenced:
            return True
        directory = partition.directory_of(replica)
        if directory is None or not broker.directories:
            return False
        return directory not in broker.directories or directory in broker.offline_directories

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        found = self.topics.get(topic)
        return found.partitions[index] if found is not None and 0 <= index < len(found.partitions) else None


EMPTY_IMAGE = ClusterImage()
