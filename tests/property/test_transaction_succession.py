"""Producers that begin the next transaction right behind the end of the last one, while its markers are under way and
the coordinator's log is slow: whatever overtakes what, none of their requests is refused, and all is seen that they
committed. With version 2 they send their first batches at once (`server/verification` adds the partitions); with the
older one they announce partitions and try again while they hear CONCURRENT_TRANSACTIONS.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.server.coordination.futures import answer_of
from moldau.server.verification import ask, question
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from tests.fakes.transaction_shard import begin_at_epoch
from tests.fakes.verifying_broker import TellingShard, VerifyingBroker

PLACES = tuple(TopicPartition("t", index) for index in range(3))
#: Some begin where the epochs of a producer id end.
FIRST_EPOCHS = st.sampled_from((0, 32764, 32765, 32766))


@dataclass(slots=True, eq=False)
class Producer:
    name: str
    version: int
    identity: ProducerIdentity
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    busy: set[TopicPartition] = field(default_factory=set)
    is_ending: bool = False
    written: list[tuple[TopicPartition, str]] = field(default_factory=list)
    """In the transaction that is open."""


class Succession(RuleBasedStateMachine):
    loop: asyncio.AbstractEventLoop | None = None

    @initialize(level=st.sampled_from((1, 2)), versions=st.lists(st.sampled_from((0, 2)), min_size=1, max_size=2),
                first=FIRST_EPOCHS)  # fmt: skip
    def begin(self, level: int, versions: list[int], first: int) -> None:
        self.loop = asyncio.new_event_loop()
        self.tasks: list[asyncio.Task[None]] = []
        self.producers: list[Producer] = []
        self.committed: dict[TopicPartition, list[str]] = {place: [] for place in PLACES}
        self.count = 0
        self.shard = TellingShard(len(PLACES), level)
        self.broker = VerifyingBroker(self.shard).as_broker()
        for number, version in enumerate(versions):
            name = f"id-{number}"
            self.producers.append(Producer(name, version, begin_at_epoch(self.shard, first, name)))

    # --- what the producers do ---

    @rule(choice=st.integers(0, 1), place=st.sampled_from(PLACES))
    def write(self, choice: int, place: TopicPartition) -> None:
        producer = self.producers[choice % len(self.producers)]
        if not producer.is_ending and place not in producer.busy:
            producer.busy.add(place)
            self.count += 1
            self._start(self._write(producer, place, f"v{self.count}"))

    @rule(choice=st.integers(0, 1), commit=st.booleans(), answer_is_lost=st.booleans())
    def end(self, choice: int, commit: bool, answer_is_lost: bool) -> None:
        producer = self.producers[choice % len(self.producers)]
        if not producer.is_ending and not producer.busy and producer.written:
            producer.is_ending = True
            self._start(self._end(producer, commit, answer_is_lost))

    async def _write(self, producer: Producer, place: TopicPartition, value: str) -> None:
        identity, adds_partitions = producer.identity, producer.version == 2
        if not adds_partitions:
            await self._announce(producer, place)
        asked = question(self.broker, place, identity, adds_partitions)
        if asked is not None:
            refused = await ask(self.broker, producer.name, [asked], adds_partitions)
            assert not refused, refused
        sequence = producer.sequences.get(place, 0)
        self.shard.partitions[place].write(identity, value, sequence)
        producer.sequences[place] = sequence + 1
        producer.written.append((place, value))
        producer.busy.discard(place)

    async def _announce(self, producer: Producer, place: TopicPartition) -> None:
        while True:
            adding = self.shard.request(
                lambda machine: machine.add_partitions(producer.name, producer.identity, [place], producer.version)
            )
            try:
                await answer_of(adding)
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
                await asyncio.sleep(0)  # and asks again
            else:
                return

    async def _end(self, producer: Producer, commit: bool, answer_is_lost: bool) -> None:
        following = await self._asked_for_the_end(producer, commit)
        if answer_is_lost:
            assert await self._asked_for_the_end(producer, commit) == following
        if commit:
            for place, value in producer.written:
                self.committed[place].append(value)
        if producer.version == 2:
            assert following != producer.identity
            producer.identity = following
            producer.sequences.clear()
        producer.written.clear()
        producer.is_ending = False

    async def _asked_for_the_end(self, producer: Producer, commit: bool) -> ProducerIdentity:
        spare = self.shard.new_producer_id()
        while True:
            ending = self.shard.request(
                lambda machine: machine.end(producer.name, producer.identity, commit, producer.version, spare)
            )
            try:
                return await answer_of(ending)
            except KafkaError as error:
                if error.code is not ErrorCode.CONCURRENT_TRANSACTIONS:
                    raise
                await asyncio.sleep(0)  # and asks again

    # --- what happens around them ---

    @precondition(lambda self: self.shard.log.under_way)
    @rule(count=st.integers(1, 3))
    def log_commits(self, count: int) -> None:
        self.shard.log.commit(min(count, self.shard.log.under_way))
        self._step()

    @precondition(lambda self: self.shard.markers)
    @rule(choice=st.integers(0, 20))
    def marker_arrives(self, choice: int) -> None:
        self.shard.deliver(choice % len(self.shard.markers))
        self._step()

    def _start(self, work: Coroutine[None, None, None]) -> None:
        assert self.loop is not None
        self.tasks.append(self.loop.create_task(work))
        self._step()

    def _step(self) -> None:
        """Whoever can go on does, and what it asks for may let others go on."""

        async def turns() -> None:
            for _ in range(8):
                await asyncio.sleep(0)

        assert self.loop is not None
        self.loop.run_until_complete(turns())
        for task in [task for task in self.tasks if task.done()]:
            self.tasks.remove(task)
            task.result()

    def teardown(self) -> None:
        if self.loop is None:
            return
        try:
            self._everything_comes_to_its_end()
        finally:
            for task in self.tasks:
                task.cancel()
            if self.tasks:
                self.loop.run_until_complete(asyncio.wait(self.tasks))
            self.loop.close()

    def _everything_comes_to_its_end(self) -> None:
        for _ in range(2):
            while self.tasks and (self.shard.log.under_way or self.shard.markers):
                self.shard.settle()
                self._step()
            assert not self.tasks, "somebody waits for ever"
            for producer in self.producers:
                if producer.written:
                    producer.is_ending = True
                    self._start(self._end(producer, True, False))
        self.shard.settle()
        assert not self.shard.refused_markers
        for place in PLACES:
            assert sorted(self.shard.partitions[place].committed()) == sorted(self.committed[place])


TestSuccession = Succession.TestCase
TestSuccession.settings = settings(max_examples=400, stateful_step_count=40, deadline=None)
