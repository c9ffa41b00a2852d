"""The loops of a controller and of a member over a real store: what they do by themselves, from whatever they find."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from itertools import count
from math import inf
from random import Random
from typing import Any, TypeVar, cast
from uuid import UUID, uuid4

import pytest

from moldau.config.broker import BrokerConfig
from moldau.metadata.codec import BrokerEntry, Listener
from moldau.metadata.controller.brokers import form_cluster, put_state
from moldau.metadata.controller.claim import claim
from moldau.metadata.controller.decision import Decision, everyone
from moldau.metadata.controller.duties import duties
from moldau.metadata.controller.elect import ElectionKind, elect_leaders
from moldau.metadata.controller.features import FEATURES_OF_A_NEW_CLUSTER, SUPPORTED_FEATURES
from moldau.metadata.controller.partition_changes import put_partition
from moldau.metadata.controller.registration import register_broker
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.image import NO_LEADER, PartitionImage
from moldau.metadata.local import LocalStore
from moldau.metadata.publisher import ImageHolder
from moldau.metrics import Metrics
from moldau.server import controllership, mishaps
from moldau.server.controller import Controller
from moldau.server.controllership import Controllership, Report
from moldau.server.membership import Lineage, Membership
from moldau.server.services import Clocks, Services
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from moldau.work import turns
from moldau.work.slices import Work
from tests.fakes.lossy_files import LossyFiles

T = TypeVar("T")
LISTENER = Listener("PLAINTEXT", "here", 9092, "PLAINTEXT")
PATIENCE_SECONDS = 60.0
TURNS = 20


async def at_once(work: Callable[[], T]) -> T:
    return work()


class Store:
    """The embedded store, with other brokers that live beside this one."""

    def __init__(self, store: LocalStore) -> None:
        self.present: set[int] = {1}
        self.snapshots = asyncio.Event()
        self._store = store
        self._tell: Callable[[Any], object] = lambda _: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def snapshot_if_due(self) -> None:
        await self.snapshots.wait()

    def alive(self) -> frozenset[int]:
        return frozenset(self.present)

    def watch_alive(self, tell: Callable[[Any], object]) -> Callable[[], None]:
        self._tell = tell
        return lambda: None

    def came_or_went(self, *present: int) -> None:
        self.present = set(present)
        self._tell(self.alive())


class Peers:
    """Another broker, which controls the cluster and notes what it is told."""

    def __init__(self) -> None:
        self.reports: asyncio.Queue[BrokerHeartbeatRequest] = asyncio.Queue()

    def get(self, _broker_id: int) -> Peers:
        return self

    async def call(
        self, request: BrokerHeartbeatRequest, _answer_class: object, *, timeout_seconds: float
    ) -> BrokerHeartbeatResponse:
        self.reports.put_nowait(request)
        return BrokerHeartbeatResponse()


class Scene:
    def __init__(self, store: Store, **settings: str) -> None:
        self.store = store
        self.now = 100.0
        self.config = BrokerConfig.load({name.replace("_", "."): value for name, value in settings.items()})
        nothing = cast(Any, None)
        clocks = Clocks(lambda: self.now, lambda: 0, lambda: self.now)
        self.services = Services(
            cast(Any, store), nothing, nothing, nothing, clocks, Random(1), nothing, uuid4, nothing, nothing, nothing,
            boot_id="boot",
        )  # fmt: skip
        self.images = ImageHolder(cast(Any, store))
        self.metrics = Metrics()
        self.controller = Controller(1, self.services, self.images, lambda: self.config)
        self.controllership = Controllership(
            1, self.services, self.images, self.controller, lambda: self.config, self.metrics
        )
        self.peers = Peers()
        self.membership = Membership(
            1, self.services, self.images, self.controller, self.controllership, cast(Any, self.peers), lambda: ()
        )

    async def until(self, look: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not look():
                await self.images.next()

    async def register_other(self, number: int) -> None:
        entry = BrokerEntry(uuid4(), (LISTENER,), None, "boot", (UUID(int=number),), SUPPORTED_FEATURES)
        await self.controller.decide_own(lambda image: register_broker(image, number, entry))

    async def fence(self, number: int) -> None:
        """As another broker would: nothing here waits for what comes of it."""
        revision = await self.store.commit([put_state(self.images.image.brokers[number], fenced=True)])
        await self.images.reached(revision)

    def applies_in_turns(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Somebody has much to do with every image from now on: the loop looks at all else before it is current."""
        seconds = count()
        monkeypatch.setattr(turns, "clock", lambda: float(next(seconds)))

        def apply(_old: object, _new: object, _delta: object) -> Work[None]:
            for _ in range(TURNS):
                yield

        self.images.subscribe(apply)

    @property
    def partitions(self) -> tuple[PartitionImage, ...]:
        return self.images.image.topics["t"].partitions

    @property
    def leaders(self) -> list[int]:
        return [each.leader for each in self.partitions]

    def fenced(self, number: int) -> bool:
        return self.images.image.brokers[number].fenced

    async def report(self, number: int) -> None:
        own = self.images.image.brokers[number]
        await self.controllership.report(Report(number, own.epoch, self.images.image.version))


@asynccontextmanager
async def scene(**settings: str) -> AsyncIterator[Scene]:
    made = Scene(Store(await LocalStore.open("/metadata", at_once, files=LossyFiles())), **settings)
    await made.images.start()
    await made.controller.decide_own(lambda image: form_cluster(image, "a-cluster", FEATURES_OF_A_NEW_CLUSTER))
    await made.membership.register((LISTENER,), None, Lineage((UUID(int=1),), "boot", None))
    made.controllership.begin()
    made.membership.begin()
    try:
        yield made
    finally:
        await made.membership.stop()
        await made.controllership.stop()
        made.images.stop()


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


def test_a_broker_that_finds_no_controller_becomes_it_and_takes_itself_in() -> None:
    async def scenario() -> None:
        async with scene() as here:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await here.membership.admitted()
            assert here.controller.is_active and not here.fenced(1)
            assert here.membership.epoch == here.images.image.brokers[1].epoch

    run(scenario())


def test_who_comes_is_taken_in_when_it_has_seen_itself_and_who_vanishes_is_fenced() -> None:
    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            here.store.came_or_went(1, 2)
            await here.register_other(2)
            assert here.fenced(2)
            await here.report(2)
            await here.until(lambda: not here.fenced(2))
            here.store.came_or_went(1)
            await here.until(lambda: here.fenced(2))
            with pytest.raises(KafkaError) as stale:
                await here.controllership.report(Report(2, 0, 0))
            assert stale.value.code is ErrorCode.STALE_BROKER_EPOCH

    run(scenario())


def test_a_broker_is_forgotten_once_it_is_gone() -> None:
    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            here.store.came_or_went(1, 2)
            await here.register_other(2)
            await here.report(2)
            await here.until(lambda: not here.fenced(2))
            with pytest.raises(KafkaError, match="stop it first"):
                await here.controllership.unregister(2)
            here.store.came_or_went(1)
            await here.until(lambda: here.fenced(2))
            await here.controllership.unregister(2)
            assert here.images.image.brokers.keys() == {1}

    run(scenario())


def test_elections_are_counted_whoever_asked_for_them() -> None:
    """By their outcome: what a tool, a stop or a death has brought about looks the same in the image."""

    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            here.store.came_or_went(1, 2)
            await here.register_other(2)
            await here.report(2)
            await here.until(lambda: not here.fenced(2))
            wanted = [NewTopic("t", assignments=((0, (2, 1)), (1, (2, 1))))]
            await here.controller.create_topics(wanted, False, everyone)
            here.store.came_or_went(1)
            await here.until(lambda: here.leaders == [1, 1])
            unclean, elections = here.controllership.unclean, here.controllership.elections
            assert (elections.count, unclean.value) == (2, 0)
            lost = [replace(each, leader=NO_LEADER, isr=(), elr=(2,)) for each in here.partitions]
            puts = [
                put_partition("t", index, old, new)
                for index, (old, new) in enumerate(zip(here.partitions, lost, strict=True))
            ]
            await here.controller.decide_own(lambda _: Decision(puts, None))
            assert here.leaders == [NO_LEADER, NO_LEADER]
            asked = [TopicPartition("t", 0)]
            await here.controller.decide(lambda image: elect_leaders(image, ElectionKind.UNCLEAN, asked, here.config))
            assert here.leaders == [1, NO_LEADER]
            assert (elections.count, unclean.value) == (3, 1)

    run(scenario())


def test_wrong_evidence_of_a_death_costs_one_fencing_and_is_not_believed_again_for_a_while() -> None:
    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            here.store.came_or_went(1, 2)
            await here.register_other(2)
            await here.report(2)
            await here.until(lambda: not here.fenced(2))
            incarnation = here.images.image.brokers[2].incarnation
            here.controllership.evidence_of_death(2, incarnation)
            await here.until(lambda: here.fenced(2))
            await here.report(2)
            await here.until(lambda: not here.fenced(2))
            version = here.images.image.version
            here.controllership.evidence_of_death(2, incarnation)
            await here.register_other(3)  # something that is seen to be done behind it
            await here.until(lambda: 3 in here.images.image.brokers)
            assert not here.fenced(2) and here.images.image.version > version
            here.now += 61.0
            here.controllership.evidence_of_death(2, incarnation)
            await here.until(lambda: here.fenced(2))

    run(scenario())


def test_a_controller_goes_by_an_image_that_took_turns_to_be_applied(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            await here.membership.stop()
            here.applies_in_turns(monkeypatch)
            await here.fence(1)
            await here.until(lambda: not here.fenced(1))

    run(scenario())


def test_a_member_sees_in_such_an_image_that_it_was_fenced_and_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing else need ever change: it would stay shut out for good."""

    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            await here.controllership.stop()
            await here.register_other(2)
            await here.controller.decide_own(lambda image: claim(image, 2))
            here.applies_in_turns(monkeypatch)
            await here.fence(1)
            async with asyncio.timeout(PATIENCE_SECONDS):
                report = await here.peers.reports.get()
            assert (report.broker_id, report.broker_epoch) == (1, here.membership.epoch)
            assert report.current_metadata_offset == here.images.image.version

    run(scenario())


def test_one_that_is_alone_may_leave_at_once_and_steps_down() -> None:
    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            assert await here.membership.leave(PATIENCE_SECONDS)
            await here.controllership.stop()
            assert not here.controller.is_active
            with pytest.raises(KafkaError) as refused:
                await here.controllership.report(Report(1, here.membership.epoch, 0))
            assert refused.value.code is ErrorCode.NOT_CONTROLLER

    run(scenario())


def test_the_controller_does_not_trust_boot_ids_where_it_is_told_not_to() -> None:
    async def scenario() -> None:
        async with scene(moldau_boot_id_trust_enable="false") as here:
            assert here.controllership._duty_settings().trust_boot_id is False
        async with scene() as here:
            assert here.controllership._duty_settings().trust_boot_id is True

    run(scenario())


def test_a_snapshot_that_takes_long_delays_no_fencing() -> None:
    """As in all of these scenes it never ends."""

    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            here.store.came_or_went(1, 2)
            await here.register_other(2)
            await here.report(2)
            await here.until(lambda: not here.fenced(2))
            here.store.came_or_went(1)
            await here.until(lambda: here.fenced(2))
            assert here.controllership._snapshotting is not None

    run(scenario())


def mistaken(monkeypatch: pytest.MonkeyPatch, times: float) -> list[None]:
    """The rule of the duties fails so many times. Gives the calls."""
    monkeypatch.setattr(mishaps, "FIRST_PAUSE_SECONDS", 0.0)
    calls: list[None] = []

    def rule(*arguments: Any) -> Any:
        calls.append(None)
        if len(calls) <= times:
            raise RuntimeError("a mistake of ours")
        return duties(*arguments)

    monkeypatch.setattr(controllership, "duties", rule)
    return calls


def test_a_controller_goes_on_after_a_mistake(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        mistaken(monkeypatch, 3)
        async with scene() as here:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await here.membership.admitted()
        told = [each for each in caplog.records if "a mistake of ours" in each.getMessage()]
        assert [each.exc_info is not None for each in told] == [True, False, False]

    run(scenario())


def test_one_that_cannot_decide_lets_others_control_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            here.store.came_or_went(1, 2)
            await here.register_other(2)
            await here.report(2)
            await here.until(lambda: not here.fenced(2))
            calls = mistaken(monkeypatch, inf)
            here.controllership.wake()
            await here.until(lambda: not here.controller.is_active)
            assert len(calls) == 5
            await here.controller.decide_own(lambda image: claim(image, 2))
            # It takes over again from one that is gone.
            mistaken(monkeypatch, 0)
            here.store.came_or_went(1)
            await here.until(lambda: here.controller.is_active)

    run(scenario())


def test_a_member_goes_on_after_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(mishaps, "FIRST_PAUSE_SECONDS", 0.0)
        async with scene() as here:
            await here.membership.admitted()
            await here.controllership.stop()
            await here.register_other(2)
            await here.controller.decide_own(lambda image: claim(image, 2))
            mistakes = iter([RuntimeError("a mistake of ours")])
            call = here.peers.call

            async def answer(*arguments: Any, **named: Any) -> Any:
                for mistake in mistakes:
                    raise mistake
                return await call(*arguments, **named)

            monkeypatch.setattr(here.peers, "call", answer)
            await here.fence(1)
            async with asyncio.timeout(PATIENCE_SECONDS):
                report = await here.peers.reports.get()
            assert report.broker_id == 1

    run(scenario())


@pytest.mark.parametrize("how", ["it is long ago", "it answers"])
def test_what_was_told_of_a_death_is_not_used_against_a_later_controller(how: str) -> None:
    async def scenario() -> None:
        async with scene() as here:
            await here.membership.admitted()
            here.store.came_or_went(1, 2, 3)
            for other in (2, 3):
                await here.register_other(other)
                await here.report(other)
            await here.until(lambda: not here.fenced(2) and not here.fenced(3))
            await here.controller.decide_own(lambda image: claim(image, 3))
            incarnation = here.images.image.brokers[2].incarnation
            here.controllership.evidence_of_death(2, incarnation)
            if how == "it answers":
                here.controllership.evidence_of_life(2, incarnation)
            else:
                here.now += 3600.0
            await here.controller.decide_own(lambda image: claim(image, 2))
            here.store.came_or_went(1, 2)  # seen, and looked at, by the next claim
            assert not here.controllership._may_claim()
            here.controllership.evidence_of_death(2, incarnation)
            assert here.controllership._may_claim() is (how == "it is long ago")

    run(scenario())
