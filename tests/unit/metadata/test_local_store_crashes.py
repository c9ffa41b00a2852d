"""The embedded store against cut journals, flipped bytes, failing disks and power cuts at every file operation."""

from __future__ import annotations

import asyncio
import contextlib
import errno
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

import pytest

from moldau.metadata import journal
from moldau.metadata.local import LocalStore
from moldau.metadata.store import (
    CommitFailedError,
    CorruptStoreError,
    Delete,
    Operation,
    OutcomeUnknownError,
    Put,
    StoreError,
    StoreLockedError,
)
from tests.fakes.faulty_files import FaultyFiles
from tests.fakes.lossy_files import PowerCutError

T = TypeVar("T")
FOLDER = "/data/metadata"
JOURNAL = f"{FOLDER}/journal-{0:020d}"

Entries = dict[str, bytes]

# Creations, changes, deletions, values of several sizes, and several operations in one commit.
HISTORY: list[list[Operation]] = [
    [Put("/a", b"1"), Put("/b", b"x" * 40)],
    [Put("/a", b"2", 0)],
    [Delete("/b"), Put("/c", b"")],
    [Put("/gone", b"soon"), Put("/a", b"3")],
    [Put("/d", b"y" * 150)],
    [Put("/b", b"again"), Delete("/c"), Delete("/gone")],
]


async def at_once(work: Callable[[], T]) -> T:
    return work()


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(scenario)


async def opened(disk: FaultyFiles, rotate_bytes: int = 1 << 20) -> LocalStore:
    return await LocalStore.open(FOLDER, at_once, files=disk, rotate_bytes=rotate_bytes)


async def entries_of(store: LocalStore) -> Entries:
    return {path: entry.value for path, entry in (await store.list("/")).entries.items()}


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0x55]) + data[position + 1 :]


async def write_history(disk: FaultyFiles) -> tuple[list[Entries], list[int]]:
    """The entries after each commit, and the length of the journal then."""
    store = await opened(disk)
    states: list[Entries] = [{}]
    lengths = [0]
    for operations in HISTORY:
        await store.commit(operations)
        states.append(await entries_of(store))
        lengths.append(len(disk.content(JOURNAL)))
    await store.close()
    return states, lengths


def test_a_journal_cut_at_any_byte_opens_with_the_whole_commits_before_it() -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        states, lengths = await write_history(disk)
        whole = disk.content(JOURNAL)
        assert lengths[-1] == len(whole)
        for cut in range(len(whole) + 1):
            disk.replace_content(JOURNAL, whole[:cut])
            done = max(n for n, length in enumerate(lengths) if length <= cut)
            store = await opened(disk)
            assert await entries_of(store) == states[done]
            assert store.cut_bytes == cut - lengths[done]
            assert len(disk.content(JOURNAL)) == lengths[done]
            assert await store.commit([Put("/after", b"")]) == done + 1
            await store.close()
            store = await opened(disk)
            assert await entries_of(store) == {**states[done], "/after": b""}
            await store.close()

    run(scenario())


def test_a_journal_followed_by_zeros_or_garbage_is_cut() -> None:
    async def scenario() -> None:
        for tail in (bytes(5000), b"\xff" * 17, journal.MAGIC, journal.MAGIC * 9, journal.frame(b"whole")[:-1]):
            disk = FaultyFiles()
            states, lengths = await write_history(disk)
            disk.replace_content(JOURNAL, disk.content(JOURNAL) + tail)
            store = await opened(disk)
            assert await entries_of(store) == states[-1]
            assert store.cut_bytes == len(tail)
            assert len(disk.content(JOURNAL)) == lengths[-1]
            await store.close()

    run(scenario())


def test_a_flipped_byte_is_reported_with_file_and_position_unless_it_looks_like_a_torn_end() -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        states, lengths = await write_history(disk)
        whole = disk.content(JOURNAL)
        for position in range(len(whole)):
            disk.replace_content(JOURNAL, flipped(whole, position))
            frame = max(n for n, length in enumerate(lengths) if length <= position)
            if frame == len(HISTORY) - 1:
                store = await opened(disk)
                assert await entries_of(store) == states[-2]
                await store.close()
                continue
            with pytest.raises(CorruptStoreError) as corrupt:
                await opened(disk)
            assert (corrupt.value.file, corrupt.value.position) == (JOURNAL, lengths[frame])
            assert JOURNAL in str(corrupt.value)
            # Nothing was changed, and the folder is free for a repair.
            assert len(disk.content(JOURNAL)) == len(whole)

    run(scenario())


async def rotated(disk: FaultyFiles) -> Entries:
    store = await opened(disk, rotate_bytes=100)
    for number in range(12):
        await store.commit([Put(f"/n/{number % 5}", b"v" * 30)])
    state = await entries_of(store)
    await store.close()
    return state


def test_a_damaged_snapshot_is_reported() -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        state = await rotated(disk)
        names = [name for name in disk.list(FOLDER) if name != ".lock"]
        assert sorted(name.split("-")[0] for name in names) == ["journal", "snapshot"]
        path = next(f"{FOLDER}/{name}" for name in names if name.startswith("snapshot"))
        whole = disk.content(path)
        for position in range(len(whole)):
            disk.replace_content(path, flipped(whole, position))
            with pytest.raises(CorruptStoreError) as corrupt:
                await opened(disk)
            assert corrupt.value.file == path
        for cut in range(len(whole)):
            disk.replace_content(path, whole[:cut])
            with pytest.raises(CorruptStoreError):
                await opened(disk)
        disk.replace_content(path, whole)
        store = await opened(disk)
        assert await entries_of(store) == state
        await store.close()

    run(scenario())


def test_a_missing_journal_is_reported() -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        await rotated(disk)
        path = next(f"{FOLDER}/{name}" for name in disk.list(FOLDER) if name.startswith("journal"))
        kept = disk.content(path)
        disk.unlink(path)
        with pytest.raises(CorruptStoreError, match="missing"):
            await opened(disk)
        later = f"{FOLDER}/journal-{99:020d}"
        disk.open(later, create=True)
        disk.replace_content(later, kept)
        with pytest.raises(CorruptStoreError, match="missing"):
            await opened(disk)

    run(scenario())


def test_a_gap_between_journals_is_reported() -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        await write_history(disk)
        disk.open(f"{FOLDER}/journal-{99:020d}", create=True)
        with pytest.raises(CorruptStoreError, match="end at revision 6"):
            await opened(disk)

    run(scenario())


def test_one_process_at_a_time() -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        store = await opened(disk)
        with pytest.raises(StoreLockedError, match="another process"):
            await opened(disk)
        await store.close()
        await (await opened(disk)).close()

    run(scenario())


class Run:
    """Commits, rotates and reopens until it is stopped; knows what was acknowledged and what was under way."""

    def __init__(self) -> None:
        self.acknowledged: Entries = {}
        self.attempted: list[Entries] = []

    async def work(self, disk: FaultyFiles, opens: int = 2) -> None:
        for session in range(opens):
            store = await opened(disk, rotate_bytes=220)
            for number in range(7):
                pending = [
                    self._commit(store, {f"/n/{number}": f"{session}-{number}".encode()}),
                    self._commit(store, {f"/m/{session}/{number}": b"z" * 40, f"/m/{session}/x": b""}),
                ]
                # Both go into one write; a third starts while that is under way.
                await asyncio.gather(*pending)
            await store.close()

    async def _commit(self, store: LocalStore, values: Entries) -> None:
        self.attempted.append(values)
        await store.commit([Put(path, value) for path, value in values.items()])
        self.acknowledged.update(values)
        self.attempted.remove(values)

    def allows(self, found: Entries) -> bool:
        """All that was acknowledged, and of what was under way each commit whole or not at all, the earlier first."""
        expected = dict(self.acknowledged)
        if found == expected:
            return True
        for values in self.attempted:
            expected.update(values)
            if found == expected:
                return True
        return False


def count_operations() -> int:
    disk = FaultyFiles()
    run(Run().work(disk))
    return disk.changes


OPERATIONS = count_operations()


def test_the_scenario_rotates_and_reopens() -> None:
    seen: set[str] = set()
    disk = FaultyFiles()
    disk.before_change = lambda name, _count: seen.add(name)
    run(Run().work(disk))
    assert seen == {"sync_directory", "open", "pwritev", "fdatasync", "truncate", "rename", "unlink"}


def stop_at(disk: FaultyFiles, number: int, error: Callable[[], BaseException]) -> None:
    def before(_name: str, count: int) -> None:
        if count == number:
            raise error()

    disk.before_change = before


async def work_until_stopped(disk: FaultyFiles) -> Run:
    attempt = Run()
    with contextlib.suppress(PowerCutError, StoreError, OSError):
        await attempt.work(disk)
    return attempt


@pytest.mark.parametrize("seed", range(6))
def test_a_power_cut_at_any_operation_keeps_what_was_acknowledged(seed: int) -> None:
    async def scenario() -> None:
        for number in range(1, OPERATIONS + 1):
            disk = FaultyFiles()
            stop_at(disk, number, PowerCutError)
            attempt = await work_until_stopped(disk)
            after = disk.after_crash(Random(seed * 10_000 + number))
            await assert_recovers(after, attempt, number)

    run(scenario())


def test_a_kill_at_any_operation_keeps_what_was_acknowledged() -> None:
    async def scenario() -> None:
        for number in range(1, OPERATIONS + 1):
            disk = FaultyFiles()
            stop_at(disk, number, PowerCutError)
            attempt = await work_until_stopped(disk)
            await assert_recovers(disk.after_kill(), attempt, number)

    run(scenario())


def test_what_is_served_after_a_kill_survives_a_power_cut() -> None:
    async def scenario() -> None:
        for number in range(1, OPERATIONS + 1):
            disk = FaultyFiles()
            stop_at(disk, number, PowerCutError)
            await work_until_stopped(disk)
            disk = disk.after_kill()
            store = await opened(disk)
            served = await entries_of(store)
            for seed in range(3):
                again = await opened(disk.after_crash(Random(seed * 10_000 + number)))
                assert await entries_of(again) == served
                await again.close()

    run(scenario())


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_failing_operation_never_loses_what_was_acknowledged(code: int) -> None:
    async def scenario() -> None:
        for number in range(1, OPERATIONS + 1):
            disk = FaultyFiles()
            stop_at(disk, number, lambda: OSError(code, "injected"))
            attempt = await work_until_stopped(disk)
            await assert_recovers(disk.after_kill(), attempt, number)
            await assert_recovers(disk.after_crash(Random(number)), attempt, number)

    run(scenario())


async def assert_recovers(disk: FaultyFiles, attempt: Run, number: int) -> None:
    store = await opened(disk)
    found = await entries_of(store)
    assert attempt.allows(found), f"operation {number}: {found} from {attempt.acknowledged} and {attempt.attempted}"
    await store.commit([Put("/after", b"1")])
    await store.close()
    store = await opened(disk)
    assert await entries_of(store) == {**found, "/after": b"1"}
    await store.close()
    assert len([name for name in disk.list(FOLDER) if name.endswith(".tmp")]) == 0


def fail_once(disk: FaultyFiles, operation: str) -> None:
    def before(name: str, _count: int) -> None:
        if name == operation:
            disk.heal()
            raise OSError(errno.ENOSPC, "injected")

    disk.before_change = before


def fail_always(disk: FaultyFiles, *operations: str) -> None:
    def before(name: str, _count: int) -> None:
        if name in operations:
            raise OSError(errno.EIO, "injected")

    disk.before_change = before


def test_a_failed_write_is_undone_and_the_store_goes_on() -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        store = await opened(disk)
        lost: list[StoreError] = []
        store.on_session_lost(lost.append)
        await store.commit([Put("/a", b"1")])
        fail_once(disk, "pwritev")
        attempts = [store.commit([Put("/a", b"2", 0)]), store.commit([Put("/a", b"3", 1)])]
        outcomes = await asyncio.gather(*attempts, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [CommitFailedError, CommitFailedError]
        assert await entries_of(store) == {"/a": b"1"}
        assert await store.commit([Put("/a", b"4", 0)]) == 2
        await store.close()
        assert lost == []
        store = await opened(disk.after_crash(Random(1)))
        assert await entries_of(store) == {"/a": b"4"}
        assert store.cut_bytes == 0
        await store.close()

    run(scenario())


@pytest.mark.parametrize("operations", [("fdatasync",), ("pwritev", "truncate")])
def test_when_nobody_knows_what_is_on_disk_the_store_ends(operations: tuple[str, ...]) -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        store = await opened(disk)
        lost: list[StoreError] = []
        store.on_session_lost(lost.append)
        await store.commit([Put("/a", b"1")])
        fail_always(disk, *operations)
        with pytest.raises(OutcomeUnknownError):
            await store.commit([Put("/a", b"2")])
        disk.heal()
        for call in (store.commit([Put("/a", b"3")]), store.read("/a"), store.sync()):
            with pytest.raises(OutcomeUnknownError):
                await call
        assert [type(error) for error in lost] == [OutcomeUnknownError]
        await store.close()
        store = await opened(disk.after_kill())
        assert (await entries_of(store))["/a"] in (b"1", b"2")
        await store.close()

    run(scenario())


@pytest.mark.parametrize("operation", ["open", "rename", "unlink"])
def test_a_failed_rotation_costs_only_space(operation: str) -> None:
    async def scenario() -> None:
        disk = FaultyFiles()
        store = await opened(disk, rotate_bytes=200)
        fail_always(disk, operation)
        for number in range(20):
            await store.commit([Put(f"/n/{number}", b"v" * 20)])
        disk.heal()
        expected = await entries_of(store)
        await store.close()
        for after in (disk.after_kill(), disk.after_crash(Random(2))):
            store = await opened(after)
            assert await entries_of(store) == expected
            await store.close()

    run(scenario())
