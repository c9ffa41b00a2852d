"""What survives when the power fails or the process dies between any two steps.

Promises: a log always opens; what it holds is a prefix of what was appended; what was flushed is part of it; producers
know exactly the batches that are there; and with `flush.messages=1` nothing that was answered is ever lost. Where a
truncation was not flushed, a power cut may undo it, in whole or in part: then each record is one of those that its
offset ever had.
"""

import contextlib
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from moldau.storage.log import PartitionLog
from tests.fakes.lossy_files import LossyFiles, PowerCutError
from tests.support.logs import NOW, batch, open_log, settings, stage, values_from

FOLDER = "/data/events-0"
SEED = 3
PRODUCER = {"producer_id": 7, "producer_epoch": 0}


class Run:
    """A broker's life with one log: appends in groups, flushes now and then, keeps the checkpoint of its recovery
    point, dies at some step, and comes back."""

    def __init__(self, seed: int, *, flush_messages: int | None = None, truncates: bool = False) -> None:
        self.random = Random(seed)
        self.truncates = truncates
        self.given_up_from: int | None = None  # a truncation is under way
        self.ever: dict[int, set[bytes]] = {}
        self.files = LossyFiles()
        self.files.make_directory(FOLDER)
        options = {} if flush_messages is None else {"flush_messages": flush_messages}
        self.config = settings(
            segment_bytes=self.random.choice([300, 1000, 9000]),
            index_interval_bytes=self.random.choice([0, 200]),
            preallocate=self.random.random() < 0.2,
            **options,
        )
        self.appended: list[bytes] = []
        self.answered = 0
        self.checkpoint = 0
        self.log: PartitionLog | None = None

    def live(self, steps: int) -> None:
        self.log = self._open(clean=False)
        self._check()
        for _ in range(steps):
            action = self.random.random()
            if action < 0.75:
                self._append()
            elif action < 0.9:
                self._flush()
            elif action < 0.95:
                if self.truncates:
                    self._truncate()
                else:
                    self.log.roll()
            else:
                self.log.close(clean=True)
                self.checkpoint = self.log.recovery_point
                self.files.kill()
                self.log = self._open(clean=True)

    def _open(self, *, clean: bool) -> PartitionLog:
        return open_log(
            FOLDER, files=self.files, config=self.config, clean_shutdown=clean, recovery_point=self.checkpoint
        )

    def _append(self) -> None:
        self._append_group()
        if self.log.flush_required():
            self._flush()

    def _append_group(self) -> None:
        log = self.log
        for _ in range(self.random.randint(1, 4)):
            value = b"%d " % len(self.appended) + bytes(
                self.random.choice([0, 30, 5000 if log.config.segment_bytes > 5200 else 50])
            )
            stage(log, batch(value, base_sequence=len(self.appended), **PRODUCER))
            self.ever.setdefault(len(self.appended), set()).add(value)
            self.appended.append(value)
        log.commit()

    def _flush(self) -> None:
        """Several flushes may be under way, and end in any order."""
        works = [self.log.flush_work()]
        while self.random.random() < 0.3:
            self.log.roll()
            self._append_group()
            works.append(self.log.flush_work())
        self.random.shuffle(works)
        for work in works:
            work()
            self.log.flushed(work.up_to)
            self.checkpoint = self.log.recovery_point
            self.answered = max(self.answered, work.up_to)

    def _truncate(self) -> None:
        target = self.random.randint(0, self.log.log_end_offset)
        work = self.log.flush_work()
        self.given_up_from = target
        self.checkpoint = min(self.checkpoint, self.log.prepare_truncation(target))
        self.answered = min(self.answered, self.checkpoint)
        work()
        self.log.flushed(work.up_to)
        assert self.log.recovery_point <= target
        if self.random.random() < 0.8:
            self.log.truncate_to(target)
            self.appended = self.appended[: self.log.log_end_offset]
        self.log.end_truncation()
        self.given_up_from = None
        if self.random.random() < 0.5:
            self._append_group()

    def die(self, *, power: bool) -> None:
        if power:
            self.files.crash(self.random)
        else:
            self.files.kill()

    def come_back(self, *, power: bool, staged_from: int) -> None:
        self.log = self._open(clean=False)
        found = self._check()
        kept = len(found)
        promised = max(self.checkpoint, self.answered) if power else staged_from
        if self.given_up_from is not None:
            promised = min(promised, self.given_up_from)
        assert kept >= promised
        self.given_up_from = None
        self.appended = found

    def _check(self) -> list[bytes]:
        log = self.log
        found = values_from(log)
        assert [offset for offset, _ in found] == list(range(log.log_end_offset))
        values = [value for _, value in found]
        if self.truncates:
            assert all(value in self.ever[offset] for offset, value in found)
        else:
            assert values == self.appended[: len(values)]
        known = log.producers.get(7)
        assert (known.last_sequence if known else -1) == len(values) - 1
        times = log.offset_for_timestamp(NOW)
        assert (times.offset if times else None) == (0 if values else None)
        return values


def run_and_stop(
    seed: int, stop: int | None, *, power: bool, flush_messages: int | None = None, truncates: bool = False
) -> int:
    """One life that ends at its n-th file operation; then a second one on what is left. Returns the operations done."""
    run = Run(seed, flush_messages=flush_messages, truncates=truncates)
    run.files.stop_after(stop, torn=Random(seed))
    with contextlib.suppress(PowerCutError):
        run.live(12)
    operations = run.files.operations
    written = run.log.log_end_offset if run.log is not None else 0
    run.die(power=power)
    run.come_back(power=power, staged_from=written)
    run.answered = 0
    run.live(4)
    return operations


@given(seed=st.integers(0, 2**32), stop=st.integers(0, 200), power=st.booleans())
@hypothesis_settings(max_examples=250)
def test_a_log_survives_a_stop_at_any_step(seed: int, stop: int, power: bool) -> None:
    run_and_stop(seed, stop, power=power)


@given(seed=st.integers(0, 2**32), stop=st.integers(0, 300))
@hypothesis_settings(max_examples=150)
def test_what_was_answered_after_a_flush_survives_a_power_cut(seed: int, stop: int) -> None:
    run_and_stop(seed, stop, power=True, flush_messages=1)


@given(seed=st.integers(0, 2**32), stop=st.integers(0, 200), power=st.booleans())
@hypothesis_settings(max_examples=150)
def test_a_log_that_is_truncated_survives_as_well(seed: int, stop: int, power: bool) -> None:
    run_and_stop(seed, stop, power=power, truncates=True)


@pytest.mark.parametrize("power", [True, False])
def test_one_life_stopped_at_each_of_its_steps(power: bool) -> None:
    total = run_and_stop(SEED, None, power=power)
    assert total > 100
    for stop in range(total + 1):
        run_and_stop(SEED, stop, power=power)


def test_the_fake_does_lose_what_was_not_synced() -> None:
    """Otherwise the tests above would prove nothing."""
    lost = 0
    for seed in range(40):
        run = Run(seed)
        run.live(6)
        before = len(run.appended)
        run.die(power=True)
        run.log = run._open(clean=False)
        lost += before - run.log.log_end_offset > 0
    assert lost > 10
