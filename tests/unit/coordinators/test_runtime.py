"""The runtime under the coordinators, over a log whose commit is delayed, overtaken, refused and lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.machine import (
    NOT_IN_THE_LOG_YET,
    ProducerStamp,
    RecordContext,
    Reply,
    StateRecord,
    Timers,
    Write,
)
from moldau.coordinators.runtime import CoordinatorRuntime, Shard
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.records import build_keyed_batch
from tests.fakes.shard_log import FakeShardLog
from tests.fakes.timers import RecordingTimers


class Counter:
    """A machine that counts the records it has seen; one record per step."""

    def __init__(self, partition: int, timers: Timers) -> None:
        self.partition = partition
        self.timers = timers
        self.count = 0
        self.seen: list[RecordContext] = []
        self.ends: list[tuple[ProducerStamp, bool]] = []
        self.loaded_at: float | None = None
        self.waiting: list[Deferred[int]] = []

    def replay(self, record: StateRecord, context: RecordContext) -> None:
        if record.key == b"bad":
            raise ValueError("a record that cannot be applied")
        self.count += 1
        self.seen.append(context)

    def replay_plain(self, key: bytes, value: bytes | None) -> bool:
        return False

    def replay_end_of_transaction(self, producer: ProducerStamp, committed: bool) -> None:
        self.ends.append((producer, committed))

    def loaded(self, now: float) -> None:
        self.loaded_at = now

    def unloaded(self) -> None:
        for deferred in self.waiting:
            deferred.fail(KafkaError(ErrorCode.NOT_COORDINATOR))

    def take_one(self) -> None:
        self.count += 1

    # --- operations ---

    def step(self, now: float) -> Write[int]:
        return Write(self.count + 1, [StateRecord(b"step", b"")])

    def step_for_all(self, now: float) -> Write[int]:
        replies = [Reply(deferred, self.count + 1) for deferred in self.waiting]
        self.waiting = []
        return Write(self.count + 1, [StateRecord(b"step", b"")], replies)

    def wait(self, now: float) -> Write[int]:
        deferred: Deferred[int] = Deferred()
        self.waiting.append(deferred)
        return Write(deferred)


class Setting:
    def __init__(self) -> None:
        self.now = 100.0
        self.timers = RecordingTimers()
        self.lost: list[int] = []
        self.log = FakeShardLog()
        self.runtime: CoordinatorRuntime[Counter] = CoordinatorRuntime(
            Counter, self.timers, lambda: self.now, self.lost.append
        )
        self.shard = self.begin()

    def begin(self, epoch: int = 1) -> Shard[Counter]:
        shard = self.runtime.begin(0, epoch, self.log)
        self.runtime.loaded(shard)
        return shard

    def step(self) -> Deferred[int]:
        return self.runtime.write(0, Counter.step)

    def packed(self, effect: Callable[[], None] | None = None) -> Deferred[int]:
        told: Deferred[int] = Deferred()
        batch = bytearray(build_keyed_batch([b"step"], [b""], 1))
        self.runtime.write_packed(0, lambda machine, now: effect or machine.take_one, batch, 1, told)
        return told

    def fire(self) -> None:
        for operation in self.timers.due(self.now):
            operation(self.now)


def outcome(deferred: Deferred[int]) -> int | ErrorCode | None:
    """The value, the code of the error, or None as long as it is open."""
    found: list[int | ErrorCode | None] = []
    if deferred.is_done:
        deferred.when_done(lambda value, error: found.append(value if error is None else error.code))
    return found[0] if found else None


@pytest.fixture
def setting() -> Setting:
    return Setting()


def refusal_of(call: Callable[[], object]) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        call()
    return caught.value.code


# --- writes and reads ---


def test_the_state_changes_at_once_and_the_answer_waits_for_the_commit(setting: Setting) -> None:
    answer = setting.step()
    assert setting.shard.machine.count == 1
    assert outcome(answer) is None
    setting.log.commit()
    assert outcome(answer) == 1


def test_records_that_are_not_in_the_log_yet_are_replayed_as_such(setting: Setting) -> None:
    setting.step()
    assert setting.shard.machine.seen == [RecordContext(NOT_IN_THE_LOG_YET, NOT_IN_THE_LOG_YET, None)]


def test_a_write_without_records_is_answered_at_once(setting: Setting) -> None:
    assert outcome(setting.runtime.write(0, lambda machine, now: Write(7))) == 7


def test_a_read_waits_for_the_writes_it_has_seen(setting: Setting) -> None:
    first, second = setting.step(), setting.step()
    read = setting.runtime.read(0, lambda machine, now: machine.count)
    late = setting.step()
    setting.log.commit(1)
    assert (outcome(first), outcome(second), outcome(read), outcome(late)) == (1, None, None, None)
    setting.log.commit(1)
    assert (outcome(second), outcome(read), outcome(late)) == (2, 2, None)
    setting.log.commit(1)
    assert outcome(late) == 3
    assert outcome(setting.runtime.read(0, lambda machine, now: machine.count)) == 3


def test_later_requests_overtake_the_commit_and_see_the_new_state(setting: Setting) -> None:
    answers = [setting.step() for _ in range(3)]
    assert setting.shard.machine.count == 3
    setting.log.commit()
    assert [outcome(answer) for answer in answers] == [1, 2, 3]


def test_requests_that_wait_are_answered_with_the_write_that_decides_about_them(setting: Setting) -> None:
    waiting = setting.runtime.write(0, Counter.wait)
    deciding = setting.runtime.write(0, Counter.step_for_all)
    assert outcome(waiting) is None
    setting.log.commit()
    assert (outcome(waiting), outcome(deciding)) == (1, 1)


def test_an_error_can_be_the_answer_to_a_write(setting: Setting) -> None:
    refusal = KafkaError(ErrorCode.CONCURRENT_TRANSACTIONS)
    answer: Deferred[int] = setting.runtime.write(0, lambda machine, now: Write(refusal, machine.step(now).records))
    assert outcome(answer) is None
    setting.log.commit()
    assert outcome(answer) is ErrorCode.CONCURRENT_TRANSACTIONS


def test_what_follows_a_write_follows_its_answer(setting: Setting) -> None:
    order: list[str] = []
    answer = setting.runtime.write(
        0, lambda machine, now: Write(1, machine.step(now).records, then=lambda: order.append("then"))
    )
    answer.when_done(lambda value, error: order.append("answer"))
    setting.log.commit()
    assert order == ["answer", "then"]


def test_an_operation_that_raises_changes_nothing(setting: Setting) -> None:
    def refuse(machine: Counter, now: float) -> Write[int]:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)

    assert refusal_of(lambda: setting.runtime.write(0, refuse)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert outcome(setting.runtime.read(0, lambda machine, now: machine.count)) == 0


def test_a_transactional_write_tells_its_producer(setting: Setting) -> None:
    producer = ProducerStamp(7, 1)
    setting.runtime.write(0, lambda machine, now: Write(0, machine.step(now).records, producer=producer))
    setting.log.commit()
    assert setting.shard.machine.seen[0].producer == producer
    assert [entry.producer for entry in setting.log.committed] == [producer]


# --- what the log does not take, and what it loses ---


@pytest.mark.parametrize(
    ("refused_with", "told"),
    [
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_a_refused_append_fails_the_request_and_leaves_the_state(
    setting: Setting, refused_with: ErrorCode, told: ErrorCode
) -> None:
    before = setting.step()
    setting.log.refusal = KafkaError(refused_with)
    assert outcome(setting.step()) is told
    assert setting.shard.machine.count == 1
    setting.log.refusal = None
    after = setting.step()
    setting.log.commit()
    assert (outcome(before), outcome(after)) == (1, 2)
    assert setting.lost == []


def test_a_lost_append_throws_the_state_away(setting: Setting) -> None:
    waiting = setting.runtime.write(0, Counter.wait)
    committed = setting.step()
    setting.log.commit()
    lost, behind = setting.step(), setting.step()
    read = setting.runtime.read(0, lambda machine, now: machine.count)
    setting.log.lose()
    assert outcome(committed) == 1
    codes = [outcome(each) for each in (lost, behind, read, waiting)]
    assert codes == [ErrorCode.NOT_COORDINATOR] * 4
    assert setting.lost == [0]
    assert refusal_of(setting.step) is ErrorCode.NOT_COORDINATOR


def test_what_an_older_life_had_under_way_does_not_touch_the_new_one(setting: Setting) -> None:
    old_answer = setting.step()
    old_machine = setting.shard.machine
    setting.begin(epoch=2)
    assert outcome(old_answer) is ErrorCode.NOT_COORDINATOR
    new_answer = setting.step()
    setting.log.commit(1)
    assert outcome(new_answer) is None
    setting.log.commit(1)
    assert outcome(new_answer) == 1
    assert old_machine.count == 1


def test_a_late_loss_of_an_older_life_is_not_heard(setting: Setting) -> None:
    setting.step()
    setting.begin(epoch=2)
    setting.log.lose()
    assert setting.lost == []
    assert outcome(setting.runtime.read(0, lambda machine, now: machine.count)) == 0


def test_a_record_that_cannot_be_applied_throws_the_state_away(setting: Setting) -> None:
    with pytest.raises(ValueError, match="cannot be applied"):
        setting.runtime.write(0, lambda machine, now: Write(1, [StateRecord(b"bad", b"")]))
    assert setting.lost == [0]
    setting.log.commit()
    assert refusal_of(setting.step) is ErrorCode.NOT_COORDINATOR


# --- records that stand in a batch already ---


def test_a_packed_write_changes_the_state_at_once_and_waits_for_the_commit(setting: Setting) -> None:
    before, told = setting.step(), setting.packed()
    read = setting.runtime.read(0, lambda machine, now: machine.count)
    assert setting.shard.machine.count == 2
    setting.log.commit(1)
    assert (outcome(before), told.is_done, outcome(read)) == (1, False, None)
    setting.log.commit()
    assert (told.outcome, outcome(read)) == ((None, None), 2)


def test_a_refused_packed_write_leaves_the_state(setting: Setting) -> None:
    setting.log.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    assert outcome(setting.packed()) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (setting.shard.machine.count, setting.lost) == (0, [])


def test_a_lost_packed_write_throws_the_state_away(setting: Setting) -> None:
    told, behind = setting.packed(), setting.step()
    setting.log.lose()
    assert (outcome(told), outcome(behind)) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)
    assert setting.lost == [0]
    assert refusal_of(setting.packed) is ErrorCode.NOT_COORDINATOR


def test_a_packed_write_that_cannot_be_applied_throws_the_state_away(setting: Setting) -> None:
    def broken() -> None:
        raise ValueError("half of it is done")

    with pytest.raises(ValueError, match="half of it"):
        setting.packed(broken)
    assert setting.lost == [0]
    setting.log.commit()
    assert refusal_of(setting.step) is ErrorCode.NOT_COORDINATOR


# --- lives ---


def test_requests_are_told_to_wait_while_a_shard_loads(setting: Setting) -> None:
    shard = setting.runtime.begin(3, 1, setting.log)
    assert refusal_of(lambda: setting.runtime.write(3, Counter.step)) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert setting.runtime.is_loading()
    assert [each.partition for each in setting.runtime.shards()] == [0]
    assert [each.partition for each in setting.runtime.loading_shards()] == [3]
    setting.runtime.replay(shard, [(StateRecord(b"step", b""), RecordContext(0, 0, None))] * 2)
    setting.runtime.loaded(shard)
    assert shard.machine.loaded_at == setting.now
    assert outcome(setting.runtime.read(3, lambda machine, now: machine.count)) == 2
    assert not setting.runtime.is_loading()


def test_a_shard_that_is_over_does_not_become_loaded(setting: Setting) -> None:
    shard = setting.runtime.begin(3, 1, setting.log)
    setting.runtime.end(3)
    setting.runtime.loaded(shard)
    assert refusal_of(lambda: setting.runtime.write(3, Counter.step)) is ErrorCode.NOT_COORDINATOR
    assert shard.machine.loaded_at is None


def test_partitions_of_others_are_refused(setting: Setting) -> None:
    assert refusal_of(lambda: setting.runtime.write(5, Counter.step)) is ErrorCode.NOT_COORDINATOR
    setting.runtime.end(5)


def test_whoever_waits_hears_that_the_coordinator_moved(setting: Setting) -> None:
    waiting, under_way = setting.runtime.write(0, Counter.wait), setting.step()
    setting.runtime.end(0)
    assert (outcome(waiting), outcome(under_way)) == (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_COORDINATOR)


def test_ends_of_transactions_reach_loaded_shards_only(setting: Setting) -> None:
    producer = ProducerStamp(7, 1)
    loading = setting.runtime.begin(3, 1, setting.log)
    for partition in (0, 3, 9):
        setting.runtime.end_transaction(partition, producer, True)
    assert setting.shard.machine.ends == [(producer, True)]
    assert loading.machine.ends == []


# --- timers ---


def test_a_timer_writes_like_a_request(setting: Setting) -> None:
    waiting = setting.runtime.write(0, Counter.wait)
    setting.shard.timers.set("alarm", 110.0, lambda now: narrowed(setting.shard.machine.step_for_all(now)))
    setting.now = 109.0
    setting.fire()
    assert setting.log.under_way == 0
    setting.now = 110.0
    setting.fire()
    assert outcome(waiting) is None
    setting.log.commit()
    assert outcome(waiting) == 1
    setting.fire()
    assert setting.log.under_way == 0


def test_a_timer_that_is_set_again_moves(setting: Setting) -> None:
    for deadline in (110.0, 120.0):
        setting.shard.timers.set("alarm", deadline, lambda now: narrowed(setting.shard.machine.step(now)))
    setting.now = 115.0
    setting.fire()
    assert setting.shard.machine.count == 0
    setting.now = 120.0
    setting.fire()
    assert setting.shard.machine.count == 1


def test_timers_end_with_their_shard(setting: Setting) -> None:
    setting.shard.timers.set("alarm", 110.0, lambda now: narrowed(setting.shard.machine.step(now)))
    setting.begin(epoch=2)
    setting.now = 200.0
    setting.fire()
    assert setting.log.under_way == 0


def test_timers_of_two_shards_may_have_one_name(setting: Setting) -> None:
    other = setting.runtime.begin(1, 1, setting.log)
    setting.runtime.loaded(other)
    for shard in (setting.shard, other):
        shard.timers.set("alarm", 110.0, lambda now, shard=shard: narrowed(shard.machine.step(now)))
    other.timers.cancel("alarm")
    setting.now = 110.0
    setting.fire()
    assert (setting.shard.machine.count, other.machine.count) == (1, 0)


def test_a_timer_whose_records_are_refused_is_armed_again_by_loading(setting: Setting) -> None:
    setting.shard.timers.set("alarm", 110.0, lambda now: narrowed(setting.shard.machine.step(now)))
    setting.log.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    setting.now = 110.0
    setting.fire()
    assert setting.lost == [0]


def narrowed(write: Write[int]) -> Write[None]:
    return Write(None, write.records, write.replies)
