"""The cluster behind the bootstrap addresses: who leads a partition, who coordinates a key, one connection to each.

What Kafka calls retriable, and lost connections, are tried again with a pause until the operation's time is over; then
the last cause is raised. One object serves one thread.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from enum import IntEnum
from types import TracebackType
from typing import Final, TypeVar

from moldau.client.connection import Connection
from moldau.client.errors import ClientError, ConnectionLost
from moldau.client.settings import Address, ClientSettings
from moldau.types.error_codes import RETRIABLE
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from moldau.wire.schema import Message

R = TypeVar("R", bound=Message)
T = TypeVar("T")

LONGEST_BACKOFF_SECONDS: Final = 1.0
SILENT_SECONDS: Final = 5.0
"""Whoever waits for longer wants to know what for."""

log = logging.getLogger(__name__)


class CoordinatorKind(IntEnum):
    GROUP = 0
    TRANSACTION = 1


class Cluster:
    def __init__(
        self,
        settings: ClientSettings,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.settings = settings
        self._monotonic = monotonic
        self._sleep = sleep
        self._brokers: dict[int, Address] = {}
        self._connections: dict[Address, Connection] = {}
        self._leaders: dict[TopicPartition, int] = {}
        self._coordinators: dict[tuple[CoordinatorKind, str], int] = {}

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # -- what the cluster looks like -----------------------------------------------------------------------------

    def metadata(self, topics: Iterable[str] | None = None, *, create: bool = False) -> MetadataResponse:
        """Asks for these topics, or all of them with None; topics with an error stand in the answer with it."""
        wanted = None if topics is None else [MetadataRequestTopic(name=name) for name in topics]
        request = MetadataRequest(topics=wanted, allow_auto_topic_creation=create)
        answer = self.any(request, MetadataResponse)
        self._remember(answer)
        return answer

    def topic(self, name: str) -> MetadataResponseTopic:
        """One topic that must exist and have its leaders."""

        def look() -> MetadataResponseTopic:
            (found,) = self.metadata([name]).topics
            check(found.error_code, f"topic {name}")
            for partition in found.partitions:
                check(partition.error_code, f"{name}-{partition.partition_index}")
            return found

        return self.retrying(look)

    def broker_ids(self) -> list[int]:
        if not self._brokers:
            self.metadata([])
        return sorted(self._brokers)

    def leader(self, partition: TopicPartition) -> int:
        if partition not in self._leaders:
            self.metadata([partition.topic])
        if partition not in self._leaders:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{partition.topic}-{partition.partition}: not there"
            )
        return self._leaders[partition]

    def knows(self, partition: TopicPartition) -> bool:
        """Without asking: it was there when its topic was last looked at, and nothing has failed since."""
        return partition in self._leaders

    def forget_leader(self, partition: TopicPartition) -> None:
        self._leaders.pop(partition, None)

    def coordinator(self, kind: CoordinatorKind, key: str) -> int:
        known = self._coordinators.get((kind, key))
        return self._find_coordinator(kind, key) if known is None else known

    def forget_coordinator(self, kind: CoordinatorKind, key: str) -> None:
        self._coordinators.pop((kind, key), None)

    def _remember(self, answer: MetadataResponse) -> None:
        self._brokers = {broker.node_id: Address(broker.host, broker.port) for broker in answer.brokers}
        for topic in answer.topics:
            for partition in topic.partitions:
                self._remember_leader(topic, partition)

    def _remember_leader(self, topic: MetadataResponseTopic, partition: MetadataResponsePartition) -> None:
        if topic.name is None:
            return
        place = TopicPartition(topic.name, partition.partition_index)
        if partition.leader_id >= 0:
            self._leaders[place] = partition.leader_id
        else:
            self._leaders.pop(place, None)

    def _find_coordinator(self, kind: CoordinatorKind, key: str) -> int:
        request = FindCoordinatorRequest(key=key, key_type=kind, coordinator_keys=[key])
        answer = self.any(request, FindCoordinatorResponse)
        found = answer.coordinators[0] if answer.coordinators else answer
        check(found.error_code, f"coordinator of {key}")
        self._brokers[found.node_id] = Address(found.host, found.port)
        self._coordinators[kind, key] = found.node_id
        return found.node_id

    # -- requests ------------------------------------------------------------------------------------------------

    def any(self, request: Message, answer_class: type[R], *, max_version: int | None = None) -> R:
        """To whichever broker answers: one connected already, then those known, then the bootstrap addresses."""
        problem: ClientError | None = None
        for address in self._candidates():
            try:
                return self._connection(address).call(request, answer_class, max_version=max_version)
            except ConnectionLost as error:
                problem = error
        raise problem or ConnectionLost("no broker address is known")

    def to_broker(self, node_id: int, request: Message, answer_class: type[R], *, max_version: int | None = None) -> R:
        return self.connection(node_id).call(request, answer_class, max_version=max_version)

    def to_coordinator(
        self,
        kind: CoordinatorKind,
        key: str,
        request: Message,
        answer_class: type[R],
        *,
        max_version: int | None = None,
    ) -> R:
        """To the broker that coordinates the key; after a NOT_COORDINATOR the caller forgets it and repeats."""
        try:
            return self.to_broker(self.coordinator(kind, key), request, answer_class, max_version=max_version)
        except ConnectionLost:
            self.forget_coordinator(kind, key)
            raise

    def connection(self, node_id: int) -> Connection:
        """The connection to a broker, opened if need be; lost ones are opened anew."""
        if node_id not in self._brokers:
            self.metadata([])
        if node_id not in self._brokers:
            raise ConnectionLost(f"broker {node_id} is not in the cluster's metadata")
        return self._connection(self._brokers[node_id])

    def _connection(self, address: Address) -> Connection:
        known = self._connections.get(address)
        if known is not None and known.is_open:
            if known.in_flight or not known.is_stale:
                return known
            known.close()
        self._connections[address] = opened = Connection(address, self.settings, self._monotonic)
        return opened

    def _candidates(self) -> list[Address]:
        connected = [address for address, connection in self._connections.items() if connection.is_open]
        return list(dict.fromkeys([*connected, *self._brokers.values(), *self.settings.bootstrap]))

    # -- trying again --------------------------------------------------------------------------------------------

    def retrying(self, action: Callable[[], T], seconds: float | None = None) -> T:
        """Repeats an action that failed for a passing reason until it succeeds or its time is over."""
        now = self._monotonic()
        deadline = now + (self.settings.total_seconds if seconds is None else seconds)
        to_be_told_at: float | None = now + SILENT_SECONDS
        pause = self.settings.backoff_seconds
        while True:
            try:
                return action()
            except (ConnectionLost, KafkaError) as error:
                now = self._monotonic()
                if not passes(error) or now + pause > deadline:
                    raise
                if to_be_told_at is not None and now >= to_be_told_at:
                    to_be_told_at = None
                    log.warning("still trying, for %.0f s more: %s", deadline - now, error)
                self._forget_what_moved()
            self._sleep(pause)
            pause = longer(pause)

    def _forget_what_moved(self) -> None:
        self._leaders.clear()
        self._coordinators.clear()


def longer(pause: float) -> float:
    """The next pause before something is tried again. One that began with more than the longest stays as it is."""
    return max(pause, min(pause * 2, LONGEST_BACKOFF_SECONDS))


def passes(error: Exception) -> bool:
    return isinstance(error, ConnectionLost) or (isinstance(error, KafkaError) and error.code in RETRIABLE)


def check(code: int, what: str, message: str | None = None) -> None:
    """Raises the error that an answer carries."""
    if code:
        error = ErrorCode(code)
        raise KafkaError(error, f"{what}: {message or error.name}")
