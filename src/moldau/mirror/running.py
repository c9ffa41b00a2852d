"""Flows as threads: copiers, the membership, and duties on timers. Real clocks and sockets are made here."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.settings import ClientSettings
from moldau.mirror import topics
from moldau.mirror.copying import Copier
from moldau.mirror.formats import Heartbeat
from moldau.mirror.groups import Groups
from moldau.mirror.progress import LANES, Shared
from moldau.mirror.returning import would_double
from moldau.mirror.settings import Flow, MirrorSettings
from moldau.mirror.sharing import Membership
from moldau.mirror.writing import produce
from moldau.types.errors import KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.records import Record

TURN_SECONDS: Final = 0.2
JOIN_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.5
LOOK_PAUSE_SECONDS: Final = 1.0
"""Between looks that somebody asked for."""

log = logging.getLogger(__name__)


class Duty:
    """What has to be done again and again, first at once."""

    def __init__(self, name: str, seconds: float, act: Callable[[], object]) -> None:
        self.name = name
        self.seconds = seconds
        self.act = act
        self.due_at = 0.0


class Caretaker(threading.Thread):
    """Duties with connections of their own, one after the other."""

    def __init__(
        self,
        name: str,
        shared: Shared,
        clusters: Iterable[Cluster],
        prepare: Callable[[], None],
        duties: Iterable[Duty],
    ) -> None:
        super().__init__(name=name, daemon=True)
        self._shared = shared
        self._clusters = list(clusters)
        self._prepare = prepare
        self._duties = list(duties)

    def run(self) -> None:
        prepared = False
        while not self._shared.stopping.wait(TURN_SECONDS):
            try:
                if not prepared:
                    self._prepare()
                    prepared = True
                for duty in self._duties:
                    now = self._shared.clocks.monotonic()
                    if now >= duty.due_at:
                        duty.act()
                        duty.due_at = now + duty.seconds
            except (ClientError, KafkaError, OSError) as error:
                self._trouble(error)
            except Exception as error:
                log.exception("%s was interrupted", self.name)
                self._trouble(error)

        for cluster in self._clusters:
            cluster.close()

    def _trouble(self, error: Exception) -> None:
        log.warning("%s: %s; trying again", self.name, error)
        self._shared.stopping.wait(PAUSE_SECONDS)


class RunningFlow:
    """One worker's part of a flow."""

    def __init__(self, flow: Flow, others: Iterable[Flow]) -> None:
        self.flow = flow
        self.shared = Shared()
        self._all = tuple(others)
        self._others = tuple(other for other in self._all if other.enabled)
        self._threads: list[threading.Thread] = []
        self._membership: Membership | None = None
        self._looked_at = 0.0

    def start(self) -> None:
        flow, shared = self.flow, self.shared
        if flow.flag("emit.heartbeats.enabled"):
            self._threads.append(self._heart())
        if flow.enabled:
            self._membership = Membership(flow.name, flow.writing, shared, str(flow.topics))
            self._threads += [self._membership, self._topics()]
            tasks = min(flow.number("tasks.max"), LANES)
            self._threads += [Copier(flow, shared, number, tasks) for number in range(tasks)]
            if flow.flag("emit.checkpoints.enabled") and flow.flag("emit.offset-syncs.enabled"):
                self._threads.append(self._groups())
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self.shared.stopping.set()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(JOIN_SECONDS)
        if self._membership is not None:
            self._membership.leave()

    def as_json(self) -> dict[str, Any]:
        return self.shared.as_json(self.flow.name)

    # -- what its threads do -------------------------------------------------------------------------------------------

    def _heart(self) -> Caretaker:
        flow, target = self.flow, self._cluster(self.flow.writing)
        place = TopicPartition("heartbeats", 0)

        def prepare() -> None:
            topics.ensure_internal(target, place.topic, 1, flow.number("heartbeats.topic.replication.factor"))

        def beat() -> None:
            if flow.enabled and not self.shared.leads:
                return  # another worker's heart beats
            now = self.shared.clocks.now_ms()
            beaten = Heartbeat(flow.source, flow.target, now)
            produce(target, place, [Record(beaten.value(), beaten.key(), now)])
            self.shared.heartbeats += 1

        return Caretaker(f"{flow.name}-heartbeats", self.shared, [target], prepare,
            [Duty("heartbeats", flow.number("emit.heartbeats.interval.seconds"), beat)],
        )  # fmt: skip

    def _topics(self) -> Caretaker:
        flow, shared = self.flow, self.shared
        source, target = self._cluster(flow.reading), self._cluster(flow.writing)

        def prepare() -> None:
            topics.ensure_internal(
                target, flow.positions_topic, flow.number("offset.storage.partitions"),
                flow.number("offset.storage.replication.factor"),
            )  # fmt: skip
            if flow.flag("emit.offset-syncs.enabled"):
                keeper = target if flow.syncs_in_target else source
                topics.ensure_internal(
                    keeper, flow.syncs_topic, 1, flow.number("offset-syncs.topic.replication.factor")
                )

        def look() -> None:
            now = shared.clocks.monotonic()
            regular = flow.flag("refresh.topics.enabled") or not self._looked_at
            every = flow.number("refresh.topics.interval.seconds")
            asked = shared.look_now.is_set() and now >= self._looked_at + LOOK_PAUSE_SECONDS
            if not shared.lanes or not (asked or (regular and (not self._looked_at or now >= self._looked_at + every))):
                return
            shared.look_now.clear()
            found = topics.survey(flow, source, target, leads=shared.leads, loops=self._others)
            found = self._without_doubles(found, source, target)
            for name in sorted(set(found.problems) - set(shared.problems)):
                log.error("%s: topic %s is not copied: %s", flow.name, name, found.problems[name])
            shared.found(found)
            self._looked_at = now
            if any("yet" in why for why in found.problems.values()):
                shared.look_now.set()  # somebody creates it now

        def led(act: Callable[[], object]) -> Callable[[], object]:
            return lambda: act() if shared.leads else None

        duties = [Duty("topics", 0.0, look)]
        if flow.flag("sync.topic.configs.enabled"):
            sync = led(lambda: topics.sync_configs(flow, source, target, shared.pairs.values()))
            duties.append(Duty("settings", flow.number("sync.topic.configs.interval.seconds"), sync))
        if flow.flag("sync.topic.acls.enabled"):
            sync = led(lambda: topics.sync_acls(flow, source, target))
            duties.append(Duty("access rules", flow.number("sync.topic.acls.interval.seconds"), sync))
        return Caretaker(f"{flow.name}-topics", shared, [source, target], prepare, duties)

    def _groups(self) -> Caretaker:
        flow, shared = self.flow, self.shared
        source, target = self._cluster(flow.reading), self._cluster(flow.writing)
        groups = Groups(flow, shared, source, target, self._reverse)

        def prepare() -> None:
            topic = flow.policy.checkpoints(flow.source)
            topics.ensure_internal(target, topic, 1, flow.number("checkpoints.topic.replication.factor"))

        def refresh() -> None:
            if shared.leads:
                groups.refresh()

        def checkpoint() -> None:
            if shared.leads:
                groups.checkpoint(shared.clocks.now_ms())

        def commit() -> None:
            if shared.leads:
                groups.commit()

        every = flow.number("refresh.groups.interval.seconds") if flow.flag("refresh.groups.enabled") else float("inf")
        duties = [
            Duty("groups", every, refresh),
            Duty("checkpoints", flow.number("emit.checkpoints.interval.seconds"), checkpoint),
        ]
        if flow.flag("sync.group.offsets.enabled"):
            duties.append(Duty("offsets", flow.number("sync.group.offsets.interval.seconds"), commit))
        return Caretaker(f"{flow.name}-groups", shared, [source, target], prepare, duties)

    @property
    def _reverse(self) -> Flow | None:
        there_and_back = (self.flow.target, self.flow.source)
        return next((each for each in self._all if (each.source, each.target) == there_and_back), None)

    def _without_doubles(self, found: topics.Survey, source: Cluster, target: Cluster) -> topics.Survey:
        if self._reverse is None:
            return found
        doubles = would_double(self.flow, self._reverse, found, source, target)
        pairs = {name: pair for name, pair in found.pairs.items() if name not in doubles}
        return topics.Survey(pairs, {**found.problems, **doubles})

    def _cluster(self, properties: Any) -> Cluster:
        return Cluster(ClientSettings.from_properties(properties))


class Mirror:
    """Every flow of a property file."""

    def __init__(self, settings: MirrorSettings) -> None:
        self.flows = tuple(RunningFlow(flow, settings.known) for flow in settings.flows)

    def start(self) -> None:
        for flow in self.flows:
            flow.start()

    def stop(self) -> None:
        """What is under way is finished: open transactions are committed."""
        for flow in self.flows:
            flow.stop()
        for flow in self.flows:
            flow.join()

    def as_json(self) -> list[dict[str, Any]]:
        return [flow.as_json() for flow in self.flows if flow.flow.enabled]
