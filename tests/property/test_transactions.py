"""Producers that begin, write, commit, abort, recover, time out and fence each other, while the coordinator crashes and
its answers and markers come late or never: each transaction is seen whole or not at all, and none stays open.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.coordinators.machine import Write
from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.coordinators.transactions.state import LAST_USABLE_EPOCH
from moldau.storage.errors import DuplicateBatchError
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from tests.fakes.transaction_shard import TransactionShard, begin_at_epoch

IDS = ("a", "a", "b")
#: Some begin where the epochs of a producer id end.
FIRST_EPOCHS = st.sampled_from((0, 0, LAST_USABLE_EPOCH - 3, LAST_USABLE_EPOCH - 1, LAST_USABLE_EPOCH))
MOST_CLIENTS = 4
CHOICES = st.integers(0, MOST_CLIENTS - 1)
#: What happens at once behind a request: mostly what does on a good day.
BEHIND = st.sampled_from(("nothing", "log commits", "log commits", "all is done", "all is done", "all is done"))
TIMEOUT_MS = 1000
#: What a client simply tries again.
PASSING = (
    ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)  # fmt: skip


class Action(NamedTuple):
    what: str
    index: int
    flag: bool
    behind: str


ACTIONS = st.builds(
    Action,
    st.sampled_from(("write", "write", "write", "commit", "commit", "abort", "init")),
    st.integers(0, 1),
    st.booleans(),
    BEHIND,
)


@dataclass(slots=True, eq=False)
class Work:
    """One transaction as its producer sees it."""

    values: list[tuple[TopicPartition, str]] = field(default_factory=list)
    wants_commit: bool | None = None
    """None until the producer has asked for an end."""
    is_known: bool = False
    """The end was acknowledged."""
    has_failed: bool = False
    announced: set[TopicPartition] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class Client:
    transactional_id: str
    version: int
    identity: ProducerIdentity | None = None
    work: Work | None = None
    is_waiting: bool = False
    is_dead: bool = False
    needs_init: bool = False
    life: int = 0
    """Answers to requests of an earlier life of the coordinator never come."""


class Transactions(RuleBasedStateMachine):
    @initialize(level=st.sampled_from((1, 2)), epoch=FIRST_EPOCHS)
    def begin(self, level: int, epoch: int) -> None:
        self.shard = TransactionShard(transaction_version=level)
        for name in sorted(set(IDS)) if epoch else ():
            begin_at_epoch(self.shard, epoch, name)
        self.clients = [Client("a", 0), Client("a", 2)]
        self.works: list[Work] = []
        self.delayed: list[tuple[str, ProducerIdentity, Work, TopicPartition, str, int]] = []
        self.count = 0

    # --- clients ---

    @rule(name=st.sampled_from(IDS), version=st.sampled_from((0, 2)))
    def new_client(self, name: str, version: int) -> None:
        self.clients = [client for client in self.clients if not client.is_dead]
        if len(self.clients) < MOST_CLIENTS:
            self.clients.append(Client(name, version))

    @rule(choice=CHOICES, actions=st.lists(ACTIONS, min_size=1, max_size=4))
    def client_acts(self, choice: int, actions: list[Action]) -> None:
        for action in actions:
            able = [client for client in self.clients if not client.is_waiting and not client.is_dead]
            if not able:
                return
            client = able[choice % len(able)]
            if action.what == "write":
                self._write(client, action.index, action.flag)
            elif action.what == "init":
                self._init(client, action.flag)
            else:
                self._end(client, action.what == "commit")
            self._follow_up(action.behind)

    def _follow_up(self, behind: str) -> None:
        if behind == "log commits":
            self.shard.log.commit()
        elif behind == "all is done":
            self.shard.settle()

    def _ask(self, client: Client, operation: Any, answered: Any) -> None:
        client.is_waiting = True
        life = client.life

        def done(value: Any, error: KafkaError | None) -> None:
            if life != client.life:
                return
            client.is_waiting = False
            if error is None:
                answered(value)
            elif error.code not in PASSING:
                self._failed(client, error.code)

        self.shard.request(operation).when_done(done)

    def _failed(self, client: Client, code: ErrorCode) -> None:
        if code is ErrorCode.TRANSACTION_ABORTABLE and client.work is not None:
            client.work.has_failed = True
        else:
            client.is_dead = True

    def _init(self, client: Client, recovers: bool) -> None:
        """The first request of a client; later ones give up the transaction, as a client does that recovers."""
        expected = client.identity if recovers else None
        spare = self.shard.new_producer_id()
        if client.work is not None and client.work.wants_commit is None:
            client.work.has_failed = True

        def given(identity: ProducerIdentity) -> None:
            client.identity, client.work, client.needs_init = identity, None, False

        self._ask(
            client,
            lambda machine: machine.init_producer_id(client.transactional_id, TIMEOUT_MS, expected, spare),
            given,
        )

    def _write(self, client: Client, index: int, delayed: bool) -> None:
        if client.identity is None or (client.needs_init and client.work is None):
            self._init(client, True)
            return
        if client.work is None:
            client.work = Work()
            self.works.append(client.work)
        work, identity, place = client.work, client.identity, TopicPartition("t", index)
        if work.wants_commit is not None or work.has_failed:
            return
        self.count += 1
        value = f"v{self.count}"
        partition = self.shard.partitions[place]
        remembered = partition.producers.latest(identity.producer_id)

        def added(_: None) -> None:
            work.announced.add(place)
            if partition.producers.has_ongoing_txn(*identity):
                append()
            elif client.version == 2:
                check_and_append()
            else:
                self._ask(
                    client,
                    lambda machine: verified(machine.verify_partitions(client.transactional_id, identity, [place])),
                    lambda _: check_and_append(),
                )

        if delayed and client.version < 2 and place in work.announced:
            sequence = partition.next_sequence(identity)
            self.delayed.append((client.transactional_id, identity, work, place, value, sequence))
            # Its producer gives it up, aborts, and begins anew: nobody knows what became of the sequence.
            work.has_failed = client.needs_init = True
            return

        def check_and_append() -> None:
            if partition.producers.may_have_ended_since(remembered, *identity, ends_raise_epoch=client.version == 2):
                work.has_failed = True
            else:
                append()

        def append() -> None:
            try:
                partition.write(identity, value)
            except KafkaError:
                work.has_failed = True
            else:
                work.values.append((place, value))

        if client.version < 2 and place in work.announced:
            # Older clients announce a partition once, and may be late with what follows.
            added(None)
            return
        self._ask(
            client,
            lambda machine: machine.add_partitions(client.transactional_id, identity, [place], client.version),
            added,
        )

    @precondition(lambda self: self.delayed)
    @rule()
    def delayed_write_arrives(self) -> None:
        """Long after its producer has given it up, perhaps behind the end of the transaction."""
        name, identity, work, place, value, sequence = self.delayed.pop(0)
        partition = self.shard.partitions[place]

        def append(_: None, error: KafkaError | None) -> None:
            if error is not None:
                return
            try:
                partition.write(identity, value, sequence)
            except (KafkaError, DuplicateBatchError):
                return
            work.values.append((place, value))

        if partition.producers.has_ongoing_txn(*identity):
            append(None, None)
        else:
            self.shard.request(lambda machine: verified(machine.verify_partitions(name, identity, [place]))).when_done(
                append
            )

    def _end(self, client: Client, commit: bool) -> None:
        """Asked again until there is an answer, always for the same."""
        if client.identity is None or client.work is None:
            return
        work, identity = client.work, client.identity
        if work.wants_commit is None:
            work.wants_commit = commit and not work.has_failed
        wants_commit = work.wants_commit
        spare = self.shard.new_producer_id()

        def ended(following: ProducerIdentity) -> None:
            work.is_known = True
            client.work = None
            if client.version == 2:
                client.identity = following

        self._ask(
            client,
            lambda machine: machine.end(client.transactional_id, identity, wants_commit, client.version, spare),
            ended,
        )

    # --- what happens around them ---

    @precondition(lambda self: self.shard.log.under_way)
    @rule(count=st.integers(1, 3))
    def log_commits(self, count: int) -> None:
        self.shard.log.commit(min(count, self.shard.log.under_way))

    @precondition(lambda self: self.shard.markers)
    @rule(choice=st.integers(0, 20))
    def marker_arrives(self, choice: int) -> None:
        self.shard.deliver(choice % len(self.shard.markers))

    @rule(milliseconds=st.sampled_from((100, TIMEOUT_MS + 1)))
    def time_passes(self, milliseconds: int) -> None:
        self.shard.wall_ms += milliseconds
        self.shard.abort_overdue()

    @rule()
    def crash(self) -> None:
        for client in self.clients:
            client.life += 1
            client.is_waiting = False
        self.shard.crash()

    @rule()
    def append_is_lost(self) -> None:
        """Whoever waits is told, and the state is loaded anew."""
        self.shard.log.lose()

    # --- what must hold ---

    @invariant()
    def nothing_is_seen_before_its_commit(self) -> None:
        if not hasattr(self, "shard"):
            return
        visible = self._visible()
        for work in self.works:
            if work.wants_commit is not True:
                assert not visible.intersection(work.values)

    def _visible(self) -> set[tuple[TopicPartition, str]]:
        return {(place, value) for place, one in self.shard.partitions.items() for value in one.committed()}

    def teardown(self) -> None:
        if not hasattr(self, "shard"):
            return
        for _ in range(3):
            self.shard.settle()
            self.shard.wall_ms += TIMEOUT_MS + 1
            self.shard.abort_overdue()
        self.shard.settle()
        for partition in self.shard.partitions.values():
            assert partition.producers.first_undecided_offset() is None, "a transaction stays open"
        assert all(one.status.is_at_rest for one in self.shard.machine.transactions.values())
        assert all(
            client.identity is None or client.identity.producer_epoch <= LAST_USABLE_EPOCH for client in self.clients
        )
        assert not self.shard.refused_markers
        visible = self._visible()
        for work in self.works:
            seen = visible.intersection(work.values)
            if work.is_known and work.wants_commit:
                assert len(seen) == len(work.values), "a committed transaction is not seen whole"
            elif work.wants_commit:
                assert len(seen) in (0, len(work.values)), "a transaction is seen in part"
            else:
                assert not seen, "an aborted transaction is seen"


def verified(codes: dict[TopicPartition, ErrorCode]) -> Write[None]:
    (code,) = codes.values()
    return Write(None if code is ErrorCode.NONE else KafkaError(code))


TestTransactions = Transactions.TestCase
TestTransactions.settings = settings(max_examples=400, stateful_step_count=50, deadline=None)
