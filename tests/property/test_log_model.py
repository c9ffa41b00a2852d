"""A partition log against the simplest thing that could be one: a list of batches."""

import random
from dataclasses import dataclass, field

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from moldau.storage.errors import DuplicateBatchError, OffsetOutOfRangeError
from moldau.storage.log import PartitionLog
from moldau.wire.batch import parse_header
from moldau.wire.records import Record, build_batch, iter_batches, iter_records
from tests.fakes.lossy_files import LossyFiles
from tests.support.logs import NOW, info_of, open_log, read_bytes, settings

FOLDER = "/data/events-0"


@dataclass
class Batch:
    base_offset: int
    records: list[tuple[int, bytes]]
    epoch: int
    producer: tuple[int, int] | None

    @property
    def next_offset(self) -> int:
        return self.base_offset + len(self.records)


@dataclass
class Model:
    batches: list[Batch] = field(default_factory=list)
    staged: list[Batch] = field(default_factory=list)
    start: int = 0
    end: int = 0

    def readable(self, offset: int, end: int) -> list[tuple[int, int, bytes]]:
        return [
            (batch.base_offset + delta, timestamp, value)
            for batch in self.batches
            if batch.next_offset <= end
            for delta, (timestamp, value) in enumerate(batch.records)
            if batch.base_offset + delta >= offset
        ]


class LogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.files = LossyFiles()
        self.files.make_directory(FOLDER)
        self.model = Model()
        self.log: PartitionLog | None = None

    @initialize(
        segment_bytes=st.sampled_from([450, 900, 5000]),
        interval=st.sampled_from([0, 100, 1000]),
        index_bytes=st.sampled_from([48, 4096]),
        segment_ms=st.sampled_from([50, 10_000]),
    )
    def open(self, segment_bytes: int, interval: int, index_bytes: int, segment_ms: int) -> None:
        self.config = settings(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            segment_ms=segment_ms,
        )
        self.log = open_log(FOLDER, files=self.files, config=self.config)

    @rule(
        times=st.lists(st.integers(0, 200), min_size=1, max_size=4),
        size=st.integers(0, 60),
        codec=st.sampled_from([0, 0, 3]),
        producer=st.sampled_from([None, 1, 2]),
        epoch=st.integers(0, 3),
    )
    def stage_one(self, times: list[int], size: int, codec: int, producer: int | None, epoch: int) -> None:
        self.stage(times, size, codec, producer, epoch)

    def stage(self, times: list[int], size: int, codec: int, producer: int | None, epoch: int) -> None:
        model = self.model
        everything = model.batches + model.staged
        base_offset = everything[-1].next_offset if model.staged else model.end
        epoch = max([epoch, *(batch.epoch for batch in everything)])
        records = [(NOW + time, b"%d-%d" % (base_offset, n) + b"x" * size) for n, time in enumerate(times)]
        options, identity = {}, None
        if producer is not None:
            sequence = self._next_sequence(producer)
            identity = (producer, sequence)
            options = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}
        data = bytearray(build_batch([Record(value=v, timestamp=t) for t, v in records], codec=codec, **options))
        assert self.log.stage(data, info_of(data), epoch) == base_offset
        model.staged.append(Batch(base_offset, records, epoch, identity))

    def _next_sequence(self, producer: int) -> int:
        for batch in reversed(self.model.batches + self.model.staged):
            if batch.producer is not None and batch.producer[0] == producer:
                return batch.producer[1] + len(batch.records)
        return 0

    @rule(counts=st.lists(st.integers(1, 4), min_size=2, max_size=8), times=st.randoms(use_true_random=False))
    def append_several(self, counts: list[int], times: random.Random) -> None:
        for count in counts:
            size, producer = times.randint(0, 60), times.choice([None, 1, 2])
            self.stage([times.randint(0, 200) for _ in range(count)], size, times.choice([0, 3]), producer, 0)
            if times.random() < 0.5:
                self.commit()
        self.commit()

    @rule()
    def commit(self) -> None:
        self.log.commit()
        self.model.batches += self.model.staged
        if self.model.staged:
            self.model.end = self.model.staged[-1].next_offset
        self.model.staged = []

    @rule()
    def discard(self) -> None:
        self.log.discard_staged()
        self.model.staged = []

    @precondition(lambda self: not self.model.staged)
    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        assert self.log.recovery_point == self.model.end

    @precondition(lambda self: not self.model.staged)
    @rule(part=st.floats(0, 1))
    def truncate(self, part: float) -> None:
        model = self.model
        target = model.start + round(part * (model.end - model.start))
        self.log.truncate_to(target)
        if target < model.end:
            removed = [batch for batch in model.batches if batch.next_offset > target]
            model.batches = [batch for batch in model.batches if batch.next_offset <= target]
            model.end = max(model.start, min(target, removed[0].base_offset))

    @precondition(lambda self: not self.model.staged)
    @rule(part=st.floats(0, 1))
    def advance_start(self, part: float) -> None:
        model = self.model
        target = model.start + round(part * (model.end - model.start))
        self.log.advance_log_start(target)
        model.start = target
        for path in self.log.take_deleted():
            if self.files.exists(path):
                self.files.unlink(path)

    @rule(clean=st.booleans())
    def restart(self, clean: bool) -> None:
        log = self.log
        if clean:
            log.close(clean=True)
        self.files.kill()
        self.model.staged = []
        self.log = open_log(
            FOLDER,
            files=self.files,
            config=self.config,
            clean_shutdown=clean,
            recovery_point=log.recovery_point,
            log_start_offset=log.log_start_offset,
        )
        assert self.log.recovery.cut is None

    @invariant()
    def offsets_agree(self) -> None:
        if self.log is not None:
            assert self.log.log_end_offset == self.model.end
            assert self.log.log_start_offset == self.model.start
            assert self.log.staged == bool(self.model.staged)

    @invariant()
    def reads_agree_at_every_offset(self) -> None:
        log, model = self.log, self.model
        if log is None:
            return
        for offset in range(model.start, model.end + 1):
            expected = model.readable(offset, model.end)
            data = read_bytes(log, offset, max_bytes=200)
            found = [(r.offset, r.timestamp, r.value) for b in iter_batches(data) for r in iter_records(b)]
            found = [record for record in found if record[0] >= offset]
            assert found == expected[: len(found)]
            assert bool(found) == bool(expected)
            if data:
                first = parse_header(data)
                assert first.base_offset <= max(offset, first.base_offset) <= first.last_offset
        for outside in (model.start - 1, model.end + 1):
            with pytest.raises(OffsetOutOfRangeError):
                log.read(outside, 100, model.end)

    @invariant()
    def limits_agree(self) -> None:
        log, model = self.log, self.model
        if log is None or model.start == model.end:
            return
        choose = random.Random(model.end)
        for _ in range(3):
            offset = choose.randrange(model.start, model.end)
            limit = choose.choice([batch.next_offset for batch in model.batches] or [model.end])
            data = read_bytes(log, offset, max_bytes=choose.choice([1, 300, 100_000]), max_offset=limit)
            found = [r.offset for b in iter_batches(data) for r in iter_records(b) if r.offset >= offset]
            expected = [record[0] for record in model.readable(offset, limit)]
            assert found == expected[: len(found)] and bool(found) == bool(expected)

    @invariant()
    def times_agree(self) -> None:
        log, model = self.log, self.model
        if log is None:
            return
        records = model.readable(model.start, model.end)
        for wanted in (0, 57, 100, 199, 201):
            expected = next(((offset, time) for offset, time, _ in records if time >= NOW + wanted), None)
            found = log.offset_for_timestamp(NOW + wanted)
            assert (None if found is None else found[:2]) == expected

    @invariant()
    def duplicates_are_known(self) -> None:
        log = self.log
        if log is None or self.model.staged:
            return
        last: dict[int, Batch] = {}
        for batch in self.model.batches:
            if batch.producer is not None and batch.base_offset >= self.model.start:
                last[batch.producer[0]] = batch
        for (producer, sequence), batch in ((b.producer, b) for b in last.values() if b.producer):
            again = [Record(value=b"", timestamp=NOW) for _ in batch.records]
            data = bytearray(build_batch(again, producer_id=producer, producer_epoch=0, base_sequence=sequence))
            with pytest.raises(DuplicateBatchError) as duplicate:
                log.stage(data, info_of(data), 0)
            assert duplicate.value.base_offset == batch.base_offset
            log.discard_staged()

    def teardown(self) -> None:
        if self.log is not None:
            self.log.close(clean=False)
            assert self.files.open_handles == 0


TestLogAgainstModel = LogMachine.TestCase
TestLogAgainstModel.settings = hypothesis_settings(max_examples=60, stateful_step_count=30, deadline=None)
