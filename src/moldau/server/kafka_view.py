"""Keeps Kafka's nodes in ZooKeeper behind the image, for as long as this broker controls the cluster.

Slowly: some hundred nodes a second, a moment after what they tell, so that the cluster's own commits never wait for
them. Whoever takes over writes all of it once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from moldau.metadata.image import ClusterImage, TopicImage
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.zookeeper import view
from moldau.metadata.zookeeper.port import PortError
from moldau.metadata.zookeeper.view import ViewWriter
from moldau.server.nudge import Nudge

log = logging.getLogger("moldau.server.kafka_view")

BEHIND_SECONDS = 0.25
NODES_BETWEEN_PAUSES = 50
LOOKED_AT_IN_ONE_GO = 200
PAUSE_SECONDS = 0.1
AFTER_FAILURE_SECONDS = 5.0


class KafkaView:
    def __init__(self, writer: ViewWriter, images: ImageHolder, broker_id: int, wall_ms: Callable[[], int]) -> None:
        self._writer, self._images, self._broker_id, self._wall_ms = writer, images, broker_id, wall_ms
        self._nudge = Nudge()
        self._shown: ClusterImage | None = None
        """What ZooKeeper shows, if this broker has written it and nobody else since."""
        self._written = 0
        self._sessions = self._shown_in = 0
        self._is_disturbed = False
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self._images.watch(lambda _image: self._nudge.give())
        self._task = asyncio.get_running_loop().create_task(self._run(), name="kafka's nodes")
        self._nudge.give()

    def begin_anew(self) -> None:
        """There is another session, or none: /controller went with the old one."""
        self._sessions += 1
        self._nudge.give()

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            await self._nudge.taken()
            await asyncio.sleep(BEHIND_SECONDS)
            try:
                await self.show(self._images.image)
            except PortError as error:
                log.info("Kafka's nodes in ZooKeeper are behind: %s", error or type(error).__name__)
                self._shown = None
                await asyncio.sleep(AFTER_FAILURE_SECONDS)
                self._nudge.give()
            except Exception:
                log.exception("Kafka's nodes in ZooKeeper are behind until something changes")
                self._shown = None

    async def show(self, image: ClusterImage) -> None:
        """Raises PortError."""
        controller = image.controller
        if controller is None or controller.id != self._broker_id:
            self._shown = None
            return
        before = self._shown if self._shown_in == self._sessions else None
        self._shown, self._shown_in = None, self._sessions
        if before is None or self._is_disturbed:
            await self._show_controller()
        if before is None:
            await self._sweep(image)
        await self._put(view.common_nodes(image))
        known = {} if before is None else before.topics
        for name in known.keys() - image.topics.keys():
            await self._forget(name)
        for name, topic in image.topics.items():
            if known.get(name) is not topic:
                await self._put_topic(known.get(name), topic, controller.epoch)
        self._shown = image

    async def _show_controller(self) -> None:
        """Watched from then on: whoever deletes it wants to see it again."""
        self._is_disturbed = False
        await self._writer.put_ephemeral(view.CONTROLLER, view.controller_node(self._broker_id, self._wall_ms()))
        if not await self._writer.watch(view.CONTROLLER, self._disturb):
            self._disturb()

    def _disturb(self) -> None:
        self._is_disturbed = True
        self._nudge.give()

    async def _put_topic(self, old: TopicImage | None, new: TopicImage, controller_epoch: int) -> None:
        """Partitions that did not change keep the controller epoch under which they last did, as in Kafka."""
        if old is not None and old.id != new.id:
            await self._forget(new.name)
            old = None
        await self._put(view.topic_nodes(new))
        known = old.partitions if old is not None else ()
        for index, partition in enumerate(new.partitions):
            if index % LOOKED_AT_IN_ONE_GO == 0:
                await asyncio.sleep(0)
            if index >= len(known) or known[index] is not partition:
                await self._put([view.partition_node(new.name, index, partition, controller_epoch)])

    async def _forget(self, topic: str) -> None:
        for path in (view.topic_path(topic), f"{view.TOPIC_CONFIGS}/{topic}"):
            await self._writer.remove(path)

    async def _sweep(self, image: ClusterImage) -> None:
        for name in await self._writer.names_below(view.TOPICS):
            if name not in image.topics:
                await self._forget(name)

    async def _put(self, nodes: Iterable[tuple[str, bytes]]) -> None:
        for path, value in nodes:
            await self._writer.put(path, value)
            self._written += 1
            if self._written % NODES_BETWEEN_PAUSES == 0:
                await asyncio.sleep(PAUSE_SECONDS)
