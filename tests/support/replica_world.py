"""Three replicas of a partition, a controller and a network that loses, delays and reorders, all from one seed.

The replicas run the product's own rules: `Partition`, `Leadership`, `FetchPlan`, and `read_partition` for the leader's
answers. The controller elects members of the in-sync set whenever the seed says so, and takes a leader's proposals if
they fit its state. Every replica learns of the controller's states late, in order. After each step the promises are
checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from moldau.metadata.image import PartitionImage
from moldau.replication.fetch_sessions import FetchTarget
from moldau.replication.follower import Cut, FetchPlan, FetchSettings, Followed, Take
from moldau.replication.leader import IsrChange, Neighbours
from moldau.replication.partition import Partition
from moldau.server import fetching
from moldau.server.fetching import FetchLimits
from moldau.storage.errors import RefusedBatchError
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from tests.fakes.model_log import ModelLog

TOPIC_ID = UUID(int=9)
PLACE = TopicPartition("t", 0)
KEY = (TOPIC_ID, 0)
REPLICAS = (1, 2, 3)
MAX_LAG_MS = 300
MIN_IN_SYNC = 2
BATCH = 2


class BrokenPromiseError(AssertionError):
    pass


class AckWait:
    """A produce with acks=all."""

    def __init__(self, world: World, offset: int, entry: tuple[int, int]) -> None:
        self._world, self._offset, self._entry = world, offset, entry

    def reached(self) -> None:
        self._world.acknowledged[self._offset] = self._entry

    def ended(self, code: ErrorCode) -> None: ...

    def starved(self) -> bool:
        return True


@dataclass(slots=True, eq=False)
class Message:
    deliver: Callable[[], None]
    ready_at: int


class Replica:
    def __init__(self, world: World, broker_id: int) -> None:
        self.world, self.id = world, broker_id
        self.log = ModelLog(MIN_IN_SYNC)
        neighbours = Neighbours(lambda: world.now_ms, lambda one: 100 + one, lambda _: True, lambda: MAX_LAG_MS)
        self.partition = Partition(PLACE, TOPIC_ID, broker_id, neighbours)
        self.partition.log = cast(Any, self.log)
        self.broker: Any = SimpleNamespace(propose_isr=self._propose, replica_selector=None)
        self.settings = FetchSettings(broker_id, lambda: 100 + broker_id)
        #: One for each other broker, as a broker has that follows many partitions.
        self.plans = {other: FetchPlan(self.settings) for other in REPLICAS if other != broker_id}
        self.asking: set[int] = set()
        self.under_way: dict[int, FetchRequest] = {}
        self.images: list[PartitionImage] = []
        self.last_mark = 0

    # --- following the image ---

    def apply_image(self) -> None:
        term, old = self.images.pop(0), self.partition
        is_new = (term.leader, term.leader_epoch) != (old.leader, old.leader_epoch)
        if term.leader == self.id:
            self.partition.lead(term)
        else:
            self.partition.follow(term)
        for leader, plan in self.plans.items():
            if leader != term.leader:
                plan.forget(KEY)
            elif is_new:
                plan.follow(self.partition)

    def _propose(self, _partition: Partition, change: IsrChange) -> None:
        self.world.send(lambda: self.world.take_proposal(self, change))

    # --- as leader ---

    def produce(self) -> None:
        partition = self.partition
        if not partition.leads or not partition.has_enough_in_sync(MIN_IN_SYNC):
            return
        entry = (partition.leader_epoch, self.world.next_value())
        offset = self.log.append(*entry)
        partition.advance(self.log.log_end_offset)
        wait = AckWait(self.world, offset, entry)
        if partition.high_watermark > offset:
            wait.reached()
        else:
            partition.produce_waits.add(offset + 1, wait)

    def look_at_followers(self) -> None:
        change = self.partition.look_at_followers()
        if change is not None:
            self._propose(self.partition, change)
        elif self.partition.leadership is not None and self.partition.leadership.pending is not None:
            self.partition.isr_unanswered(self.partition.leadership.pending)
            self._propose(self.partition, self.partition.leadership.pending)

    def serve(self, request: FetchRequest) -> FetchResponse:
        assert request.replica_state is not None
        sender = request.replica_state
        limits = FetchLimits(sender.replica_id, False, 0, 1, BATCH, sender.replica_epoch, tells_progress=True)
        (topic,) = request.topics
        (wanted,) = topic.partitions
        target = FetchTarget(
            (TOPIC_ID, 0),
            wanted.fetch_offset,
            BATCH,
            wanted.current_leader_epoch,
            wanted.last_fetched_epoch,
            wanted.log_start_offset,
        )
        try:
            fetched = fetching.read_partition(self.broker, self.partition, target, limits, BATCH, True)
        except KafkaError as error:
            data = PartitionData(partition_index=0, error_code=error.code)
        else:
            records: Any = b""
            if fetched.records is not None:
                records = (fetched.records.position, cast(Any, fetched.records.file).entries)
            diverging = None
            if fetched.diverging is not None:
                diverging = EpochEndOffset(epoch=fetched.diverging[0], end_offset=fetched.diverging[1])
            data = PartitionData(
                partition_index=0,
                high_watermark=fetched.high_watermark,
                log_start_offset=fetched.log_start_offset,
                diverging_epoch=diverging,
                records=records,
            )
        return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])])

    # --- as follower ---

    def fetch(self) -> None:
        leader = self.partition.leader
        if leader not in self.plans or leader in self.asking:
            return
        plan = self.plans[leader]
        request = plan.next_request(self.world.now_ms)
        if request is None or not request.topics:
            return
        self.asking.add(leader)

        def serve() -> None:
            answer = self.world.replicas[leader].serve(request)
            self.world.send(lambda: self.take(leader, request, answer))

        self.under_way[leader] = request
        self.world.send(serve)

    def give_up(self) -> None:
        """Connections are lost, and the answers on them."""
        self.asking.clear()
        for plan in self.plans.values():
            plan.lost()

    def take(self, leader: int, request: FetchRequest, answer: FetchResponse) -> None:
        if leader not in self.asking or self.under_way[leader] is not request:
            return
        self.asking.discard(leader)
        plan = self.plans[leader]
        for followed, action in plan.answered(answer, self.world.now_ms):
            if isinstance(action, Take):
                self._append(plan, followed, action)
            elif isinstance(action, Cut):
                self._cut(plan, followed, action.offset)

    def _append(self, plan: FetchPlan, followed: Followed, action: Take) -> None:
        try:
            if action.records:
                self.log.append_as_follower(action.records, followed.leader_epoch)
        except RefusedBatchError:
            plan.delay(followed, self.world.now_ms)
        else:
            self.partition.learn(action.high_watermark, action.log_start_offset)

    def _cut(self, plan: FetchPlan, followed: Followed, offset: int) -> None:
        self.log.truncate_to(offset)
        self.partition.log_truncated()
        plan.resume(followed)


class World:
    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now_ms = 0.0
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self._value = self._steps = 0
        self._messages: list[Message] = []
        self.replicas = {broker_id: Replica(self, broker_id) for broker_id in REPLICAS}
        self.state = PartitionImage(replicas=REPLICAS, isr=REPLICAS, leader=1, leader_epoch=0, partition_epoch=0)
        self._publish()

    def next_value(self) -> int:
        self._value += 1
        return self._value

    def send(self, deliver: Callable[[], None]) -> None:
        delay = self.random.choice((0, 0, 0, 0, 0, 0, 0, 0, 5, 80))
        self._messages.append(Message(deliver, self._steps + delay))

    # --- controller ---

    def _publish(self) -> None:
        for one in self.replicas.values():
            one.images.append(self.state)

    def elect(self) -> None:
        """Any member of the in-sync set, the leader itself included; sometimes the old leader leaves the set."""
        isr = self.state.isr
        leader = self.random.choice(isr)
        if leader != self.state.leader and len(isr) > 1 and self.random.random() < 0.3:
            isr = tuple(one for one in isr if one != self.state.leader)
        self.state = replace(
            self.state,
            leader=leader,
            isr=isr,
            leader_epoch=self.state.leader_epoch + 1,
            partition_epoch=self.state.partition_epoch + 1,
        )
        self._publish()

    def take_proposal(self, sender: Replica, change: IsrChange) -> None:
        state = self.state
        if change.leader_epoch != state.leader_epoch or sender.id != state.leader:
            code = ErrorCode.FENCED_LEADER_EPOCH
        elif change.partition_epoch != state.partition_epoch:
            code = ErrorCode.INVALID_UPDATE_VERSION
        elif self.random.random() < 0.15:
            code = ErrorCode.INELIGIBLE_REPLICA
        else:
            code = ErrorCode.NONE
            self.state = replace(state, isr=change.isr, partition_epoch=state.partition_epoch + 1)
            self._publish()
        self.send(lambda: cast(Any, sender.partition.isr_answered(change, code)))

    # --- life ---

    def step(self) -> None:
        self._steps += 1
        one = self.replicas[self.random.choice(REPLICAS)]
        action = self.random.random()
        if action < 0.12:
            one.produce()
        elif action < 0.36:
            one.fetch()
        elif action < 0.82:
            self._deliver()
        elif action < 0.93:
            if one.images:
                one.apply_image()
        elif action < 0.94:
            if self._messages:
                self._messages.pop(self.random.randrange(len(self._messages)))
        elif action < 0.96:
            one.give_up()
        elif action < 0.98:
            self.now_ms += self.random.choice((10, 50, 400))
            for each in self.replicas.values():
                each.look_at_followers()
        elif action < 0.987:
            self.elect()
        self.check()

    def _deliver(self) -> None:
        """One of those that are not held up on their way."""
        ready = [message for message in self._messages if message.ready_at <= self._steps]
        if ready:
            message = self.random.choice(ready)
            self._messages.remove(message)
            message.deliver()

    def heal(self) -> None:
        """No more loss, no more elections: everybody catches up."""
        for _ in range(60):
            self.now_ms += 20
            for one in self.replicas.values():
                while one.images:
                    one.apply_image()
                one.look_at_followers()
                one.give_up()
                one.fetch()
            while self._messages:
                self._messages.pop(0).deliver()
            self.check()
        entries = [one.log.entries for one in self.replicas.values()]
        self._promise(entries[0] == entries[1] == entries[2], f"logs differ after healing: {entries}")
        self._promise(len(self.state.isr) == len(REPLICAS), f"in-sync set {self.state.isr} after healing")
        leader = self.replicas[self.state.leader].partition
        self._promise(leader.high_watermark == leader.counted_end, "the mark has not come to the end")
        self._promise(not any(one.partition.produce_waits for one in self.replicas.values()), "somebody still waits")

    # --- promises ---

    def check(self) -> None:
        isr = [self.replicas[member] for member in self.state.isr]
        for member in isr:
            for offset, entry in self.acknowledged.items():
                self._promise(
                    offset < member.log.log_end_offset and member.log.entries[offset] == entry,
                    f"acknowledged record {entry} at {offset} is missing in {member.id}, in sync: {self.state}",
                )
        for one in self.replicas.values():
            mark = one.partition.high_watermark
            self._promise(mark >= one.last_mark, f"the mark of {one.id} fell from {one.last_mark} to {mark}")
            one.last_mark = mark
            if one.partition.leads:
                safe = one.log.entries[:mark]
                for member in isr:
                    self._promise(
                        member.log.entries[:mark] == safe,
                        f"below the mark {mark} of {one.id}, {member.id} holds something else",
                    )
        self._check_prefixes()

    def _check_prefixes(self) -> None:
        """The same epoch at the same offset means the same history."""
        logs = [one.log.entries for one in self.replicas.values()]
        for index, first in enumerate(logs):
            for second in logs[index + 1 :]:
                for offset in range(min(len(first), len(second)) - 1, -1, -1):
                    if first[offset][0] == second[offset][0]:
                        self._promise(first[: offset + 1] == second[: offset + 1], f"two histories: {first} {second}")
                        break

    def _promise(self, is_kept: bool, what: str) -> None:
        if not is_kept:
            raise BrokenPromiseError(what)


def run(seed: int, steps: int = 400) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step()
    world.heal()
    return world
