"""Connections of a Python worker, kept from task to task.

Requests that wait for their answer share a `Cluster`; produce requests, several under way at a time, go over
connections of their own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Final

from moldau.client.cluster import Cluster, check
from moldau.client.connection import Connection
from moldau.client.errors import ConnectionLost
from moldau.client.settings import Address, ClientSettings
from moldau.spark.errors import ClusterUnavailable, TopicMissing, no_broker_answers
from moldau.spark.writing.errors import SinkError
from moldau.spark.writing.new_topics import NewTopics, create, rule_for
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.metadata import MetadataResponse

TOPIC_SECONDS: Final = 15.0
"""How long a topic that is created by being asked for may take to appear."""


class Missing:
    """How long brokers have said that a topic is not there. The time in which none answers does not count."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since: float | None = None

    def watched(self, ask: Callable[[], MetadataResponse]) -> MetadataResponse:
        try:
            answer = ask()
        except ConnectionLost:
            self._since = None
            raise
        if any(each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION for each in answer.topics):
            now = self._monotonic()
            self._since = now if self._since is None else self._since
            if now - self._since > TOPIC_SECONDS:
                raise TopicMissing
        return answer


class Links:
    def __init__(
        self,
        settings: ClientSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self.cluster = Cluster(settings, monotonic=monotonic, sleep=sleep)
        self._monotonic = monotonic
        self._data: dict[Address, Connection] = {}
        self.settled_run: tuple[str, str] | None = None
        """Group and run of a sink that was seen taken over: no task of that run is fenced for it any more."""
        self.seen_old_rows: set[str] = set()
        """Topics whose retention was looked at."""

    def data_connection(self, broker: int) -> Connection:
        address = self.cluster.connection(broker).address
        known = self._data.get(address)
        if known is not None and known.is_open:
            return known
        self._data[address] = opened = Connection(address, self.settings)
        return opened

    def partition_count(self, topic: str, new_topics: Sequence[NewTopics] = ()) -> int:
        """Of a topic that exists, that is made here as `new_topics` say, or that the broker creates when it is asked
        for, as for any Kafka producer."""
        rule = rule_for(topic, new_topics)
        if rule is not None and self._is_missing(topic):
            create(self.cluster, topic, rule)
        missing = Missing(self._monotonic)

        def look() -> int:
            (found,) = missing.watched(lambda: self.cluster.metadata([topic], create=rule is None)).topics
            check(found.error_code, f"topic {topic!r}")
            if any(partition.leader_id < 0 for partition in found.partitions):
                raise KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {topic!r} has no leaders yet")
            return len(found.partitions)

        try:
            return self.cluster.retrying(look)
        except (KafkaError, TopicMissing) as error:
            if isinstance(error, KafkaError) and error.code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise
            raise SinkError(f"topic {topic!r} does not exist and the broker does not create it") from error

    def _is_missing(self, topic: str) -> bool:
        (found,) = self.cluster.retrying(lambda: self.cluster.metadata([topic])).topics
        return found.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def nobody_answers(self, cause: ConnectionLost) -> ClusterUnavailable:
        return no_broker_answers(self.settings.bootstrap, cause, self.settings.total_seconds)

    def close(self) -> None:
        self.cluster.close()
        for connection in self._data.values():
            connection.close()
        self._data.clear()


_pooled: dict[tuple[int, ClientSettings], Links] = {}


def pooled_links(settings: ClientSettings) -> Links:
    """Those of this process: a forked worker must not use its parent's sockets."""
    place = (os.getpid(), settings)
    if place not in _pooled:
        _pooled[place] = Links(settings)
    return _pooled[place]


def discard_links(settings: ClientSettings) -> None:
    """After a failure in the middle of something: answers may still be on their way to these connections."""
    links = _pooled.pop((os.getpid(), settings), None)
    if links is not None:
        links.close()
