"""A batch belongs to the term in which it was taken: none is written or acknowledged in a later one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.metrics import Metrics
from moldau.replication.partition import Partition
from moldau.server.appends import AppendQueue
from moldau.server.connection import AnswerGate
from moldau.server.coordination.shard_log import ShardAppend, high_watermark_reaches
from moldau.server.producing import ALL, PartitionResult, Produce, Producing
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import NO_TIMESTAMP
from tests.fakes.unlimited import Unlimited
from tests.fakes.waits import OffsetProbe
from tests.support.logs import TOPIC_PARTITION, append, batch, open_log, settings, stage, values_from
from tests.support.terms import term

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Queue:
    """An append queue over one partition; work for threads waits until the test runs it."""

    def __init__(self, folder: Path, **config: object) -> None:
        self.partition = Partition(TOPIC_PARTITION, UUID(int=1), 1)
        self.partition.log = self.log = open_log(str(folder), config=settings(**config))
        self.blocking: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []
        self.queue = AppendQueue(lambda _: None, self._blocking, self._failed, lambda _: None, AnswerGate())

    def _failed(self, _log: Any, error: Exception) -> None:
        raise error

    def _blocking(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.blocking.append((work, done))
        return done

    async def run_blocking(self) -> None:
        for work, done in self.blocking:
            done.set_result(work())
        self.blocking.clear()
        await asyncio.sleep(0)

    def append(self, value: bytes, append: Any = None) -> OffsetProbe:
        probe = OffsetProbe() if append is None else append
        stage(self.log, batch(value), epoch=self.partition.leader_epoch)
        self.queue.add(self.partition, probe)
        return cast(OffsetProbe, probe)


def test_what_is_staged_is_refused_and_not_written(tmp_path: Path) -> None:
    one = Queue(tmp_path)
    one.partition.lead(term(1, epoch=3))
    lost = one.append(b"lost")
    one.partition.follow(term(2, epoch=4))
    assert lost.told == [NOT_LEADER]
    one.queue.flush()
    assert values_from(one.log) == []
    one.partition.lead(term(1, epoch=5))
    kept = one.append(b"kept")
    one.queue.flush()
    assert (lost.told, kept.told) == ([NOT_LEADER], ["written"])
    assert values_from(one.log) == [(0, b"kept")]
    assert one.log.leader_epochs.entries == [(5, 0)]


def test_what_was_brought_to_disk_in_an_older_term_raises_no_mark(tmp_path: Path) -> None:
    async def main() -> None:
        one = Queue(tmp_path, flush_messages=1)
        one.partition.lead(term(1, epoch=3))
        one.append(b"0")
        one.queue.flush()
        one.partition.follow(term(2, epoch=4))
        one.log.truncate_to(0)
        one.partition.log_truncated()
        one.partition.lead(term(1, epoch=5))
        await one.run_blocking()
        assert one.partition.high_watermark == 0

    asyncio.run(main())


def test_what_a_follower_has_not_synced_yet_does_not_count_when_it_leads(tmp_path: Path) -> None:
    async def main() -> None:
        one = Queue(tmp_path, flush_messages=1)
        one.partition.follow(term(2, epoch=3))
        append(one.log, b"0")
        append(one.log, b"1")
        one.log.flush(1)
        one.partition.lead(term(1, epoch=4, replicas=(1, 2)))
        assert one.partition.high_watermark == one.log.recovery_point == 1
        assert one.partition.has_uncounted
        one.queue.bring_to_disk(one.partition)
        assert one.partition.high_watermark == 1
        await one.run_blocking()
        assert one.partition.high_watermark == 2
        assert not one.partition.has_uncounted

    asyncio.run(main())


def test_what_an_earlier_term_is_bringing_to_disk_counts_when_all_of_it_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        one = Queue(tmp_path, flush_messages=1)
        one.partition.lead(term(1, epoch=3, replicas=(1, 2)))
        one.append(b"0")
        one.queue.flush()
        one.append(b"1")
        one.queue.flush()
        assert len(one.blocking) == 1, "the second waits for the sync of the first"
        one.partition.lead(term(1, epoch=4, replicas=(1, 2)))
        one.queue.bring_to_disk(one.partition)
        assert one.partition.high_watermark == 0
        await one.run_blocking()
        assert one.partition.high_watermark < 2
        await one.run_blocking()
        assert one.partition.high_watermark == 2

    asyncio.run(main())


def test_one_batch_that_an_earlier_term_is_bringing_to_disk_counts_when_it_is_there(tmp_path: Path) -> None:
    async def main() -> None:
        one = Queue(tmp_path, flush_messages=1)
        one.partition.lead(term(1, epoch=3, replicas=(1, 2)))
        one.append(b"0")
        one.queue.flush()
        one.partition.lead(term(1, epoch=4, replicas=(1, 2)))
        one.queue.bring_to_disk(one.partition)
        assert one.partition.high_watermark == 0
        await one.run_blocking()
        assert one.partition.high_watermark == 1

    asyncio.run(main())


@pytest.mark.parametrize("kind", ["produce", "coordinator"])
def test_a_batch_whose_term_ends_during_the_sync_is_refused(tmp_path: Path, kind: str) -> None:
    async def main() -> None:
        one = Queue(tmp_path, flush_messages=1)
        one.partition.lead(term(1, epoch=3))
        outcomes: list[ErrorCode | int | None] = []
        if kind == "produce":
            append: Any = produce(one.partition, lambda result: outcomes.append(result.error))
        else:
            append = ShardAppend(one.partition, 1, lambda error: outcomes.append(None if error is None else error.code))
        one.append(b"0", append)
        one.queue.flush()
        one.partition.lead(term(1, epoch=4))
        await one.run_blocking()
        assert outcomes == [NOT_LEADER]

    asyncio.run(main())


def produce(
    partition: Partition, answered: Callable[[PartitionResult], None], acks: int = ALL, timeout_ms: int = 1000
) -> PartitionResult:
    """The part of a produce request, of one partition, whose batch is staged."""
    frame = SimpleNamespace(release=lambda: None, size=100)
    nothing = cast(Any, None)
    broker = cast(Any, SimpleNamespace(producing=Producing(lambda: 0, nothing, Metrics()), quotas=Unlimited()))
    one = Produce(
        broker, nothing, cast(Any, frame), nothing, acks, timeout_ms, lambda done: answered(done.results[0]), 0.0
    )
    result = PartitionResult(one, "t", 0)
    result.expect(partition, 0, 1, NO_TIMESTAMP)
    one.staged()
    return result


def waiting(partition: Partition, timeout_ms: int = 1000) -> tuple[PartitionResult, list[PartitionResult]]:
    """A produce that waits for a replica, and the list in which its result will stand."""
    answers: list[PartitionResult] = []
    result = produce(partition, answers.append, timeout_ms=timeout_ms)
    result.written()
    return result, answers


def test_a_produce_that_waits_for_replicas_learns_of_the_new_leader(tmp_path: Path) -> None:
    async def main() -> None:
        one = Queue(tmp_path)
        one.partition.lead(term(1, epoch=3, isr=(1, 2)))
        _, answers = waiting(one.partition)
        one.partition.follow(term(2, epoch=4))
        (result,) = answers
        assert (result.error, result.current_leader, result.base_offset) == (NOT_LEADER, (2, 4), -1)

    asyncio.run(main())


def test_a_produce_whose_time_is_up_leaves_the_list(tmp_path: Path) -> None:
    async def main() -> None:
        one = Queue(tmp_path)
        one.partition.lead(term(1, epoch=3, isr=(1, 2)))
        _, answers = waiting(one.partition, timeout_ms=0)
        _, patient = waiting(one.partition)
        assert len(one.partition.produce_waits) == 2
        while not answers:  # noqa: ASYNC110  the loop's timer fires in one of its next turns
            await asyncio.sleep(0)
        assert answers[0].error == ErrorCode.REQUEST_TIMED_OUT
        assert len(one.partition.produce_waits) == 1
        one.partition.lose_log()
        assert patient[0].error == ErrorCode.KAFKA_STORAGE_ERROR
        assert answers[0].error == ErrorCode.REQUEST_TIMED_OUT

    asyncio.run(main())


def test_a_coordinators_append_ends_with_the_term(tmp_path: Path) -> None:
    one = Queue(tmp_path)
    one.partition.lead(term(1, epoch=3, isr=(1, 2)))
    outcomes: list[KafkaError | None] = []
    one.append(b"0", ShardAppend(one.partition, 1, outcomes.append))
    one.queue.flush()
    assert outcomes == []
    one.partition.follow(term(2, epoch=4))
    assert [error and error.code for error in outcomes] == [NOT_LEADER]


def test_loading_a_coordinator_goes_on_when_the_mark_will_never_be_reached(tmp_path: Path) -> None:
    async def main() -> None:
        one = Queue(tmp_path)
        one.partition.lead(term(1, epoch=3, isr=(1, 2)))
        loading = asyncio.ensure_future(high_watermark_reaches(one.partition, 1))
        await asyncio.sleep(0)
        assert not loading.done()
        one.partition.follow(term(2, epoch=4))
        await loading
        assert not one.partition.produce_waits

    asyncio.run(main())
