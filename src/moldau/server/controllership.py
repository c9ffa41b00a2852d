"""Who controls the cluster, and what the one who does has to do.

Levels, not edges: whatever wakes this (a new image, a broker that appears or vanishes, a report, a timer), it looks at
the image and at who is alive, claims the cluster if it may, and if it controls it, asks the duties until they decide
nothing. A controller that takes over in the middle of anything goes on from what it finds. One that fails to decide,
again and again and for no reason of the store's, lets others try.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass
from uuid import UUID

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.claim import (
    RANK_PAUSE_MS,
    claim,
    is_active_controller,
    may_claim,
    rank,
    step_down,
)
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.duties import Done, DutySettings, Evidence, duties
from moldau.metadata.controller.in_sync import check_broker_epoch
from moldau.metadata.controller.log_directories import directories_failed
from moldau.metadata.controller.shutdown import begin_shutdown, may_close
from moldau.metadata.controller.unregistration import unregister_broker
from moldau.metadata.image import NO_LEADER, ClusterImage, PartitionImage
from moldau.metadata.image_changes import ImageDelta
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.store import SessionState, StoreError
from moldau.metrics import Metrics
from moldau.server.controller import Controller
from moldau.server.deaths import Deaths
from moldau.server.mishaps import Mishaps
from moldau.server.nudge import Nudge
from moldau.server.services import Services
from moldau.types.errors import ErrorCode, KafkaError

log = logging.getLogger("moldau.server.controllership")

AFTER_FAILURE_SECONDS = 0.1
#: For how long a stop waits for its resignation to be written: without one the others find out by themselves.
RESIGN_SECONDS = 5.0
#: After so many mistakes in a row the controller resigns, and lets the others go first for so long.
MISHAPS_OF_A_CONTROLLER = 5
STANDING_BACK_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Report:
    """What a broker says of itself: up to where it has read the metadata, and which log directories have failed."""

    broker_id: int
    broker_epoch: int
    image_version: int
    wants_to_stop: bool = False
    failed_directories: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportAnswer:
    is_fenced: bool
    is_caught_up: bool
    may_stop: bool


class Controllership:
    def __init__(
        self,
        broker_id: int,
        services: Services,
        images: ImageHolder,
        controller: Controller,
        config: Callable[[], BrokerConfig],
        metrics: Metrics,
    ) -> None:
        self._broker_id = broker_id
        self._store, self._clocks = services.store, services.clocks
        self._images, self._controller, self._config = images, controller, config
        self._nudge = Nudge()
        self._reports: dict[int, Report] = {}
        self._deaths = Deaths(self._clocks.monotonic)
        self._balance_at: float | None = None
        self._stands_back_until: float | None = None
        self._leaving = False
        #: This broker is not to be taken in yet.
        self.holds_back = False
        self._task: asyncio.Task[None] | None = None
        self._snapshotting: asyncio.Task[None] | None = None
        self._mishaps = Mishaps(log, "the look at the cluster")
        self.elections = metrics.histogram("kafka.controller", "ControllerStats", "LeaderElectionRateAndTimeMs")
        self.unclean = metrics.counter("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec")

    def begin(self) -> None:
        self._images.subscribe(self._image_changes)
        self._images.watch(lambda _image: self.wake())
        self._store.watch_alive(lambda _alive: self.wake())
        self._task = asyncio.get_running_loop().create_task(self._run(), name="controllership")
        self.wake()

    def wake(self) -> None:
        self._nudge.give()

    def goes_on(self) -> None:
        self.holds_back = False
        self.wake()

    def _image_changes(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        was, is_now = (is_active_controller(image, self._broker_id) for image in (old, new))
        if was and not is_now and not self._leaving:
            log.warning("broker %d is no longer the controller", self._broker_id)
        if is_now:
            self._count_elections(delta)

    async def stop(self) -> None:
        """Steps down, so that the next controller need not wait until this one is found missing. What is to be written
        to the disks does not wait for long, though, where ZooKeeper is away."""
        self._leaving = True
        tasks = [each for each in (self._task, self._snapshotting) if each is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._store.session_state is SessionState.LOST:
            return
        await self._resign()

    async def _resign(self) -> None:
        try:
            async with asyncio.timeout(RESIGN_SECONDS):
                if await self._controller.decide_own(lambda image: step_down(image, self._broker_id)):
                    log.log(self._level(), "broker %d resigns as controller", self._broker_id)
        except (StoreError, KafkaError, TimeoutError) as error:
            log.info("could not step down: %s", error or "nobody answers")

    # --- what is heard of others ---

    def evidence_of_death(self, broker_id: int, incarnation: UUID) -> None:
        """Its port refuses connections: enough to fence it, since that does no harm if it is wrong."""
        if self._deaths.told(broker_id, incarnation):
            # What it has said before does not bring it back.
            self._reports.pop(broker_id, None)
            self.wake()

    def evidence_of_life(self, broker_id: int, incarnation: UUID) -> None:
        """It answers."""
        if self._deaths.take_back(broker_id, incarnation):
            log.warning("broker %d was taken for dead and is not", broker_id)
            self.wake()

    async def report(self, report: Report) -> ReportAnswer:
        """To the active controller. Raises STALE_BROKER_EPOCH, NOT_CONTROLLER."""
        if not self._controller.is_active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        image = self._images.image
        check_broker_epoch(image, report.broker_id, report.broker_epoch)
        self._reports[report.broker_id] = report
        self.evidence_of_life(report.broker_id, image.brokers[report.broker_id].incarnation)
        if report.failed_directories:
            await self._controller.decide(
                lambda image: directories_failed(
                    image, report.broker_id, report.broker_epoch, report.failed_directories
                )
            )
        if report.wants_to_stop:
            await self._controller.decide(
                lambda image: begin_shutdown(image, report.broker_id, report.broker_epoch, self._config())
            )
        self.wake()
        image = self._images.image
        broker = image.brokers[report.broker_id]
        return ReportAnswer(
            broker.fenced,
            report.image_version >= broker.epoch,
            report.wants_to_stop and self._may_stop(image, broker.id),
        )

    async def unregister(self, broker_id: int) -> None:
        """Raises NOT_CONTROLLER, and what the rule says against it."""
        await self._controller.decide(lambda image: unregister_broker(image, broker_id, self._alive(), self._config()))

    def _may_stop(self, image: ClusterImage, broker_id: int) -> bool:
        reached = {number: report.image_version for number, report in self._reports.items()}
        reached[self._broker_id] = image.version
        return may_close(image, broker_id, reached)

    def _known_dead(self) -> frozenset[UUID]:
        return self._deaths.known(self._images.image)

    # --- claiming and duties ---

    async def _run(self) -> None:
        while not self._leaving:
            await self._wait()
            try:
                await self._look()
                self._mishaps.over()
            except (StoreError, KafkaError) as error:
                log.info("the cluster's state could not be settled, trying again: %s", error)
                await asyncio.sleep(AFTER_FAILURE_SECONDS)
                self.wake()
            except Exception as error:
                await self._after_mishap(error)

    async def _after_mishap(self, error: Exception) -> None:
        """A controller that decides nothing elects nobody: what is wrong may be wrong with this broker alone."""
        pause = self._mishaps.happened(error)
        if self._mishaps.in_a_row % MISHAPS_OF_A_CONTROLLER == 0 and self._controller.is_active and self._has_others():
            log.error("broker %d cannot decide, and lets others control the cluster", self._broker_id)
            self._stands_back_until = self._clocks.monotonic() + STANDING_BACK_SECONDS
            await self._resign()
        await asyncio.sleep(pause)
        self.wake()

    async def _wait(self) -> None:
        """Until something has changed, preferred leaders are to be looked at, or others had time enough to claim."""
        at = self._balance_at if self._controller.is_active else self._stands_back_until
        await self._nudge.taken(None if at is None else max(0.0, at - self._clocks.monotonic()))

    async def _look(self) -> None:
        if not self._controller.is_active and self._may_claim():
            await self._claim()
        if self._controller.is_active:
            await self._do_duties()
            self._snapshot()

    def _snapshot(self) -> None:
        """Beside all else: a death must not wait for it."""
        if self._snapshotting is None:
            task = asyncio.get_running_loop().create_task(self._take_snapshot(), name="snapshot")
            self._snapshotting = task

    async def _take_snapshot(self) -> None:
        try:
            await self._store.snapshot_if_due()
        except StoreError as error:
            log.info("no snapshot of the metadata could be taken, trying again later: %s", error)
        except Exception:
            log.exception("no snapshot of the metadata could be taken")
        finally:
            self._snapshotting = None

    def _may_claim(self) -> bool:
        if self._stands_back_until is not None:
            if self._clocks.monotonic() < self._stands_back_until and self._has_others():
                return False
            self._stands_back_until = None
        return may_claim(self._images.image, self._broker_id, self._alive(), self._known_dead())

    def _has_others(self) -> bool:
        alive = self._alive()
        return any(
            each.is_active and each.id in alive
            for each in self._images.image.brokers.values()
            if each.id != self._broker_id
        )

    def _alive(self) -> Collection[int]:
        return self._store.alive()

    async def _claim(self) -> None:
        """Those before us in the order of candidates go first; the image tells if one of them has."""
        pause = rank(self._images.image, self._broker_id, self._alive()) * RANK_PAUSE_MS / 1000
        if pause:
            await asyncio.sleep(pause)
        if self._may_claim():
            epoch = await self._controller.decide_own(self._claimed_if_still_allowed)
            if epoch:
                self._reports.clear()
                self._plan_balance()
                log.log(self._level(), "broker %d controls the cluster, epoch %d", self._broker_id, epoch)

    def _claimed_if_still_allowed(self, image: ClusterImage) -> Decision[int]:
        if may_claim(image, self._broker_id, self._alive(), self._known_dead()):
            return claim(image, self._broker_id)
        return Decision((), 0)

    async def _do_duties(self) -> None:
        while self._controller.is_active:
            version = self._images.image.version
            done = await self._controller.decide(
                lambda image: duties(image, self._alive(), self._evidence(image), self._now_ms(), self._duty_settings())
            )
            self._tell(done)
            if done.balanced:
                self._plan_balance()
            if self._images.image.version == version:
                return

    def _evidence(self, image: ClusterImage) -> Evidence:
        caught_up = {
            number: report.broker_epoch
            for number, report in self._reports.items()
            if report.image_version >= report.broker_epoch
        }
        own = image.brokers.get(self._broker_id)
        if own is not None and not self.holds_back:
            caught_up[self._broker_id] = own.epoch
        return Evidence(caught_up, self._known_dead())

    def _duty_settings(self) -> DutySettings:
        config = self._config()
        balance_at = None if self._balance_at is None else round(self._balance_at * 1000)
        return DutySettings(config, balance_at_ms=balance_at, trust_boot_id=config.moldau_boot_id_trust_enable)

    def _plan_balance(self) -> None:
        config = self._config()
        self._balance_at = None
        if config.auto_leader_rebalance_enable:
            self._balance_at = self._clocks.monotonic() + config.leader_imbalance_check_interval_seconds

    def _now_ms(self) -> int:
        return round(self._clocks.monotonic() * 1000)

    def _count_elections(self, delta: ImageDelta) -> None:
        """Whatever was their reason: a death, a stop, a tool. They are decided and committed together: each took as
        long as all of them."""
        elected = [
            (before, after)
            for change in delta.changed
            for index in change.partitions
            if index < len(change.old.partitions)
            for before, after in ((change.old.partitions[index], change.new.partitions[index]),)
            if after.leader not in (before.leader, NO_LEADER)
        ]
        if elected:
            self.elections.record(self._controller.deciding_seconds * 1000, len(elected))
        unclean = sum(was_unclean(before, after) for before, after in elected)
        if unclean:
            self.unclean.value += unclean
            log.warning("%d leader(s) elected uncleanly: acknowledged records may be lost", unclean)

    def _tell(self, done: Done) -> None:
        if done.fenced:
            log.warning("fenced broker(s) %s: %d leader(s) elected", numbers(done.fenced), done.elections)
        if done.unfenced:
            joined = numbers(done.unfenced)
            log.log(self._level(), "broker(s) %s joined: %d leader(s) elected", joined, done.elections)

    def _level(self) -> int:
        """What happens to a broker that is alone is no news."""
        return logging.INFO if len(self._images.image.brokers) > 1 else logging.DEBUG


def was_unclean(before: PartitionImage, after: PartitionImage) -> bool:
    """Whether the new leader may lack something: it was neither in sync nor eligible, or is not trusted any more."""
    had_all = after.leader in before.isr or after.leader in before.elr
    return not had_all or (after.recovering and not before.recovering)


def numbers(brokers: Collection[int]) -> str:
    return ", ".join(map(str, brokers))
