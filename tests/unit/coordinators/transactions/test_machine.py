"""The transaction coordinator's rules, over a log that commits at once."""

from __future__ import annotations

import pytest

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.coordinators.transactions.state import LAST_USABLE_EPOCH, TransactionStatus
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from tests.fakes.transaction_shard import TransactionShard, begin_at_epoch

Status = TransactionStatus


def refused(code: ErrorCode) -> pytest.RaisesExc[KafkaError]:
    return pytest.RaisesExc(KafkaError, check=lambda error: error.code is code)


@pytest.fixture
def shard() -> TransactionShard:
    return TransactionShard()


def test_each_init_takes_the_next_epoch(shard: TransactionShard) -> None:
    first, second, other = shard.init(), shard.init(), shard.init("other")
    assert second == (first.producer_id, 1)
    assert other.producer_id != first.producer_id and other.producer_epoch == 0


@pytest.mark.parametrize("timeout_ms", [0, -1, 60_001])
def test_timeouts_that_are_refused(shard: TransactionShard, timeout_ms: int) -> None:
    with refused(ErrorCode.INVALID_TRANSACTION_TIMEOUT):
        shard.init(timeout_ms=timeout_ms)


def test_owner_that_recovers_may_ask_twice(shard: TransactionShard) -> None:
    first = shard.init()
    second = shard.init(expected=first)
    assert second == (first.producer_id, 1) and shard.init(expected=first) == second
    assert shard.init(expected=second).producer_epoch == 2
    with refused(ErrorCode.PRODUCER_FENCED):
        shard.init(expected=first)


def test_owner_is_fenced_once_somebody_else_came(shard: TransactionShard) -> None:
    first = shard.init()
    shard.init()
    with refused(ErrorCode.PRODUCER_FENCED):
        shard.init(expected=first)


def test_after_a_crash_only_the_present_epoch_is_known(shard: TransactionShard) -> None:
    first = shard.init()
    second = shard.init(expected=first)
    shard.crash()
    with refused(ErrorCode.PRODUCER_FENCED):
        shard.init(expected=first)
    assert shard.init(expected=second).producer_epoch == 2


@pytest.mark.parametrize("version", [0, 2])
def test_transaction_from_begin_to_end(shard: TransactionShard, version: int) -> None:
    producer = shard.init()
    shard.add(producer, 0, 1, version=version)
    assert shard.transaction("id").status is Status.ONGOING
    following = shard.end(producer, True, version)
    assert shard.transaction("id").status is Status.PREPARE_COMMIT
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.add(following, 0, version=version)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.init()
    shard.settle()
    assert shard.transaction("id").status is Status.COMPLETE_COMMIT
    assert following.producer_epoch == (1 if version == 2 else 0)
    shard.add(following, 0, version=version)


@pytest.mark.parametrize("commit", [True, False])
def test_end_that_is_sent_again(shard: TransactionShard, commit: bool) -> None:
    producer = shard.init()
    shard.add(producer, 0)
    following = shard.end(producer, commit)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.end(producer, commit)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.end(producer, not commit)
    shard.settle()
    assert shard.end(producer, commit) == following
    with refused(ErrorCode.INVALID_TXN_STATE):
        shard.end(producer, not commit)


def test_abort_of_nothing_takes_an_epoch(shard: TransactionShard) -> None:
    producer = shard.init()
    following = shard.end(producer, False)
    assert following.producer_epoch == 1
    shard.settle()
    with refused(ErrorCode.INVALID_TXN_STATE):
        shard.end(following, True)


@pytest.mark.parametrize("commit", [True, False])
def test_prepared_transaction_is_finished_after_a_crash(shard: TransactionShard, commit: bool) -> None:
    producer = shard.init()
    shard.add(producer, 0, 1)
    for place in shard.partitions.values():
        place.write(producer, "x")
    shard.end(producer, commit)
    shard.deliver()  # one of two markers
    shard.crash()
    shard.settle()
    assert shard.transaction("id").status is (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT)
    assert [place.committed() for place in shard.partitions.values()] == ([["x"], ["x"]] if commit else [[], []])


def test_decision_that_was_not_written_is_none(shard: TransactionShard) -> None:
    producer = shard.init()
    shard.add(producer, 0)
    shard.request(lambda machine: machine.end("id", producer, True, 2, 99))
    shard.crash()
    assert shard.transaction("id").status is Status.ONGOING and not shard.markers
    assert shard.end(producer, False).producer_epoch == 1


@pytest.mark.parametrize("level", [0, 1, 2])
def test_overdue_transaction_is_aborted_and_its_producer_fenced(level: int) -> None:
    shard = TransactionShard(transaction_version=level)
    producer = shard.init(timeout_ms=500)
    shard.add(producer, 0, version=0)
    shard.wall_ms += 500
    shard.abort_overdue()
    assert shard.transaction("id").status is Status.ONGOING
    shard.wall_ms += 1
    shard.abort_overdue()
    shard.settle()
    assert shard.transaction("id").status is Status.COMPLETE_ABORT
    with refused(ErrorCode.PRODUCER_FENCED):
        shard.end(producer, True, version=0)
    with refused(ErrorCode.PRODUCER_FENCED):
        shard.add(producer, 0, version=0)
    if level == 2:
        assert shard.init(expected=producer).producer_epoch == 1
    else:
        with refused(ErrorCode.PRODUCER_FENCED):
            shard.init(expected=producer)
    assert shard.init().producer_epoch == 2


def test_init_aborts_what_is_open(shard: TransactionShard) -> None:
    producer = shard.init()
    shard.add(producer, 0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.init()
    shard.settle()
    assert shard.transaction("id").status is Status.COMPLETE_ABORT
    assert shard.init().producer_epoch == 2


def test_spent_epochs_give_a_new_id(shard: TransactionShard) -> None:
    producer = begin_at_epoch(shard, LAST_USABLE_EPOCH)
    following = shard.init(expected=producer)
    assert following.producer_id != producer.producer_id and following.producer_epoch == 0
    assert shard.init(expected=producer) == following
    with refused(ErrorCode.PRODUCER_FENCED):
        shard.init(expected=producer)


def test_spent_epochs_give_a_new_id_to_nobody_else(shard: TransactionShard) -> None:
    producer = begin_at_epoch(shard, LAST_USABLE_EPOCH)
    shard.init()
    with refused(ErrorCode.PRODUCER_FENCED):
        shard.init(expected=producer)


def test_verification(shard: TransactionShard) -> None:
    producer = shard.init()
    places = [TopicPartition("t", 0), TopicPartition("t", 1)]

    def verify(who: ProducerIdentity) -> list[ErrorCode]:
        return list(shard.machine.verify_partitions("id", who, places).values())

    assert verify(producer) == [ErrorCode.TRANSACTION_ABORTABLE] * 2
    shard.add(producer, 0, version=0)
    assert verify(producer) == [ErrorCode.NONE, ErrorCode.TRANSACTION_ABORTABLE]
    with refused(ErrorCode.PRODUCER_FENCED):
        verify(ProducerIdentity(producer.producer_id, 1))
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        verify(ProducerIdentity(999, 0))
    shard.end(producer, True, version=0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        verify(producer)
    shard.settle()
    assert verify(producer) == [ErrorCode.TRANSACTION_ABORTABLE] * 2


def test_newer_clients_need_newer_records() -> None:
    shard = TransactionShard(transaction_version=0)
    producer = shard.init()
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        shard.add(producer, 0, version=2)
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        shard.end(producer, False, version=2)
    shard.add(producer, 0, version=0)


def test_unused_ids_expire(shard: TransactionShard) -> None:
    shard.init("old")
    shard.add(shard.init("open"), 0, transactional_id="open")
    shard.wall_ms += 900_000
    shard.init("young")
    shard.wall_ms += 100_000
    assert shard.now(lambda machine: machine.expire_ids()) == 1
    assert set(shard.machine.transactions) == {"open", "young"}
    shard.crash()
    assert set(shard.machine.transactions) == {"open", "young"}


def test_many_ids_expire_in_several_batches(shard: TransactionShard) -> None:
    for number in range(5):
        shard.init(f"id {number}")
    shard.wall_ms += 10_000_000
    assert [shard.now(lambda machine: machine.expire_ids(at_most=2)) for _ in range(4)] == [2, 2, 1, 0]


def test_refused_append_leaves_the_state(shard: TransactionShard) -> None:
    producer = shard.init()
    shard.add(producer, 0)
    shard.log.refusal = KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS)
    with refused(ErrorCode.COORDINATOR_NOT_AVAILABLE):
        shard.end(producer, True)
    assert shard.transaction("id").status is Status.ONGOING and not shard.markers
    shard.log.refusal = None
    shard.end(producer, True)
    shard.settle()
    assert shard.transaction("id").status is Status.COMPLETE_COMMIT
