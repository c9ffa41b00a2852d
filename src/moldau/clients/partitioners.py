"""Which partition a record goes to where it does not say so itself.

Without a choice of yours: murmur2 of the key, as Java's producer; records without a key stay with one partition for a
moment and then move on (librdkafka does both). `partitioner.class` names another one: `round_robin`, or a class or
object of your own with `partition(topic, key, key_bytes, value, value_bytes, cluster)`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, runtime_checkable

from moldau.client.errors import SettingError
from moldau.client.librdkafka import IGNORES_KEYS
from moldau.clients.errors import InvalidRecord
from moldau.clients.records import PartitionInfo
from moldau.clients.serializers import Properties, imported
from moldau.kernels import murmur2

POSITIVE: Final = 0x7FFFFFFF
SETTING: Final = "partitioner.class"


class Cluster:
    """What a partitioner may ask: the partitions of a topic, looked up again every `metadata.max.age.ms`."""

    def __init__(
        self,
        look: Callable[[str], list[PartitionInfo]],
        max_age_seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._look = look
        self._max_age_seconds = max_age_seconds
        self._monotonic = monotonic
        self._known: dict[str, tuple[float, list[PartitionInfo]]] = {}

    def partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        known = self._known.get(topic)
        now = self._monotonic()
        if known is None or now - known[0] > self._max_age_seconds:
            known = self._known[topic] = now, self._look(topic)
        return known[1]

    def available_partitions_for_topic(self, topic: str) -> list[PartitionInfo]:
        """Those that have a leader."""
        return [partition for partition in self.partitions_for_topic(topic) if partition.leader is not None]


@runtime_checkable
class Partitioner(Protocol):
    def partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: Cluster
    ) -> int:
        """The number of the partition. May raise InvalidRecord."""


def hashed(key: bytes, partitions: int) -> int:
    """Java's choice for a key among so many partitions."""
    return (murmur2(key) & POSITIVE) % partitions


class Default:
    """murmur2 of the key; without a key one partition after the other."""

    def __init__(self) -> None:
        self._others = RoundRobin()

    def partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: Cluster
    ) -> int:
        if key_bytes is None:
            return self._others.partition(topic, key, key_bytes, value, value_bytes, cluster)
        return hashed(key_bytes, len(cluster.partitions_for_topic(topic)))


class RoundRobin:
    """One partition after the other, whatever the key."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}
        self._lock = threading.Lock()

    def partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: Cluster
    ) -> int:
        partitions = cluster.available_partitions_for_topic(topic) or cluster.partitions_for_topic(topic)
        with self._lock:
            turn = self._next.get(topic, 0)
            self._next[topic] = turn + 1
        return partitions[turn % len(partitions)].partition


class LastForSome:
    """One kind of records has the last partition for itself; the others are spread over the rest by their keys.

    It is the base of the books' partitioners: override `is_special`.
    """

    def is_special(self, topic: str, key: Any) -> bool:
        raise NotImplementedError

    def partition(
        self, topic: str, key: Any, key_bytes: bytes | None, value: Any, value_bytes: bytes | None, cluster: Cluster
    ) -> int:
        if key_bytes is None:
            raise InvalidRecord(f"a record for {topic} has no key, by which {type(self).__name__} places it")
        last = len(cluster.partitions_for_topic(topic)) - 1
        if last == 0 or self.is_special(topic, key):
            return last
        return hashed(key_bytes, last)


class SpecialKeys(LastForSome):
    """The keys in `partitioner.special.keys` (separated by commas) have the last partition for themselves, so that one
    customer with much of the traffic does not fill a partition that others need."""

    KEYS: Final = "partitioner.special.keys"

    def __init__(self, *keys: str) -> None:
        self._keys = frozenset(keys)

    def configure(self, properties: Properties, is_key: bool = True) -> None:
        found = properties.get(self.KEYS)
        if found is not None:
            self._keys = frozenset(part.strip() for part in str(found).split(","))
        if not self._keys:
            raise SettingError(self.KEYS, "names no key")

    def is_special(self, topic: str, key: Any) -> bool:
        if not isinstance(key, str):
            raise InvalidRecord(f"a record for {topic} has the key {key!r}, which is no string")
        return key in self._keys


LIBRDKAFKA: Final = {
    "default": "murmur2_random",
    "murmur2": "murmur2_random",
    "org.apache.kafka.clients.producer.internals.DefaultPartitioner": "murmur2_random",
    "org.apache.kafka.clients.producer.UniformStickyPartitioner": "random",
    "sticky": "random",
}
"""Those that librdkafka has itself."""
OURS: Final[dict[str, Callable[[], Partitioner]]] = {
    "round_robin": RoundRobin,
    "roundrobin": RoundRobin,
    "org.apache.kafka.clients.producer.RoundRobinPartitioner": RoundRobin,
    "special_keys": SpecialKeys,
}


def chosen(given: object, properties: Properties) -> Partitioner | str:
    """A partitioner of ours or yours, or the name of librdkafka's."""
    if given is None or given == "":
        ignores = str(properties.get(IGNORES_KEYS, "")).strip().lower() == "true"
        return LIBRDKAFKA["sticky" if ignores else "default"]
    if isinstance(given, str) and given in LIBRDKAFKA:
        return LIBRDKAFKA[given]
    if isinstance(given, str):
        made: Any = OURS[given]() if given in OURS else imported(given, SETTING)
    else:
        made = given
    if isinstance(made, type):
        made = made()
    if not isinstance(made, Partitioner):
        raise SettingError(
            SETTING, f"{given!r} has no method partition(topic, key, key_bytes, value, value_bytes, cluster)"
        )
    configure = getattr(made, "configure", None)
    if configure is not None:
        configure(properties)
    return made
