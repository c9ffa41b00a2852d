"""A producer id whose epochs are used up: however its last transaction ends, and whatever crashes on the way, a new id
follows, its owner hears of it, and nobody is ever given the epoch behind the last one.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.coordinators.transactions.machine import ProducerIdentity
from moldau.coordinators.transactions.records import read_record
from moldau.coordinators.transactions.state import LAST_USABLE_EPOCH, Transaction, TransactionStatus
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_PRODUCER_ID
from tests.fakes.shard_log import Marker
from tests.fakes.transaction_shard import TransactionShard, begin_at_epoch
from tests.unit.coordinators.transactions.test_machine import refused

Status = TransactionStatus
End = Callable[[TransactionShard, ProducerIdentity], None]


def commit(shard: TransactionShard, producer: ProducerIdentity) -> None:
    shard.add(producer, 0)
    shard.partitions[next(iter(shard.partitions))].write(producer, "x")
    shard.end(producer, True)


def abort(shard: TransactionShard, producer: ProducerIdentity) -> None:
    shard.add(producer, 0)
    shard.end(producer, False)


def abort_of_nothing(shard: TransactionShard, producer: ProducerIdentity) -> None:
    shard.end(producer, False)


def time_out(shard: TransactionShard, producer: ProducerIdentity) -> None:
    shard.add(producer, 0)
    shard.wall_ms += 100_000
    shard.abort_overdue()
    shard.log.commit()


def next_owner(shard: TransactionShard, producer: ProducerIdentity) -> None:
    shard.add(producer, 0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.init()


def nothing(shard: TransactionShard) -> None:
    """Nothing crashes."""


def crash(shard: TransactionShard) -> None:
    """Before any marker is written."""
    shard.crash()


def crash_behind_a_marker(shard: TransactionShard) -> None:
    shard.deliver()
    shard.crash()


def crash_twice(shard: TransactionShard) -> None:
    shard.crash()
    shard.deliver()
    shard.crash()


def crash_with_the_end_under_way(shard: TransactionShard) -> None:
    while shard.markers:
        shard.deliver()
    shard.crash()


ENDS = (commit, abort, abort_of_nothing, time_out, next_owner)
CRASHES = (nothing, crash, crash_behind_a_marker, crash_twice, crash_with_the_end_under_way)


def states(shard: TransactionShard) -> list[Transaction]:
    """As they were written."""
    found = []
    for entry in shard.log.contents():
        assert not isinstance(entry, Marker)
        found.append(read_record(entry[0])[1])
    return [one for one in found if one is not None]


@pytest.mark.parametrize("happens", CRASHES)
@pytest.mark.parametrize("ends", ENDS)
def test_new_id_follows_the_last_epoch(ends: End, happens: Callable[[TransactionShard], None]) -> None:
    shard = TransactionShard()
    producer = begin_at_epoch(shard, LAST_USABLE_EPOCH)
    ends(shard, producer)
    happens(shard)
    shard.settle()
    prepared, complete = [one for one in states(shard) if one.status.is_prepared][-1], states(shard)[-1]
    assert (prepared.producer_id, prepared.producer_epoch) == (producer.producer_id, LAST_USABLE_EPOCH + 1)
    assert prepared.next_producer_id not in (NO_PRODUCER_ID, producer.producer_id)
    assert (complete.producer_id, complete.producer_epoch) == (prepared.next_producer_id, 0)
    assert (complete.previous_producer_id, complete.next_producer_id) == (producer.producer_id, NO_PRODUCER_ID)
    assert not shard.refused_markers
    following = ProducerIdentity(complete.producer_id, 0)
    wants_commit = ends is commit
    assert shard.end(producer, wants_commit) == following, "who did not hear the answer asks again"
    shard.add(following, 0, 1)
    assert shard.end(following, True) == (following.producer_id, 1)


@pytest.mark.parametrize("ends", ENDS)
def test_owner_that_recovers_is_given_the_new_id(ends: End) -> None:
    shard = TransactionShard()
    producer = begin_at_epoch(shard, LAST_USABLE_EPOCH)
    ends(shard, producer)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.init(expected=producer)
    shard.settle()
    following = shard.init(expected=producer)
    assert following == (shard.transaction("id").producer_id, 0) and following.producer_id != producer.producer_id
    with refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING):
        shard.add(producer, 0)


@pytest.mark.parametrize("ends", [commit, abort, abort_of_nothing])
def test_next_requests_wait_for_the_markers(ends: End) -> None:
    """The new id is told before it has taken over."""
    shard = TransactionShard()
    producer = begin_at_epoch(shard, LAST_USABLE_EPOCH)
    ends(shard, producer)
    following = ProducerIdentity(shard.transaction("id").next_producer_id, 0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.add(following, 0)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.end(following, False)
    with refused(ErrorCode.CONCURRENT_TRANSACTIONS):
        shard.end(producer, True)
    shard.settle()
    shard.add(following, 0)


@pytest.mark.parametrize("happens", [nothing, crash])
@pytest.mark.parametrize("ends", [time_out, next_owner])
def test_older_version_leaves_the_last_epoch_to_nobody(ends: End, happens: Callable[[TransactionShard], None]) -> None:
    shard = TransactionShard(transaction_version=1)
    producer = begin_at_epoch(shard, LAST_USABLE_EPOCH)
    ends(shard, producer)
    happens(shard)
    shard.settle()
    left = shard.transaction("id")
    assert (left.producer_id, left.producer_epoch) == (producer.producer_id, LAST_USABLE_EPOCH + 1)
    for wrong in (producer, ProducerIdentity(producer.producer_id, LAST_USABLE_EPOCH + 1)):
        for version in (0, 2):
            with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
                shard.add(wrong, 0, version=version)
            with pytest.raises(KafkaError, match="PRODUCER_FENCED"):
                shard.end(wrong, False, version=version)
    following = shard.init()
    assert following.producer_id != producer.producer_id and following.producer_epoch == 0


def test_older_version_uses_the_last_epoch_again_and_again() -> None:
    shard = TransactionShard(transaction_version=1)
    producer = begin_at_epoch(shard, LAST_USABLE_EPOCH)
    for _ in range(3):
        shard.add(producer, 0, version=0)
        assert shard.end(producer, True, version=0) == producer
        shard.settle()
    assert shard.transaction("id").producer_epoch == LAST_USABLE_EPOCH


def test_without_a_spare_id_the_client_tries_again() -> None:
    shard = TransactionShard()
    producer = begin_at_epoch(shard, LAST_USABLE_EPOCH)
    shard.add(producer, 0)
    with refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS):
        shard.now(lambda machine: machine.end("id", producer, True, 2, NO_PRODUCER_ID))
    assert shard.transaction("id").status is Status.ONGOING
