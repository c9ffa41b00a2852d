"""Tells the controller in which log directory a replica is, where it has to know (AssignReplicasToDirs).

It has to once a directory fails: others must lead what was in it. From then on it must hear of every change, for a
replica whose directory is not there cannot lead. Where a directory that this broker had is gone when it starts, it must
hear of what is left before it takes the broker in: the rest was lost, and may not lead. What fails and has one replica
only stays where it is: nobody could take it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.log_directories import place_in_directories
from moldau.metadata.image import ClusterImage
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import StoreError
from moldau.server.controller import Controller
from moldau.server.nudge import Nudge
from moldau.server.peers.peer import PeerLostError, Peers
from moldau.server.timers import Timers
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

log = logging.getLogger("moldau.server.directories")

TELL_SECONDS = 10.0
AGAIN_SECONDS = 0.2

#: Folders by topic id and partition.
Places = Mapping[tuple[UUID, int], UUID]


class DirectoryReports:
    def __init__(
        self,
        broker_id: int,
        images: ImageHolder,
        controller: Controller,
        peers: Peers,
        broker_epoch: Callable[[], int],
        config: Callable[[], BrokerConfig],
    ) -> None:
        self._broker_id = broker_id
        self._images, self._controller, self._peers = images, controller, peers
        self._broker_epoch, self._config = broker_epoch, config
        self._untold: dict[TopicPartition, UUID] = {}
        self._nudge = Nudge()

    def begin(self, timers: Timers) -> None:
        timers.every(AGAIN_SECONDS, "telling where replicas are", self.run, first_after=0)

    def failed(self, directory: UUID, lost: Iterable[TopicPartition]) -> None:
        self._tell(dict.fromkeys(lost, directory))

    def found(self, directories: Mapping[TopicPartition, UUID]) -> None:
        """Where replicas are; of interest where something else was told before."""
        image = self._images.image
        told = {place: self._told(image, place) for place in directories}
        self._tell(
            {place: directory for place, directory in directories.items() if told[place] not in (None, directory)}
        )

    async def tell_kept(self, kept: Mapping[TopicPartition, UUID]) -> None:
        """To be waited for before this broker asks to be taken in, if it has lost directories: where the replicas are
        that it had before, and has still."""
        while True:
            image = self._images.image
            places = self._places({place: kept[place] for place in kept if self._told(image, place) is None})
            try:
                if places:
                    await self._send(places)
                return
            except (PeerLostError, StoreError, KafkaError) as error:
                log.debug("the controller did not hear which replicas are left: %s", error)
                await asyncio.sleep(AGAIN_SECONDS)

    def _tell(self, directories: Mapping[TopicPartition, UUID]) -> None:
        self._untold.update(directories)
        self._nudge.give()

    def _told(self, image: ClusterImage, place: TopicPartition) -> UUID | None:
        partition = image.partition(*place)
        return None if partition is None else partition.directory_of(self._broker_id)

    async def run(self) -> None:
        while True:
            await self._nudge.taken(AGAIN_SECONDS if self._untold else None)
            telling = dict(self._untold)
            places = self._places({place: telling[place] for place in telling if self._concerns(place)})
            try:
                if places:
                    await self._send(places)
            except (PeerLostError, StoreError, KafkaError) as error:
                log.debug("the controller did not hear where replicas are: %s", error)
                continue
            for place, directory in telling.items():
                if self._untold.get(place) == directory:
                    del self._untold[place]

    def _concerns(self, place: TopicPartition) -> bool:
        partition = self._images.image.partition(*place)
        if partition is None:
            return False
        return len(partition.replicas) > 1 or partition.directory_of(self._broker_id) is not None

    def _places(self, directories: Mapping[TopicPartition, UUID]) -> Places:
        image = self._images.image
        found: dict[tuple[UUID, int], UUID] = {}
        for place, directory in directories.items():
            partition = image.partition(*place)
            if partition is not None and self._broker_id in partition.replicas:
                found[image.topics[place.topic].id, place.partition] = directory
        return found

    async def _send(self, places: Places) -> None:
        epoch = self._broker_epoch()
        if self._controller.is_active:
            await self._controller.decide(
                lambda image: place_in_directories(image, self._broker_id, epoch, places, self._config())
            )
            return
        active = self._controller.active_id
        if active is None or active == self._broker_id:
            raise PeerLostError("no broker controls the cluster at the moment")
        request = assign_request(self._broker_id, epoch, places)
        answer = await self._peers.get(active).call(request, AssignReplicasToDirsResponse, timeout_seconds=TELL_SECONDS)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))


def has_lost_directories(image: ClusterImage, broker_id: int, present: Collection[UUID]) -> bool:
    """Whether a broker was last taken in with log directories that it has not any more."""
    before = image.broker_states.get(broker_id)
    return before is not None and not set(before.entry.directories) <= set(present)


def assign_request(broker_id: int, broker_epoch: int, places: Places) -> AssignReplicasToDirsRequest:
    by_directory: dict[UUID, dict[UUID, list[int]]] = {}
    for (topic_id, partition), directory in places.items():
        by_directory.setdefault(directory, {}).setdefault(topic_id, []).append(partition)
    directories = [
        DirectoryData(
            id_=directory,
            topics=[
                TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=each) for each in partitions])
                for topic_id, partitions in topics.items()
            ],
        )
        for directory, topics in by_directory.items()
    ]
    return AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=broker_epoch, directories=directories)
