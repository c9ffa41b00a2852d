"""A cluster's metadata without a store: rules are asked, and what they decide is applied at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from random import Random
from typing import Any, TypeVar
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.metadata.codec import BrokerEntry, Listener
from moldau.metadata.controller.brokers import form_cluster
from moldau.metadata.controller.decision import Decision, Rule
from moldau.metadata.controller.features import FEATURES_OF_A_NEW_CLUSTER, SUPPORTED_FEATURES
from moldau.metadata.controller.fencing import unfence
from moldau.metadata.controller.partition_changes import put_partition
from moldau.metadata.controller.registration import register_broker
from moldau.metadata.controller.topic_creation import CreatedTopic, NewTopic, create_topics
from moldau.metadata.image import EMPTY_IMAGE, ClusterImage
from moldau.metadata.image_changes import ImageDelta, apply
from moldau.metadata.store import ABSENT, Change, Changes, Check, Delete, Operation, Put, Versioned, check_operations
from moldau.work.slices import at_once

T = TypeVar("T")


class Cluster:
    """`brokers` maps ids to racks; `image` is what all rules see."""

    def __init__(self, brokers: dict[int, str | None] | None = None, **settings: str) -> None:
        self.image: ClusterImage = EMPTY_IMAGE
        self.delta = ImageDelta()
        self.config = BrokerConfig.load({name.replace("_", "."): value for name, value in settings.items()})
        self.rng = Random(7)
        self.uuids = map(_uuid, count(1))
        self.incarnations = map(_uuid, count(1 << 20))
        self.entries: dict[str, Versioned] = {}
        self.decide(lambda image: form_cluster(image, "the-cluster", FEATURES_OF_A_NEW_CLUSTER))
        for number, rack in (brokers or {1: None}).items():
            self.register(number, rack)

    def register(self, number: int, rack: str | None = None, *, fenced: bool = False, **said: Any) -> None:
        """A start of this broker: `said` are further members of its entry."""
        listeners = (Listener("PLAINTEXT", f"host{number}", 9092, "PLAINTEXT"),)
        said.setdefault("boot_id", "boot")
        said.setdefault("directories", (UUID(int=number),))
        said.setdefault("features", SUPPORTED_FEATURES)
        entry = BrokerEntry(next(self.incarnations), listeners, rack, **said)
        self.decide(lambda image: register_broker(image, number, entry))
        if not fenced:
            self.unfence(number)

    def unfence(self, *numbers: int) -> None:
        self.decide(lambda image: unfence(image, numbers, self.config))

    def decide(self, rule: Rule[T]) -> T:
        """Commits all that is decided at once."""
        decided = rule(self.image)
        decision = decided if isinstance(decided, Decision) else at_once(decided)
        if decision.operations:
            self.commit(decision.operations)
        return decision.answer

    def commit(self, operations: Sequence[Operation]) -> None:
        revision = self.image.version + 1
        check_operations(operations)
        changes = tuple(self._changes(operations, revision))
        self.image, self.delta = apply(self.image, Changes(revision, changes))

    def create(self, *topics: NewTopic, validate_only: bool = False) -> list[CreatedTopic]:
        return self.decide(
            lambda image: create_topics(
                image, topics, self.config, self.rng, self.uuids.__next__, validate_only=validate_only
            )
        )

    def put_partition(self, topic: str, index: int, **changes: Any) -> None:
        """Writes a state that no rule was asked for."""
        old = self.image.topics[topic].partitions[index]
        self.decide(lambda _: Decision([put_partition(topic, index, old, replace(old, **changes))], None))

    def replace_entry(self, path: str, value: bytes) -> None:
        self.decide(lambda _: Decision([Put(path, value)], None))

    def _changes(self, operations: Sequence[Operation], revision: int) -> Iterator[Change]:
        for operation in operations:
            entry = self.entries.get(operation.path)
            version = ABSENT if entry is None else entry.version
            assert operation.expected_version in (None, version), operation
            if isinstance(operation, Put):
                created = revision if entry is None else entry.created
                entry = Versioned(operation.value, version + 1, created, revision)
                self.entries[operation.path] = entry
                yield Change(operation.path, entry)
            elif isinstance(operation, Delete):
                del self.entries[operation.path]
                yield Change(operation.path, None)
            else:
                assert isinstance(operation, Check)


def _uuid(number: int) -> UUID:
    return UUID(int=(number << 64) + 5)
