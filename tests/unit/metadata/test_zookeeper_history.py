"""What a log of commits means, without any ZooKeeper: order of one writer, repetitions, refusals, forgetting; and that
it is read from a snapshot as it was written."""

from __future__ import annotations

import pytest

from moldau.metadata import frames
from moldau.metadata.frames import Commit
from moldau.metadata.store import ABSENT, Check, CorruptStoreError, Delete, Operation, Put, VersionConflictError
from moldau.metadata.zookeeper import history as rules
from moldau.metadata.zookeeper import snapshots
from moldau.metadata.zookeeper.history import History, Judged
from moldau.metadata.zookeeper.layout import Layout, parents_of
from moldau.metadata.zookeeper.snapshots import Head, SnapshotName
from moldau.work.slices import at_once


def judge(history: History, writer: int, number: int, *operations: Operation) -> Judged:
    frame = at_once(frames.encoding(Commit(writer, number, operations)))
    return at_once(history.judging(at_once(frames.decoding(frame))))


def test_commits_of_one_writer_are_taken_once_and_in_order() -> None:
    history = History()
    late = judge(history, 7, 2, Put("/b", b""))
    assert (late.outcome, history.revision, history.accepted) == (None, 1, 0)
    first = judge(history, 7, 1, Put("/a", b""))
    assert first.outcome is not None and (first.outcome.revision, first.outcome.refusal) == (2, None)
    assert judge(history, 7, 1, Put("/a", b"")).outcome is None
    second = judge(history, 7, 2, Put("/b", b""))
    assert second.outcome is not None and second.outcome.revision == 4
    assert {path: entry.version for path, entry in history.entries.items()} == {"/a": 0, "/b": 0}


def test_a_refused_commit_is_taken_and_changes_nothing() -> None:
    history = History()
    judge(history, 1, 1, Put("/a", b"", ABSENT))
    operations: tuple[Operation, ...] = (Put("/b", b""), Delete("/a", 3), Check("/c", ABSENT))
    refused = judge(history, 1, 2, *operations)
    assert refused.planned is None and refused.outcome is not None and refused.outcome.refusal is not None
    error = refused.outcome.refusal.as_error(operations)
    assert isinstance(error, VersionConflictError) and (error.path, error.expected, error.actual) == ("/a", 3, 0)
    assert list(history.entries) == ["/a"] and (history.revision, history.accepted) == (2, 1)
    assert judge(history, 1, 2, Put("/b", b"")).outcome is None


def test_a_barrier_has_a_place_and_no_revision_of_its_own() -> None:
    history = History()
    judge(history, 1, 1, Put("/a", b""))
    barrier = judge(history, 1, 2)
    assert barrier.outcome is not None
    assert (barrier.outcome.revision, history.revision, history.accepted) == (2, 2, 1)


def test_a_writer_that_is_silent_for_long_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "WRITER_MEMORY", 3)
    history = History()
    judge(history, 1, 1, Put("/a", b""))
    for number in range(1, 3):
        judge(history, 2, number)
    assert list(history.writers) == [1, 2]
    history.pass_by()
    assert list(history.writers) == [2]
    assert judge(history, 1, 2, Put("/b", b"")).outcome is None
    assert judge(history, 3, 1, Put("/b", b"")).outcome is not None


def test_a_snapshot_goes_on_where_the_history_stood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PART_BYTES", 100)
    history = History()
    for number in range(1, 100):
        judge(history, number % 3, number // 3 + 1, Put(f"/n/{number % 40}", bytes([number]) * 9, number % 4 - 1))
    copy = snapshots.copy_of(history)
    parts = at_once(snapshots.encoding(copy))
    assert len(parts) > 1 and all(len(part) <= 100 for part in parts)
    loaded = snapshots.decode(parts, "s")
    assert loaded == history
    assert list(loaded.writers) == list(history.writers)
    for each in (loaded, history):
        judge(each, 1, 34, Put("/after", b""))
    assert loaded == history
    assert copy != history
    with pytest.raises(CorruptStoreError):
        snapshots.decode(parts[:-1], "s")


def test_head_names_the_two_newest_snapshots() -> None:
    head = Head()
    assert (head.revision, head.trimmed_below) == (0, 0)
    for revision in (10, 20, 30):
        head = head.with_newest(SnapshotName(f"{revision}-w", revision, 1))
    assert (head.revision, head.trimmed_below) == (30, 20)
    assert snapshots.decode_head(snapshots.encode_head(head), "head") == head
    for bad in (b"", b"{}", b"[]"):
        with pytest.raises(CorruptStoreError):
            snapshots.decode_head(bad, "head")


@pytest.mark.parametrize("frame", [b"", b"Mc", b"what", b"\0" * 30])
def test_bytes_of_others_are_no_commits(frame: bytes) -> None:
    with pytest.raises(frames.ForeignFrameError):
        at_once(frames.decoding(frame))


def test_damaged_frames_are_told() -> None:
    good = at_once(frames.encoding(Commit(1, 1, [Put("/a", b"x" * 100)])))
    for bad in (good[:-1], good[:20], good[:5] + b"\xff" + good[6:]):
        with pytest.raises(frames.UnreadableFrameError):
            at_once(frames.decoding(bad))


def test_places_and_revisions() -> None:
    layout = Layout("/kafka", generation_entries=3)
    assert [layout.entry(revision).removeprefix("/kafka/moldau/log/") for revision in (1, 3, 4, 7)] == [
        "0/c0000000000", "0/c0000000002", "1/c0000000000", "2/c0000000000",
    ]  # fmt: skip
    for revision in range(1, 10):
        assert layout.revision_of(layout.generation_of(revision), layout.entry(revision)) == revision
    # ZooKeeper's counter goes on, and becomes negative one day: such places mean nothing.
    assert layout.revision_of(0, "c0000000003") is None
    assert layout.revision_of(0, "c-2147483648") is None
    assert layout.as_described(layout.description()) == layout
    with pytest.raises(CorruptStoreError):
        layout.as_described(b"something else")
    assert parents_of("/a/b/c") == ["/a", "/a/b", "/a/b/c"]
