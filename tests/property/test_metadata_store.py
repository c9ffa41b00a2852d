"""The embedded store against a plain model: random commits, groups of them, reopenings; and its files byte by byte."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moldau.metadata import journal
from moldau.metadata.local import LocalStore
from moldau.metadata.store import (
    ABSENT,
    Change,
    Check,
    CorruptStoreError,
    Delete,
    Operation,
    Put,
    VersionConflictError,
    Versioned,
)
from moldau.work import slices
from tests.fakes.faulty_files import FaultyFiles

T = TypeVar("T")
Model = dict[str, Versioned]

paths = st.sampled_from(["/a", "/b", "/b/c"])
expected = st.none() | st.integers(-1, 3)
values = st.binary(max_size=20)
operations = st.one_of(
    st.builds(Put, paths, values, expected),
    st.builds(Delete, paths, expected),
    st.builds(Check, paths, st.integers(-1, 3)),
)
commits = st.lists(operations, max_size=3, unique_by=lambda operation: operation.path)
# Each step: commits that are made at the same time, and whether the store is closed and opened again afterwards.
histories = st.lists(st.tuples(st.lists(commits, min_size=1, max_size=4), st.booleans()), max_size=12)


async def at_once(work: Callable[[], T]) -> T:
    return work()


def after(model: Model, commit: list[Operation], revision: int) -> Model | None:
    """The entries after a commit, None if it is refused."""
    changed = dict(model)
    for operation in commit:
        entry = model.get(operation.path)
        version = ABSENT if entry is None else entry.version
        if operation.expected_version not in (None, version):
            return None
        if isinstance(operation, Delete):
            if entry is None:
                return None
            del changed[operation.path]
        elif isinstance(operation, Put):
            created = revision if entry is None else entry.created
            changed[operation.path] = Versioned(operation.value, version + 1, created, revision)
    return changed


@settings(max_examples=200, deadline=None)
@given(histories, st.sampled_from([1, 150, 1 << 20]))
def test_the_store_does_what_the_model_does(
    history: list[tuple[list[list[Operation]], bool]], rotate_bytes: int
) -> None:
    async def scenario() -> None:
        files = FaultyFiles()
        store = await LocalStore.open("/m", at_once, files=files, rotate_bytes=rotate_bytes)
        model: Model = {}
        revision = 0
        for group, reopen in history:
            outcomes = await asyncio.gather(*map(store.commit, group), return_exceptions=True)
            for commit, outcome in zip(group, outcomes, strict=True):
                changed = after(model, commit, revision + 1)
                if changed is None:
                    assert isinstance(outcome, VersionConflictError)
                    continue
                revision += 1
                assert outcome == revision
                model = changed
            if reopen:
                await store.close()
                store = await LocalStore.open("/m", at_once, files=files, rotate_bytes=rotate_bytes)
            listing = await store.list("/")
            assert (listing.revision, dict(listing.entries)) == (revision, model)
        await store.close()
        assert files.open_handles == 0

    asyncio.run(scenario())


entries = st.builds(Versioned, values, st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1), st.just(7))
any_paths = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30).map("/".__add__)
changes = st.builds(Change, any_paths, st.none() | entries)


@given(st.lists(st.lists(changes, max_size=4), min_size=1, max_size=4))
def test_a_group_of_commits_is_read_as_it_was_written(group: list[list[Change]]) -> None:
    replayed = journal.replay(slices.at_once(journal.encode_group(7, group)), "file", last=False)
    written = [
        [Change(path, entry and entry._replace(revision=7 + number)) for path, entry in commit]
        for number, commit in enumerate(group)
    ]
    assert replayed.commits == [(7 + number, commit) for number, commit in enumerate(written)]


@given(st.dictionaries(any_paths, entries, max_size=20), st.integers(0, 2**63))
def test_a_snapshot_is_read_as_it_was_written(found: dict[str, Versioned], revision: int) -> None:
    data = b"".join(journal.encode_snapshot(revision, found))
    assert journal.decode_snapshot(data, "file") == (revision, found)


@given(st.binary(max_size=300), st.lists(st.lists(changes, max_size=2), min_size=1, max_size=2))
def test_garbage_after_a_journal_is_cut_or_reported_and_never_taken_for_commits(
    garbage: bytes, group: list[list[Change]]
) -> None:
    whole = slices.at_once(journal.encode_group(1, group))
    replayed = journal.replay(whole + garbage, "file", last=True)
    assert replayed.valid_bytes == len(whole)
    assert len(replayed.commits) == len(group)
    if garbage:
        with pytest.raises(CorruptStoreError) as corrupt:
            journal.replay(garbage + whole, "file", last=True)
        assert (corrupt.value.file, corrupt.value.position) == ("file", 0)
