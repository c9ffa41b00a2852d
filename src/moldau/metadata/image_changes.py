"""From entries to images: `build` makes one from all entries, `apply` the next one from a change, with the delta."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import TypeVar
from uuid import UUID

from moldau.metadata import codec, paths
from moldau.metadata.delegation_tokens import TokenImage, decode_token
from moldau.metadata.image import (
    EMPTY_IMAGE,
    NO_SETTINGS,
    BrokerImage,
    BrokerStateImage,
    ClusterImage,
    ControllerImage,
    FeaturesImage,
    LooseTopic,
    PartitionImage,
    ProducerIdsImage,
    Settings,
    TopicImage,
)
from moldau.metadata.partition_index import PartitionMove, moved
from moldau.metadata.scram_users import ScramUserImage, decode_scram_user
from moldau.metadata.security_changes import SecurityChanges
from moldau.metadata.store import Change, Changes, Listing, Versioned
from moldau.types.ids import TopicPartition
from moldau.types.quotas import QuotaEntity
from moldau.work.slices import Work, at_once, pauses

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class TopicDelta:
    """A topic that exists before and after. `partitions` are the indexes that are new or differ, in order."""

    old: TopicImage
    new: TopicImage
    partitions: tuple[int, ...]
    settings_changed: bool


@dataclass(frozen=True, slots=True)
class ImageDelta:
    """What differs between two images. A topic created anew under an old name is in `deleted` and in `created`."""

    created: tuple[TopicImage, ...] = ()
    deleted: tuple[TopicImage, ...] = ()
    changed: tuple[TopicDelta, ...] = ()
    brokers: frozenset[int] = frozenset()
    """Whose registration or state differs."""
    controller: bool = False
    broker_settings: frozenset[int] = frozenset()
    default_broker_settings: bool = False
    group_settings: frozenset[str] = frozenset()
    client_metrics_settings: frozenset[str] = frozenset()
    scram_users: frozenset[str] = frozenset()
    tokens: frozenset[str] = frozenset()
    features: bool = False
    acls: frozenset[UUID] = frozenset()
    roles: frozenset[str] = frozenset()
    quotas: frozenset[QuotaEntity] = frozenset()

    @property
    def is_empty(self) -> bool:
        return self == _NOTHING


_NOTHING = ImageDelta()


def build(listing: Listing) -> ClusterImage:
    """The image of all entries. Raises BadEntryError."""
    changes = tuple(Change(path, entry) for path, entry in listing.entries.items())
    return apply(EMPTY_IMAGE, Changes(listing.revision, changes))[0]


def apply(image: ClusterImage, changes: Changes) -> tuple[ClusterImage, ImageDelta]:
    """The image after `changes`, sharing with the old one what they do not touch. Raises BadEntryError."""
    return at_once(applying(image, changes))


def applying(image: ClusterImage, changes: Changes) -> Work[tuple[ClusterImage, ImageDelta]]:
    """`apply` in turns."""
    paused = pauses()
    changed = _Changed()
    updated = replace(image, version=changes.revision)
    for change in changes.changes:
        path, entry = change.path, change.entry
        if next(paused):
            yield
        match path.split("/"):
            case ["", "topics", name, "partitions", index]:
                changed.topic(name).partitions[_number(path, index)] = (
                    None if entry is None else _partition(path, entry)
                )
            case ["", "topics", name]:
                changed.topic(name).entry = (None if entry is None else _topic(path, entry),)
            case ["", "configs", "topics", name]:
                changed.topic(name).settings = _settings(path, entry) or NO_SETTINGS
            case ["", "configs", "brokers", paths.DEFAULT_BROKER]:
                updated = replace(updated, default_broker_settings=_settings(path, entry) or NO_SETTINGS)
            case ["", "configs", "brokers", number]:
                changed.broker_settings[_number(path, number)] = _settings(path, entry)
            case ["", "configs", "groups", name]:
                changed.group_settings[paths.unescaped(name)] = _settings(path, entry)
            case ["", "configs", "client-metrics", name]:
                changed.client_metrics_settings[paths.unescaped(name)] = _settings(path, entry)
            case ["", "scram-users", name]:
                changed.scram_users[paths.unescaped(name)] = _scram_user(path, entry)
            case ["", "delegation-tokens", token_id]:
                changed.tokens[paths.unescaped(token_id)] = _token(path, entry)
            case ["", "acls" | "roles" | "quotas", _]:
                changed.security.take(path, entry)
            case ["", "brokers", number]:
                broker_id = _number(path, number)
                changed.brokers[broker_id] = None if entry is None else _broker(broker_id, path, entry)
            case ["", "broker-states", number]:
                changed.broker_states[_number(path, number)] = _broker_state(path, entry)
            case _:
                updated = _apply_single(updated, path, entry)
    states = _merged(image.broker_states, changed.broker_states)
    updated = replace(
        updated,
        broker_states=states,
        brokers=_joined(_merged(image.brokers, changed.brokers), states, changed),
        broker_settings=_merged(image.broker_settings, changed.broker_settings),
        group_settings=_merged(image.group_settings, changed.group_settings),
        client_metrics_settings=_merged(image.client_metrics_settings, changed.client_metrics_settings),
        scram_users=_merged(image.scram_users, changed.scram_users),
        tokens=_merged(image.tokens, changed.tokens),
        acls=_merged(image.acls, changed.security.acls),
        roles=_merged(image.roles, changed.security.roles),
        quotas=_merged(image.quotas, changed.security.quotas),
    )
    updated = yield from _apply_topics(updated, changed.topics)
    delta = _delta(image, updated, changed)
    if image.known_index is not None:
        updated.keep_index((yield from moved(image.known_index, _moves(delta))))
    return updated, delta


class _TopicChanges:
    __slots__ = ("entry", "partitions", "settings")

    def __init__(self) -> None:
        self.entry: tuple[tuple[codec.TopicEntry, int] | None] | None = None
        self.partitions: dict[int, PartitionImage | None] = {}
        self.settings: Settings | None = None


class _Changed:
    """What a set of changes says, sorted by the parts of the image; None stands for deleted."""

    def __init__(self) -> None:
        self.topics: dict[str, _TopicChanges] = {}
        self.brokers: dict[int, BrokerImage | None] = {}
        self.broker_states: dict[int, BrokerStateImage | None] = {}
        self.broker_settings: dict[int, Settings | None] = {}
        self.group_settings: dict[str, Settings | None] = {}
        self.client_metrics_settings: dict[str, Settings | None] = {}
        self.scram_users: dict[str, ScramUserImage | None] = {}
        self.tokens: dict[str, TokenImage | None] = {}
        self.security = SecurityChanges()

    def topic(self, name: str) -> _TopicChanges:
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = _TopicChanges()
        return found


def _apply_single(image: ClusterImage, path: str, entry: Versioned | None) -> ClusterImage:
    if path == paths.CLUSTER:
        return replace(image, cluster_id=None if entry is None else codec.decode_cluster(path, entry.value))
    if path == paths.FEATURES:
        if entry is None:
            return replace(image, features=FeaturesImage())
        levels, unknown = codec.decode_features(path, entry.value)
        return replace(image, features=FeaturesImage(MappingProxyType(levels), entry.version, unknown))
    if path == paths.PRODUCER_IDS:
        if entry is None:
            return replace(image, producer_ids=ProducerIdsImage())
        next_id, unknown = codec.decode_producer_ids(path, entry.value)
        return replace(image, producer_ids=ProducerIdsImage(next_id, entry.version, unknown))
    if path == paths.CONTROLLER:
        return replace(image, controller=None if entry is None else _controller(path, entry))
    # Entries of a later release are not ours to judge.
    return image


def _apply_topics(image: ClusterImage, changes: Mapping[str, _TopicChanges]) -> Work[ClusterImage]:
    if not changes:
        return image
    paused = pauses()
    topics = dict(image.topics)
    by_id = dict(image.topics_by_id)
    loose = dict(image.loose)
    for name, change in changes.items():
        if next(paused):
            yield
        old = topics.pop(name, None)
        if old is not None:
            del by_id[old.id]
        whole, rest = _assemble(name, old, loose.pop(name, None), change)
        if whole is not None:
            topics[name] = by_id[whole.id] = whole
        if rest is not None:
            loose[name] = rest
    return replace(
        image,
        topics=MappingProxyType(topics),
        topics_by_id=MappingProxyType(by_id),
        loose=MappingProxyType(loose) if loose else EMPTY_IMAGE.loose,
    )


def _assemble(
    name: str, old: TopicImage | None, loose: LooseTopic | None, change: _TopicChanges
) -> tuple[TopicImage | None, LooseTopic | None]:
    """The topic that the pieces make, and the pieces that are left over."""
    if old is not None and loose is None and change.entry is None:
        altered = _altered(old, change)
        if altered is not None:
            return altered, None
    entry = loose.entry if loose is not None else None
    settings = loose.settings if loose is not None else NO_SETTINGS
    pieces: dict[int, PartitionImage | None] = dict(loose.partitions) if loose is not None else {}
    if old is not None:
        entry = (codec.TopicEntry(old.id, len(old.partitions), old.unknown), old.version)
        settings = old.settings
        pieces.update(enumerate(old.partitions))
    pieces.update(change.partitions)
    if change.entry is not None:
        entry = change.entry[0]
    if change.settings is not None:
        settings = change.settings
    partitions = {index: piece for index, piece in pieces.items() if piece is not None}
    if entry is not None and all(map(partitions.__contains__, range(entry[0].partitions))):
        own, version = entry
        whole = tuple(map(partitions.pop, range(own.partitions)))
        extra = LooseTopic(None, MappingProxyType(partitions), NO_SETTINGS) if partitions else None
        return TopicImage(name, own.id, whole, settings, version, own.unknown), extra
    if entry is None and not partitions and settings is NO_SETTINGS:
        return None, None
    return None, LooseTopic(entry, MappingProxyType(partitions), settings)


def _altered(topic: TopicImage, change: _TopicChanges) -> TopicImage | None:
    """The short way, for a few changes in a topic of thousands of partitions; None if pieces come or go."""
    partitions = list(topic.partitions)
    for index, partition in change.partitions.items():
        if partition is None or index >= len(partitions):
            return None
        partitions[index] = partition
    settings = topic.settings if change.settings is None else change.settings
    return TopicImage(topic.name, topic.id, tuple(partitions), settings, topic.version, topic.unknown)


def _delta(old: ClusterImage, new: ClusterImage, changed: _Changed) -> ImageDelta:
    created, deleted, altered = [], [], []
    for name, change in changed.topics.items():
        before, after = old.topics.get(name), new.topics.get(name)
        if before is not None and after is not None and before.id == after.id:
            if before != after:
                altered.append(_topic_delta(before, after, change))
            continue
        if before is not None:
            deleted.append(before)
        if after is not None:
            created.append(after)
    return ImageDelta(
        created=tuple(created),
        deleted=tuple(deleted),
        changed=tuple(altered),
        brokers=_differing((*changed.brokers, *changed.broker_states), old.brokers, new.brokers),
        controller=old.controller != new.controller,
        broker_settings=_differing(changed.broker_settings, old.broker_settings, new.broker_settings),
        default_broker_settings=old.default_broker_settings != new.default_broker_settings,
        group_settings=_differing(changed.group_settings, old.group_settings, new.group_settings),
        client_metrics_settings=_differing(
            changed.client_metrics_settings, old.client_metrics_settings, new.client_metrics_settings
        ),
        scram_users=_differing(changed.scram_users, old.scram_users, new.scram_users),
        tokens=_differing(changed.tokens, old.tokens, new.tokens),
        features=old.features != new.features,
        acls=_differing(changed.security.acls, old.acls, new.acls),
        roles=_differing(changed.security.roles, old.roles, new.roles),
        quotas=_differing(changed.security.quotas, old.quotas, new.quotas),
    )


def _differing(keys: Iterable[K], old: Mapping[K, V], new: Mapping[K, V]) -> frozenset[K]:
    return frozenset(key for key in keys if old.get(key) != new.get(key))


def _topic_delta(old: TopicImage, new: TopicImage, change: _TopicChanges) -> TopicDelta:
    known, present = len(old.partitions), len(new.partitions)
    touched = (index for index in sorted(change.partitions) if index < min(known, present))
    differing = [index for index in touched if new.partitions[index] != old.partitions[index]]
    return TopicDelta(old, new, (*differing, *range(known, present)), old.settings != new.settings)


def _merged(old: Mapping[K, V], changes: Mapping[K, V | None]) -> Mapping[K, V]:
    if not changes:
        return old
    merged = dict(old)
    for key, value in changes.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = value
    return MappingProxyType(merged)


def _partition(path: str, entry: Versioned) -> PartitionImage:
    try:
        return _partition_of_value(entry.value, entry.version)
    except codec.BadEntryError as error:
        raise codec.BadEntryError(path, error.reason) from error


@lru_cache(maxsize=8192)
def _partition_of_value(value: bytes, version: int) -> PartitionImage:
    """Thousands of partitions are alike: they share one value, and it is read once."""
    found = codec.decode_partition("", value)
    return PartitionImage(
        found.replicas,
        found.isr,
        found.leader,
        found.leader_epoch,
        version if found.partition_epoch is None else found.partition_epoch,
        version,
        found.adding,
        found.removing,
        found.elr,
        found.last_known_leader,
        found.recovering,
        found.directories,
        found.unknown,
    )


def _number(path: str, text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise codec.BadEntryError(path, f"{text!r} is not a number")
    return int(text)


def _topic(path: str, entry: Versioned) -> tuple[codec.TopicEntry, int]:
    return codec.decode_topic(path, entry.value), entry.version


def _settings(path: str, entry: Versioned | None) -> Settings | None:
    if entry is None:
        return None
    values, unknown = codec.decode_settings(path, entry.value)
    return Settings(MappingProxyType(values), entry.version, unknown)


def _controller(path: str, entry: Versioned) -> ControllerImage:
    found = codec.decode_controller(path, entry.value)
    return ControllerImage(found.id, found.broker_epoch, entry.version, found.unknown)


def _broker(number: int, path: str, entry: Versioned) -> BrokerImage:
    found = codec.decode_broker(path, entry.value)
    return BrokerImage(
        id=number,
        epoch=entry.revision,
        incarnation=found.incarnation,
        listeners=MappingProxyType({listener.name: listener for listener in found.listeners}),
        rack=found.rack,
        fenced=True,
        version=entry.version,
        boot_id=found.boot_id,
        directories=found.directories,
        features=found.features,
        clean=found.clean,
        previous_epoch=found.previous_epoch,
    )


def _token(path: str, entry: Versioned | None) -> TokenImage | None:
    return None if entry is None else TokenImage(decode_token(path, entry.value), entry.version)


def _scram_user(path: str, entry: Versioned | None) -> ScramUserImage | None:
    return None if entry is None else ScramUserImage(decode_scram_user(path, entry.value), entry.version)


def _broker_state(path: str, entry: Versioned | None) -> BrokerStateImage | None:
    return None if entry is None else BrokerStateImage(codec.decode_broker_state(path, entry.value), entry.version)


def _joined(
    brokers: Mapping[int, BrokerImage], states: Mapping[int, BrokerStateImage], changed: _Changed
) -> Mapping[int, BrokerImage]:
    """Registrations with what the controller says of them."""
    touched = [number for number in {**changed.brokers, **changed.broker_states} if number in brokers]
    return _merged(brokers, {number: _with_state(brokers[number], states.get(number)) for number in touched})


def _with_state(broker: BrokerImage, state: BrokerStateImage | None) -> BrokerImage:
    if state is None or state.entry.epoch != broker.epoch:
        return replace(broker, fenced=True, shutting_down=False, offline_directories=(), state=state)
    entry = state.entry
    return replace(
        broker,
        fenced=entry.fenced,
        shutting_down=entry.shutting_down,
        offline_directories=entry.offline_directories,
        state=state,
    )


def _moves(delta: ImageDelta) -> Iterator[PartitionMove]:
    """Deletions first: a topic created anew under an old name has both."""
    for topic in delta.deleted:
        for index, partition in enumerate(topic.partitions):
            yield PartitionMove(TopicPartition(topic.name, index), partition, None)
    for topic in delta.created:
        for index, partition in enumerate(topic.partitions):
            yield PartitionMove(TopicPartition(topic.name, index), None, partition)
    for change in delta.changed:
        known, present = change.old.partitions, change.new.partitions
        for index in change.partitions:
            old = known[index] if index < len(known) else None
            yield PartitionMove(TopicPartition(change.new.name, index), old, present[index])
        for index in range(len(present), len(known)):
            yield PartitionMove(TopicPartition(change.new.name, index), known[index], None)
