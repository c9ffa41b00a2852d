"""A coordinator's records in their partition: in one batch, in the codec that is asked for, and read back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.coordinators.machine import ProducerStamp, RecordContext, StateRecord
from moldau.coordinators.runtime import CoordinatorRuntime, Shard
from moldau.replication.partition import Partition
from moldau.server.appends import AppendQueue
from moldau.server.connection import AnswerGate
from moldau.server.coordination.shard_log import PartitionShardLog, load_shard
from moldau.types.errors import KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.compression import Codec
from moldau.wire.records import Batch, iter_batches
from tests.support.logs import NOW, open_log
from tests.support.terms import term

RECORDS = [StateRecord(b"key %d" % number, None if number % 7 == 3 else b"value" * number) for number in range(40)]


class Seen:
    """A machine and its runtime, as far as loading needs them."""

    def __init__(self, ends_after: int = 1_000_000) -> None:
        self.machine = self
        self._ends_after = ends_after
        self.is_over = False
        self.is_loaded = False
        self.records: list[tuple[StateRecord, RecordContext]] = []

    def replay(self, record: StateRecord, context: RecordContext) -> None:
        self.records.append((record, context))
        self.is_over = len(self.records) >= self._ends_after

    def replay_plain(self, key: bytes, value: bytes | None) -> bool:
        return False

    def loaded(self, _shard: Any) -> None:
        self.is_loaded = True


class Stored:
    def __init__(self, folder: Path, codec: int) -> None:
        self.partition = Partition(TopicPartition("__consumer_offsets", 0), UUID(int=1), 1)
        self.partition.log = open_log(str(folder))
        self.partition.lead(term(1, epoch=3))
        self.appends = AppendQueue(self._soon, self._blocking, self._failed, lambda _: None, AnswerGate())
        self.log = PartitionShardLog(self.partition, self.appends, lambda: NOW, lambda: codec)
        self.outcomes: list[KafkaError | None] = []

    def _soon(self, _work: Callable[[], None]) -> None:
        """`flush` is called by the test."""

    def _failed(self, _log: Any, error: Exception) -> None:
        raise error

    def _blocking(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        done.set_result(work())
        return done

    def append(self, records: list[StateRecord], producer: ProducerStamp | None = None) -> None:
        self.log.append(records, producer, self.outcomes.append)
        self.appends.flush()

    def batches(self) -> list[Batch]:
        assert self.partition.log is not None
        path = self.partition.log.segments.active.file.path
        return list(iter_batches(Path(path).read_bytes()))


@pytest.mark.parametrize("codec", list(Codec))
def test_records_are_stored_in_the_codec_that_is_asked_for_and_read_back(tmp_path: Path, codec: int) -> None:
    async def main() -> None:
        stored = Stored(tmp_path, codec)
        stored.append(RECORDS)
        stored.append(RECORDS[:1], ProducerStamp(9, 2))
        assert stored.outcomes == [None, None]
        plain, transactional = (batch.header for batch in stored.batches())
        assert (plain.codec, plain.count, plain.is_transactional) == (codec, len(RECORDS), False)
        assert (transactional.codec, transactional.producer_id, transactional.producer_epoch) == (codec, 9, 2)
        seen = Seen()
        await load_shard(
            cast(CoordinatorRuntime[Any], seen), cast(Shard[Any], seen), stored.partition, stored._blocking
        )
        assert seen.is_loaded
        assert [record for record, _ in seen.records] == [*RECORDS, RECORDS[0]]
        assert {context.timestamp for _, context in seen.records} == {NOW}
        assert [context.offset for _, context in seen.records] == list(range(len(RECORDS) + 1))
        assert seen.records[-1][1].producer == ProducerStamp(9, 2)

    asyncio.run(main())


def test_loading_stops_where_the_shards_life_ends(tmp_path: Path) -> None:
    async def main() -> None:
        stored = Stored(tmp_path, Codec.NONE)
        stored.append([StateRecord(b"%d" % number, b"") for number in range(1000)])
        seen = Seen(ends_after=100)
        await load_shard(
            cast(CoordinatorRuntime[Any], seen), cast(Shard[Any], seen), stored.partition, stored._blocking
        )
        assert not seen.is_loaded
        assert len(seen.records) < 1000

    asyncio.run(main())
