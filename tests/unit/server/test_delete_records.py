"""DeleteRecords is answered when every replica has moved its start, or the time is up, or the term ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.replication.leader import Neighbours
from moldau.replication.partition import Partition
from moldau.security.authorizer import AllowAll
from moldau.server.handlers import delete_records
from moldau.types.errors import ErrorCode
from moldau.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tests.support.logs import TOPIC_PARTITION, append, open_log
from tests.support.terms import term

NEIGHBOURS = Neighbours(lambda: 0.0, lambda _: 5, lambda _: True, lambda: 1000)


@pytest.mark.parametrize(
    ("then", "answer"),
    [
        (lambda one: one.fetched_by(2, 3, 2, 5), (2, 0)),
        (lambda one: one.follow(term(2, epoch=1)), (-1, ErrorCode.NOT_LEADER_OR_FOLLOWER)),
        (None, (-1, ErrorCode.REQUEST_TIMED_OUT)),
    ],
)
def test_the_answer_waits_for_the_followers(
    tmp_path: Path, then: Callable[[Partition], Any] | None, answer: tuple[int, int]
) -> None:
    async def main() -> None:
        one = Partition(TOPIC_PARTITION, UUID(int=1), 1, NEIGHBOURS)
        one.log = open_log(str(tmp_path))
        one.lead(term(1, isr=(1, 2)))
        append(one.log, b"0", b"1", b"2")
        one.advance(3)
        one.fetched_by(2, 3, 0, 5)
        broker: Any = SimpleNamespace(authorizer=AllowAll(), partitions=SimpleNamespace(get=lambda *_: one))
        wanted = DeleteRecordsTopic(name="events", partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
        timeout_ms = 60_000 if then else 0
        request = DeleteRecordsRequest(topics=[wanted], timeout_ms=timeout_ms)
        answering = asyncio.ensure_future(cast(Any, delete_records.handle(broker, cast(Any, None), request)))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        if then is not None:
            assert not answering.done()
            then(one)
        (result,) = (await answering).topics[0].partitions
        assert (result.low_watermark, result.error_code) == answer
        assert one.log.log_start_offset == 2
        assert not one.start_waits

    asyncio.run(main())
