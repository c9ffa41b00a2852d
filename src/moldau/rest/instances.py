"""Consumer instances of v2 (and v1): consumers that live in this process, named by group and instance.

What was read ahead and not handed out yet stays with the instance and does not count as read: commits, asked for or
automatic, are of what a client was given. An instance belongs to the user who made it; to others it is not there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from moldau.clients.errors import ClientError, KafkaFailure
from moldau.clients.rebalancing import RebalanceListener
from moldau.clients.records import OffsetAndMetadata, TopicPartition
from moldau.rest import errors, formats
from moldau.rest.backend import Backend
from moldau.rest.schemas import Schemas
from moldau.rest.settings import RestSettings

if TYPE_CHECKING:
    from moldau.clients.consumer import Consumer
    from moldau.clients.records import ConsumerRecord

T = TypeVar("T")
COMMIT_SECONDS: Final = 5.0
LONGEST_WAIT_SECONDS: Final = 0.5
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class InstanceConfig:
    format: str = formats.BINARY
    name: str | None = None
    client_id: str | None = None
    offset_reset: str | None = None
    commits_itself: bool = True
    least_bytes: int | None = None
    wait_ms: int | None = None


class Instance(RebalanceListener):
    """One consumer. Its calls are made one after the other, in threads."""

    def __init__(
        self,
        config: InstanceConfig,
        consumer: Consumer,
        owner: Backend,
        group: str,
        name: str,
        monotonic: Callable[[], float],
    ) -> None:
        self.config = config
        self.consumer = consumer
        self.owner = owner
        self.group = group
        self.name = name
        self.used_at = monotonic()
        self._monotonic = monotonic
        self.lock = asyncio.Lock()
        self.ends = False
        """It is being deleted: what reads from it shall come to its end."""
        self._rest: deque[ConsumerRecord] = deque()
        self._committed_at = monotonic()
        self._pending: dict[TopicPartition, int] = {}
        """What automatic commits have still to commit."""

    # -- whom the partitions belong to -------------------------------------------------------------------------------

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        try:
            self._commit_pending()
        finally:
            self._drop(partitions)

    def on_partitions_lost(self, partitions: Collection[TopicPartition]) -> None:
        self._drop(partitions)

    def _drop(self, places: Collection[TopicPartition]) -> None:
        gone = set(places)
        self._rest = deque(each for each in self._rest if TopicPartition(each.topic, each.partition) not in gone)
        for place in gone:
            self._pending.pop(place, None)

    # -- reading -----------------------------------------------------------------------------------------------------

    def read(
        self, seconds: float, most_bytes: int, least_bytes: int, is_over: Callable[[], bool]
    ) -> list[ConsumerRecord]:
        """Until the time is over, enough is there, or too much would be; or until `is_over`, which is asked often."""
        if self.config.commits_itself and self._monotonic() - self._committed_at > COMMIT_SECONDS:
            self._commit_pending()
        deadline = self._monotonic() + seconds
        found: list[ConsumerRecord] = []
        size = 0
        while True:
            while self._rest:
                more = size_of(self._rest[0])
                if found and size + more > most_bytes:
                    return self._given(found)
                size += more
                found.append(self._rest.popleft())
            left = deadline - self._monotonic()
            if left <= 0 or size >= most_bytes or (0 <= least_bytes <= size and found) or self.ends or is_over():
                return self._given(found)
            self.keep(self.consumer.poll(min(left, LONGEST_WAIT_SECONDS)))

    def _given(self, found: list[ConsumerRecord]) -> list[ConsumerRecord]:
        for record in found:
            self._pending[TopicPartition(record.topic, record.partition)] = record.offset + 1
        return found

    def keep(self, found: Sequence[ConsumerRecord]) -> None:
        """For the next read."""
        self._rest.extend(found)

    def give_back(self, found: Sequence[ConsumerRecord]) -> None:
        """They could not be told; they come again. What came before them was told, and is committed."""
        self._rest.extendleft(reversed(found))
        for record in reversed(found):
            self._pending[TopicPartition(record.topic, record.partition)] = record.offset

    # -- positions ---------------------------------------------------------------------------------------------------

    def positions(self) -> dict[TopicPartition, int]:
        first: dict[TopicPartition, int] = {}
        for each in self._rest:
            first.setdefault(TopicPartition(each.topic, each.partition), each.offset)
        return {**self.consumer.positions(), **first}

    def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata] | None) -> None:
        self.consumer.commit(self.positions() if offsets is None else offsets)
        if offsets is None:
            self._pending.clear()
            self._committed_at = self._monotonic()

    def _commit_pending(self) -> None:
        self._committed_at = self._monotonic()
        if self._pending and self.config.commits_itself:
            try:
                self.consumer.commit(dict(self._pending))
            except KafkaFailure as error:
                log.warning("automatic commit of group %s: %s", self.group, error)
            else:
                self._pending.clear()

    def seek(self, place: TopicPartition, how: Callable[[], None]) -> None:
        self.check_assigned(place)
        self._drop([place])
        how()

    def check_assigned(self, place: TopicPartition) -> None:
        if place not in self.consumer.assignment():
            raise errors.illegal_state(f"No current assignment for partition {place}")

    def assign(self, places: Sequence[TopicPartition]) -> None:
        if self.consumer.subscription():
            raise errors.illegal_state("Subscription to topics, partitions and pattern are mutually exclusive")
        self._commit_pending()
        self.consumer.assign(places)
        self._drop({TopicPartition(each.topic, each.partition) for each in self._rest} - set(places))

    def unsubscribe(self) -> None:
        self._commit_pending()
        self.consumer.unsubscribe()
        self._rest.clear()

    def close(self) -> None:
        try:
            self._commit_pending()
        finally:
            self.consumer.close()


def size_of(record: ConsumerRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")


class Instances:
    def __init__(
        self, settings: RestSettings, schemas: Schemas, monotonic: Callable[[], float], new_id: Callable[[], object]
    ) -> None:
        self.settings = settings
        self.schemas = schemas
        self._monotonic = monotonic
        self._new_id = new_id
        self._all: dict[tuple[str, str], Instance | None] = {}
        """None: it is being made."""

    def __len__(self) -> int:
        return len(self._all)

    def name_for(self, config: InstanceConfig) -> str:
        own = self.settings.text("id")
        return config.client_id or config.name or f"rest-consumer-{f'{own}-' if own else ''}{self._new_id()}"

    async def create(self, backend: Backend, group: str, config: InstanceConfig) -> Instance:
        name = self.name_for(config)
        if (group, name) in self._all:
            raise errors.instance_exists()
        if len(self._all) >= self.settings.number("consumer.instances.max"):
            raise errors.too_many(
                "Too many consumer instances (consumer.instances.max): delete some, or let them expire."
            )
        self._all[group, name] = None
        backend.busy += 1
        try:
            properties: dict[str, object] = {"group.id": group, "enable.auto.commit": "false"}
            if config.client_id:
                properties["client.id"] = config.client_id
            if config.offset_reset is not None:
                properties["auto.offset.reset"] = config.offset_reset
            consumer = await backend.in_thread(lambda: backend.consumer(properties))
        except BaseException as error:
            backend.busy -= 1
            del self._all[group, name]
            if isinstance(error, ClientError):
                raise errors.invalid_consumer(error) from None
            raise
        made = Instance(config, consumer, backend, group, name, self._monotonic)
        self._all[group, name] = made
        return made

    def find(self, backend: Backend, group: str, name: str) -> Instance:
        found = self._all.get((group, name))
        if found is None or found.owner is not backend:
            raise errors.instance_not_found()
        found.used_at = self._monotonic()
        return found

    async def use(self, instance: Instance, action: Callable[[], T]) -> T:
        """Makes a call of the instance's, when those before it are done."""
        async with instance.lock:
            if self._all.get((instance.group, instance.name)) is not instance:
                raise errors.instance_not_found()
            try:
                return await instance.owner.in_thread(action)
            except KafkaFailure as error:
                raise errors.of_kafka(error) from None
            except (ClientError, ValueError) as error:
                raise errors.illegal_state(error) from None
            finally:
                instance.used_at = self._monotonic()

    async def delete(self, backend: Backend, group: str, name: str) -> None:
        instance = self.find(backend, group, name)
        del self._all[group, name]
        await self._end(instance)

    async def _end(self, instance: Instance) -> None:
        instance.ends = True
        async with instance.lock:
            try:
                await instance.owner.in_thread(instance.close)
            except Exception as error:
                log.warning("consumer %s of group %s did not end well: %s", instance.name, instance.group, error)
            finally:
                instance.owner.busy -= 1

    async def expire(self) -> None:
        oldest = self._monotonic() - self.settings.seconds("consumer.instance.timeout.ms")
        for key, instance in list(self._all.items()):
            if instance is not None and instance.used_at < oldest and not instance.lock.locked():
                log.info("consumer %s of group %s was not used for long and is deleted", instance.name, instance.group)
                del self._all[key]
                await self._end(instance)

    async def close(self) -> None:
        rest = [instance for instance in self._all.values() if instance is not None]
        self._all.clear()
        await asyncio.gather(*map(self._end, rest))
