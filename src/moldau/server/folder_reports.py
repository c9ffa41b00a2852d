"""Tells the controller in which log folder a replica is, where it has to know (AssignReplicasToDirs).

It has to once a folder fails: others must lead what was in it. From then on it must hear of every change, for a replica
whose folder is not there cannot lead. What has one replica only stays where it is: nobody could take it over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.log_folders import place_in_folders
from moldau.metadata.image import ClusterImage
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import StoreError
from moldau.server.controller import Controller
from moldau.server.nudge import Nudge
from moldau.server.peers.peer import PeerLostError, Peers
from moldau.server.upkeep import Upkeep
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    DirectoryData,
    PartitionData,
    TopicData,
)

log = logging.getLogger("moldau.server.folders")

TELL_SECONDS = 10.0
AGAIN_SECONDS = 0.2

#: Folders by topic id and partition.
Places = Mapping[tuple[UUID, int], UUID]


class FolderReports:
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

    def begin(self, upkeep: Upkeep) -> None:
        upkeep.every(AGAIN_SECONDS, "telling where replicas are", self.run, first_after=0)

    def failed(self, folder: UUID, lost: Iterable[TopicPartition]) -> None:
        self._tell(dict.fromkeys(lost, folder))

    def found(self, folders: Mapping[TopicPartition, UUID]) -> None:
        """Where replicas are; of interest where something else was told before."""
        image = self._images.image
        told = {place: self._told(image, place) for place in folders}
        self._tell({place: folder for place, folder in folders.items() if told[place] not in (None, folder)})

    def _tell(self, folders: Mapping[TopicPartition, UUID]) -> None:
        self._untold.update(folders)
        self._nudge.give()

    def _told(self, image: ClusterImage, place: TopicPartition) -> UUID | None:
        partition = image.partition(*place)
        return None if partition is None else partition.directory_of(self._broker_id)

    async def run(self) -> None:
        while True:
            await self._nudge.taken(AGAIN_SECONDS if self._untold else None)
            telling = dict(self._untold)
            places = self._places(telling)
            try:
                if places:
                    await self._send(places)
            except (PeerLostError, StoreError, KafkaError) as error:
                log.debug("the controller did not hear where replicas are: %s", error)
                continue
            for place, folder in telling.items():
                if self._untold.get(place) == folder:
                    del self._untold[place]

    def _places(self, folders: Mapping[TopicPartition, UUID]) -> Places:
        image = self._images.image
        found: dict[tuple[UUID, int], UUID] = {}
        for place, folder in folders.items():
            partition = image.partition(*place)
            if partition is not None and self._broker_id in partition.replicas and len(partition.replicas) > 1:
                found[image.topics[place.topic].id, place.partition] = folder
        return found

    async def _send(self, places: Places) -> None:
        epoch = self._broker_epoch()
        if self._controller.is_active:
            await self._controller.decide(
                lambda image: place_in_folders(image, self._broker_id, epoch, places, self._config())
            )
            return
        active = self._controller.active_id
        if active is None or active == self._broker_id:
            raise PeerLostError("no broker controls the cluster at the moment")
        request = assign_request(self._broker_id, epoch, places)
        answer = await self._peers.get(active).call(request, AssignReplicasToDirsResponse, timeout_seconds=TELL_SECONDS)
        if answer.error_code:
            raise KafkaError(ErrorCode(answer.error_code))


def assign_request(broker_id: int, broker_epoch: int, places: Places) -> AssignReplicasToDirsRequest:
    folders: dict[UUID, dict[UUID, list[int]]] = {}
    for (topic_id, partition), folder in places.items():
        folders.setdefault(folder, {}).setdefault(topic_id, []).append(partition)
    directories = [
        DirectoryData(
            id_=folder,
            topics=[
                TopicData(topic_id=topic_id, partitions=[PartitionData(partition_index=each) for each in partitions])
                for topic_id, partitions in topics.items()
            ],
        )
        for folder, topics in folders.items()
    ]
    return AssignReplicasToDirsRequest(broker_id=broker_id, broker_epoch=broker_epoch, directories=directories)
