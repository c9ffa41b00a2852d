"""This broker as a member of the cluster: announced, registered, taken in by the controller, and let go in the end.

A registration starts fenced. The controller takes the broker in once it reports that its own image holds that
registration. It reports for as long as there is something to say: it is fenced, it wants to stop, a log directory has
failed, or somebody else wants to stop and waits until all know. Nothing here depends on having seen an event.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from moldau.metadata.codec import BrokerEntry, Listener
from moldau.metadata.controller.features import SUPPORTED_FEATURES
from moldau.metadata.controller.registration import register_broker
from moldau.metadata.image import BrokerImage, ClusterImage
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import SessionState, StoreError
from moldau.server.controller import Controller
from moldau.server.controllership import Controllership, Report, ReportAnswer
from moldau.server.mishaps import Mishaps
from moldau.server.nudge import Nudge
from moldau.server.peers.peer import PeerLostError, Peers
from moldau.server.services import Services
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

log = logging.getLogger("moldau.server.membership")

FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.5
REPORT_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Lineage:
    """What tells whether this start goes on where the last one ended.

    `directories` are the ids of the log directories; `clean_epoch` the broker epoch under which all of them were left
    in good order, None after a crash.
    """

    directories: tuple[UUID, ...]
    boot_id: str
    clean_epoch: int | None


class Membership:
    def __init__(
        self,
        broker_id: int,
        services: Services,
        images: ImageHolder,
        controller: Controller,
        controllership: Controllership,
        peers: Peers,
        failed_directories: Callable[[], tuple[UUID, ...]],
    ) -> None:
        self._broker_id = broker_id
        self._store, self._peers = services.store, peers
        self._images, self._controller, self._controllership = images, controller, controllership
        self._failed_directories = failed_directories
        self._nudge = Nudge()
        self._admitted = asyncio.Event()
        self._wants_to_stop = False
        self._may_stop = asyncio.Event()
        self._mishaps = Mishaps(log, "the report to the controller")
        self._task: asyncio.Task[None] | None = None
        self.incarnation = services.new_uuid()

    # --- joining ---

    async def register(self, listeners: Sequence[Listener], rack: str | None, lineage: Lineage) -> None:
        """Announces that we live, then registers: a registration that nobody lives for would be fenced at once."""
        value = announcement(listeners, rack, lineage.directories)
        await self._store.announce(self._broker_id, value)
        clean_epoch = lineage.clean_epoch
        entry = BrokerEntry(
            self.incarnation,
            tuple(listeners),
            rack,
            lineage.boot_id,
            lineage.directories,
            SUPPORTED_FEATURES,
            clean=clean_epoch is not None,
            previous_epoch=-1 if clean_epoch is None else clean_epoch,
        )
        await self._controller.decide_own(lambda image: register_broker(image, self._broker_id, entry))

    def begin(self) -> None:
        self._images.watch(lambda _image: self.wake())
        self._store.on_session(self._session_changes)
        self._task = asyncio.get_running_loop().create_task(self._run(), name="membership")
        self.wake()

    def wake(self) -> None:
        self._nudge.give()

    async def admitted(self) -> None:
        """Returns when the controller has taken this broker in."""
        await self._admitted.wait()

    @property
    def epoch(self) -> int:
        """Of the registration of this life; -1 before it is in the image."""
        own = self._own(self._images.image)
        return -1 if own is None else own.epoch

    def _own(self, image: ClusterImage) -> BrokerImage | None:
        own = image.brokers.get(self._broker_id)
        return own if own is not None and own.incarnation == self.incarnation else None

    # --- leaving ---

    async def leave(self, seconds: float) -> bool:
        """Asks the controller to hand over what we lead, and waits until it has; False when the time is up. With our
        session that has ended, too: either somebody else leads by then, or nobody can decide on it.
        """
        if self._own(self._images.image) is None or self._is_alone():
            return True
        if self._is_forgotten:
            return False
        self._wants_to_stop = True
        self.wake()
        try:
            await asyncio.wait_for(self._may_stop.wait(), seconds)
        except TimeoutError:
            return False
        return not self._is_forgotten

    @property
    def _is_forgotten(self) -> bool:
        return self._store.session_state is SessionState.LOST

    def _session_changes(self, state: SessionState) -> None:
        if state is SessionState.LOST and self._wants_to_stop:
            self._may_stop.set()

    def _is_alone(self) -> bool:
        return all(each.fenced or each.id == self._broker_id for each in self._images.image.brokers.values())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._store.withdraw()

    # --- reports ---

    async def _run(self) -> None:
        pause = FIRST_PAUSE_SECONDS
        while True:
            if self._has_something_to_say():
                await self._report()
                was_nudged = await self._nudge.taken(pause)
                pause = FIRST_PAUSE_SECONDS if was_nudged else min(pause * 2, LONGEST_PAUSE_SECONDS)
            else:
                pause = FIRST_PAUSE_SECONDS
                await self._nudge.taken()

    def _has_something_to_say(self) -> bool:
        image = self._images.image
        own = self._own(image)
        if own is None:
            return False
        if not own.fenced:
            self._admitted.set()
        if self._wants_to_stop:
            return not self._may_stop.is_set()
        return must_report(image, own, self._failed_directories())

    async def _report(self) -> None:
        image = self._images.image
        own = self._own(image)
        if own is None:
            return
        report = Report(self._broker_id, own.epoch, image.version, self._wants_to_stop, self._failed_directories())
        try:
            answer = await self._tell(report)
        except (PeerLostError, StoreError, KafkaError) as error:
            log.debug("the controller did not hear us: %s", error)
            return
        except Exception as error:
            await asyncio.sleep(self._mishaps.happened(error))
            return
        self._mishaps.over()
        if answer.may_stop:
            self._may_stop.set()

    async def _tell(self, report: Report) -> ReportAnswer:
        if self._controller.is_active:
            return await self._controllership.report(report)
        active = self._controller.active_id
        if active is None or active == self._broker_id:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return await told_over(self._peers, active, report)


def must_report(image: ClusterImage, own: BrokerImage, failed_directories: Sequence[UUID]) -> bool:
    """Whether there is something that the controller does not know, or that somebody who leaves waits for. A folder
    that had failed before we registered is not one of ours any more."""
    if own.fenced or set(failed_directories) & set(own.directories) - set(own.offline_directories):
        return True
    return any(each.shutting_down and each.id != own.id for each in image.brokers.values())


async def told_over(peers: Peers, controller: int, report: Report) -> ReportAnswer:
    request = BrokerHeartbeatRequest(
        broker_id=report.broker_id,
        broker_epoch=report.broker_epoch,
        current_metadata_offset=report.image_version,
        want_shut_down=report.wants_to_stop,
        offline_log_dirs=report.failed_directories,
    )
    answer = await peers.get(controller).call(request, BrokerHeartbeatResponse, timeout_seconds=REPORT_SECONDS)
    if answer.error_code:
        raise KafkaError(ErrorCode(answer.error_code))
    return ReportAnswer(answer.is_fenced, answer.is_caught_up, answer.should_shut_down)


def announcement(listeners: Sequence[Listener], rack: str | None, directories: Sequence[UUID]) -> bytes:
    """Kafka's JSON of a living broker, as it stands in `/brokers/ids`, and the log directories that we hold."""
    first = listeners[0]
    members: Mapping[str, object] = {
        "version": 5,
        "host": first.host,
        "port": first.port,
        "jmx_port": -1,
        "timestamp": "-1",
        "endpoints": [f"{each.name}://{each.host}:{each.port}" for each in listeners],
        "listener_security_protocol_map": {each.name: each.protocol for each in listeners},
        "rack": rack,
        "features": {},
        "directories": [str(each) for each in directories],
    }
    return json.dumps(members, separators=(",", ":")).encode()
