"""Classic groups and offsets under any order of requests, time-outs, late commits, lost appends and crashes.

The model is what clients were told: offsets that were acknowledged, assignments that were handed out. The group may
forget everything else.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.groups.classic_group import ClassicGroup, GroupState
from moldau.coordinators.groups.classic_group import protocol_names as names_of
from moldau.coordinators.machine import ProducerStamp
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from tests.fakes.group_shard import GROUP, GroupShard, outcome

SESSION_MS = 10_000
REBALANCE_MS = 30_000
PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
PRODUCERS = [ProducerStamp(1, 0), ProducerStamp(2, 0)]
#: The time after which nobody can wait any more: a new member is given up after five minutes.
LONGEST_WAIT = 400.0


@dataclass(eq=False)
class Member:
    """A client that does what real ones do: joins again when told to, syncs what it joined."""

    instance: str | None
    member_id: str = ""
    generation: int = -1
    is_leader: bool = False
    has_share: bool = False
    others: list[str] = field(default_factory=list)
    joining: Deferred[Any] | None = None
    syncing: Deferred[Any] | None = None

    @property
    def is_waiting(self) -> bool:
        return self.joining is not None or self.syncing is not None

    def start_anew(self) -> None:
        self.member_id, self.generation, self.is_leader, self.has_share = "", -1, False, False


class ClassicGroups(RuleBasedStateMachine):
    @initialize(delay_ms=st.sampled_from([0, 3000]), max_size=st.sampled_from([2, 100]))
    def begin(self, delay_ms: int, max_size: int) -> None:
        self.shard = GroupShard(group_initial_rebalance_delay_ms=delay_ms, group_max_size=max_size)
        self.members = [Member(None), Member(None), Member("i"), Member("j")]
        self.offsets: dict[TopicPartition, int] = {}
        self.pending: dict[ProducerStamp, dict[TopicPartition, int]] = {}
        self.assigned: dict[int, dict[str, bytes]] = {}
        """By generation: what members were told."""
        self.next_offset = 0
        self.acknowledged_generation = 0
        self.unanswered: list[Deferred[Any]] = []

    # --- members ---

    def who(self, data: st.DataObject, waiting: bool | None = False) -> Member | None:
        found = [member for member in self.members if waiting is None or member.is_waiting == waiting]
        return data.draw(st.sampled_from(found)) if found else None

    @rule(data=st.data(), metadata=st.sampled_from([b"m", b"n"]), protocol=st.sampled_from(["range", "sticky"]))
    def join(self, data: st.DataObject, metadata: bytes, protocol: str) -> None:
        member = self.who(data)
        if member is None:
            return
        self.ask_to_join(member, {protocol: metadata, "range": metadata})

    def ask_to_join(self, member: Member, offered: dict[str, bytes]) -> None:
        member.joining = self.shard.join(
            member.member_id,
            instance=member.instance,
            protocols=offered,
            session_ms=SESSION_MS,
            rebalance_ms=REBALANCE_MS,
        )
        self.unanswered.append(member.joining)
        self.settle()

    @rule(data=st.data())
    def start_again(self, data: st.DataObject) -> None:
        """A client that died and comes back knows nothing; its older self may still wait."""
        member = self.who(data, waiting=None)
        if member is not None:
            self.members.remove(member)
            self.members.append(Member(member.instance))

    @rule(data=st.data())
    def sync(self, data: st.DataObject) -> None:
        member = self.who(data)
        if member is not None and member.generation >= 0:
            self.ask_for_share(member, data.draw(st.booleans()))

    def ask_for_share(self, member: Member, complete: bool) -> None:
        given: dict[str, bytes] = {}
        if member.is_leader:
            given = {each: f"{member.generation}/{number}".encode() for number, each in enumerate(member.others)}
            if len(given) > 1 and not complete:
                given.pop(member.others[-1])
        member.syncing = self.shard.sync(member.member_id, member.generation, given, instance=member.instance)
        self.unanswered.append(member.syncing)
        self.settle()

    @rule(data=st.data())
    def beat(self, data: st.DataObject) -> None:
        member = self.who(data)
        if member is None or not member.member_id or self.shard.log.under_way:
            return
        self.must_join_again(member)

    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        member = self.who(data)
        if member is not None and member.member_id:
            who = member.member_id if member.instance is None else (member.member_id, member.instance)
            self.unanswered.append(self.shard.leave(who))
            member.start_anew()
            self.settle()

    @rule(seconds=st.sampled_from([0.0, 1.0, 5.0, 11.0, 40.0]))
    def pass_time(self, seconds: float) -> None:
        self.shard.log.commit()
        self.shard.pass_time(seconds)
        self.settle()

    @rule(rounds=st.integers(1, 8))
    def work(self, rounds: int) -> None:
        """Everybody does what real clients do: mostly the group is stable after some rounds."""
        for _ in range(rounds):
            for member in [each for each in self.members if not each.is_waiting]:
                self.do_the_next_thing(member)
            self.all_written()
            self.shard.pass_time(1.0)
            self.settle()

    def do_the_next_thing(self, member: Member) -> None:
        if member.generation >= 0 and not member.has_share:
            self.ask_for_share(member, complete=True)
        elif member.generation < 0 or self.must_join_again(member):
            self.ask_to_join(member, {"range": b"m"})

    def must_join_again(self, member: Member) -> bool:
        if self.shard.log.under_way:
            return False
        code = self.shard.heartbeat(member.member_id, member.generation, instance=member.instance)
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            member.start_anew()
        return code is not ErrorCode.NONE

    # --- offsets ---

    @rule(partition=st.sampled_from(PARTITIONS), data=st.data(), producer=st.sampled_from([None, *PRODUCERS]))
    def commit_offset(self, partition: TopicPartition, data: st.DataObject, producer: ProducerStamp | None) -> None:
        self.next_offset += 1
        offset = self.next_offset
        member = self.who(data, waiting=None)
        if member is None or data.draw(st.booleans()):
            answer = self.shard.commit({partition: offset}, producer=producer)
        else:
            answer = self.shard.commit(
                {partition: offset},
                member_id=member.member_id,
                generation=member.generation,
                instance=member.instance,
                producer=producer,
            )
        target = self.offsets if producer is None else self.pending.setdefault(producer, {})

        def told(value: list[ErrorCode] | None, error: KafkaError | None) -> None:
            if value == [ErrorCode.NONE]:
                target[partition] = offset

        answer.when_done(told)
        self.unanswered.append(answer)

    @rule(producer=st.sampled_from(PRODUCERS), is_commit=st.booleans())
    def end_transaction(self, producer: ProducerStamp, is_commit: bool) -> None:
        """A marker is written behind all that was written before it."""
        self.shard.log.commit()
        self.shard.end_transaction(producer, is_commit)
        ended = self.pending.pop(producer, {})
        if is_commit:
            for partition, offset in ended.items():
                # Offsets of the model only grow, in the order of writing.
                self.offsets[partition] = max(offset, self.offsets.get(partition, -1))

    # --- the log ---

    @rule(batches=st.integers(1, 3))
    def written(self, batches: int) -> None:
        self.shard.log.commit(min(batches, self.shard.log.under_way))
        self.settle()

    @rule()
    def all_written(self) -> None:
        self.shard.log.commit()
        self.settle()

    @precondition(lambda self: self.shard.log.under_way)
    @rule()
    def lose(self) -> None:
        self.shard.log.lose()
        self.settle()

    @rule()
    def crash(self) -> None:
        self.shard.crash()
        self.settle()

    @rule()
    def refuse_for_a_while(self) -> None:
        self.shard.log.commit()
        self.settle()
        self.shard.log.refusal = KafkaError(ErrorCode.MESSAGE_TOO_LARGE)
        assert outcome(self.shard.commit({PARTITIONS[0]: 10**9}, group="other")) is ErrorCode.UNKNOWN_SERVER_ERROR
        self.shard.log.refusal = None

    # --- what clients hear ---

    def settle(self) -> None:
        for member in self.members:
            if member.joining is not None and member.joining.is_done:
                self.has_joined(member, outcome(member.joining))
            if member.syncing is not None and member.syncing.is_done:
                self.has_synced(member, outcome(member.syncing))
        self.unanswered = [each for each in self.unanswered if not each.is_done]

    def has_joined(self, member: Member, answer: Any) -> None:
        member.joining = None
        code = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = answer.member_id
        elif code is not ErrorCode.NONE:
            assert code in (
                ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NOT_COORDINATOR,
                ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.GROUP_MAX_SIZE_REACHED,
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
            )  # fmt: skip
            member.generation = -1
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                member.start_anew()
        else:
            member.member_id, member.generation, member.has_share = answer.member_id, answer.generation_id, False
            member.is_leader = answer.leader == answer.member_id and not answer.skip_assignment
            member.others = [each.member_id for each in answer.members]
            assert (answer.member_id in member.others) == bool(member.others)
            assert member.generation >= self.acknowledged_generation

    def has_synced(self, member: Member, answer: Any) -> None:
        member.syncing = None
        code = answer if isinstance(answer, ErrorCode) else ErrorCode(answer.error_code)
        if code is ErrorCode.NONE:
            member.has_share = True
            self.acknowledged_generation = max(self.acknowledged_generation, member.generation)
            shares = self.assigned.setdefault(member.generation, {})
            if not member.is_leader:
                # A static member that starts again keeps its share under another id.
                name = member.instance or member.member_id
                assert shares.setdefault(name, answer.assignment) == answer.assignment
            taken = [share for share in shares.values() if share]
            assert len(taken) == len(set(taken))
        else:
            member.generation = -1
            if code is not ErrorCode.REBALANCE_IN_PROGRESS:
                member.start_anew()

    # --- what always holds ---

    @invariant()
    def acknowledged_offsets_are_there(self) -> None:
        if self.shard.log.under_way:
            return
        found = self.shard.fetch(*PARTITIONS)
        assert {partition: offset for partition, offset in found.items() if offset != -1} == self.offsets
        unstable = {partition for offsets in self.pending.values() for partition in offsets}
        stable = self.shard.fetch(*PARTITIONS, stable=True)
        assert {each for each, code in stable.items() if code is ErrorCode.UNSTABLE_OFFSET_COMMIT} == unstable

    @invariant()
    def the_group_is_of_one_piece(self) -> None:
        group = self.shard.machine.tables.groups.get(GROUP)
        if not isinstance(group, ClassicGroup):
            return
        members = group.members.values()
        waiting = [member for member in members if member.join is not None]
        assert group.joined_count == len(waiting)
        assert group._offered == Counter(name for member in members for name in names_of(member.protocols)) or all(
            count == 0 for count in (group._offered - Counter()).values() if not members
        )
        statics = {member.instance_id: member.member_id for member in members if member.instance_id is not None}
        assert group.static_members == statics
        assert group.pending_syncs <= set(group.members)
        assert group.pending_joins.isdisjoint(group.members)
        assert (group.leader in group.members) if members else group.leader is None
        assert bool(members) == (group.state is not GroupState.EMPTY) or group.state is GroupState.PREPARING_REBALANCE
        if group.state is not GroupState.PREPARING_REBALANCE:
            assert waiting == []
        if group.state is not GroupState.COMPLETING_REBALANCE:
            assert all(member.sync is None for member in members)

    @invariant()
    def what_was_written_tells_the_same(self) -> None:
        """A new coordinator that loads the log sees the settled group as it is."""
        if self.shard.log.under_way:
            return
        group = self.shard.machine.tables.groups.get(GROUP)
        twin = GroupShard()
        twin.log.committed = list(self.shard.log.committed)
        twin.load()
        assert twin.machine.tables.offsets.committed == self.shard.machine.tables.offsets.committed
        is_settled = isinstance(group, ClassicGroup) and group.state in (GroupState.STABLE, GroupState.EMPTY)
        if is_settled and group.generation:
            loaded = twin.machine.tables.groups[GROUP]
            assert isinstance(loaded, ClassicGroup)
            assert durable(loaded) == durable(group)

    def teardown(self) -> None:
        """Left alone, nobody waits for ever and the group ends up empty."""
        if not hasattr(self, "shard"):
            return
        self.shard.log.commit()
        for _ in range(4):
            self.shard.pass_time(LONGEST_WAIT)
        self.settle()
        assert self.unanswered == []
        group = self.shard.machine.tables.groups.get(GROUP)
        assert group is None or group.is_empty


def durable(group: ClassicGroup) -> object:
    members = {
        member.member_id: (member.instance_id, member.assignment, member.metadata_of(group.protocol))
        for member in group.members.values()
    }
    return (group.state, group.generation, group.kind, group.protocol, group.leader, members)


ClassicGroups.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestClassicGroups = ClassicGroups.TestCase
