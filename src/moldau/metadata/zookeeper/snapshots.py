"""A history as bytes, in parts that ZooKeeper takes, and the node that names the newest ones. No I/O.

A snapshot is one zlib stream, cut into parts. Inside (integers big-endian):

    entries length u64 | the entries, as the embedded store's snapshots have them (journal.py)
    accepted revision u64 | number of writers u32 | writers, the one that was silent for longest first
    writer    id u64 | number of outcomes u32 | outcomes
    outcome   number u64 | revision u64 | refused operation i32 (-1: accepted) | version that it met i64

Head is JSON: {"form": 1, "snapshots": [{"name", "revision", "parts"}, the one before]}.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from moldau.metadata import journal
from moldau.metadata.store import CorruptStoreError, LaterReleaseError, Revision
from moldau.metadata.zookeeper.history import History, Outcome, Refusal, Writer
from moldau.work.slices import Work

FORM = 1
PART_BYTES = 800_000
COMPRESSION_LEVEL = 1
KEPT = 2

_SIZE = struct.Struct(">Q")
_WRITERS = struct.Struct(">QI")
_WRITER = struct.Struct(">QI")
_OUTCOME = struct.Struct(">QQiq")
_ACCEPTED = -1


@dataclass(frozen=True, slots=True)
class SnapshotName:
    name: str
    revision: Revision
    parts: int


@dataclass(frozen=True, slots=True)
class Head:
    """The newest snapshots, the newest first."""

    snapshots: tuple[SnapshotName, ...] = ()

    @property
    def revision(self) -> Revision:
        return self.snapshots[0].revision if self.snapshots else 0

    def with_newest(self, newest: SnapshotName) -> Head:
        return Head((newest, *self.snapshots)[:KEPT])

    @property
    def trimmed_below(self) -> Revision:
        """Entries of the log up to this revision are needed by nobody."""
        return self.snapshots[-1].revision if len(self.snapshots) == KEPT else 0


def encode_head(head: Head) -> bytes:
    snapshots = [{"name": each.name, "revision": each.revision, "parts": each.parts} for each in head.snapshots]
    return json.dumps({"form": FORM, "snapshots": snapshots}).encode()


def decode_head(data: bytes, path: str) -> Head:
    try:
        found = json.loads(data)
        if found["form"] != FORM:
            raise LaterReleaseError(path, int(found["form"]), FORM)
        return Head(
            tuple(
                SnapshotName(str(each["name"]), int(each["revision"]), int(each["parts"]))
                for each in found["snapshots"]
            )
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptStoreError(path, 0, f"it names no snapshots: {error!r}") from error


def copy_of(history: History) -> History:
    """What goes on while the copy is encoded does not touch it."""
    writers = {name: Writer(each.last, each.revision, each.outcomes.copy()) for name, each in history.writers.items()}
    return History(history.revision, history.accepted, dict(history.entries), writers)


def encoding(history: History) -> Work[list[bytes]]:
    packed = zlib.compressobj(COMPRESSION_LEVEL)
    frames = []
    for frame in journal.encode_snapshot(history.revision, history.entries):
        frames.append(frame)
        yield
    compressed = [packed.compress(_SIZE.pack(sum(map(len, frames))))]
    for frame in frames:
        compressed.append(packed.compress(frame))
        yield
    compressed += (packed.compress(_encoded_writers(history)), packed.flush())
    whole = b"".join(compressed)
    return [whole[at : at + PART_BYTES] for at in range(0, len(whole), PART_BYTES)]


def decode(parts: Sequence[bytes], path: str) -> History:
    """Raises CorruptStoreError."""
    try:
        data = zlib.decompress(b"".join(parts))
        (size,) = _SIZE.unpack_from(data)
        end = _SIZE.size + size
        revision, entries = journal.decode_snapshot(data[_SIZE.size : end], path)
        accepted, writers = _decoded_writers(data, end)
    except (zlib.error, struct.error) as error:
        raise CorruptStoreError(path, 0, f"the snapshot is damaged: {error}") from error
    return History(revision, accepted, entries, writers)


def _encoded_writers(history: History) -> bytes:
    parts = [_WRITERS.pack(history.accepted, len(history.writers))]
    for name, writer in history.writers.items():
        parts.append(_WRITER.pack(name, len(writer.outcomes)))
        for each in writer.outcomes:
            refused = (_ACCEPTED, 0) if each.refusal is None else (each.refusal.operation, each.refusal.actual)
            parts.append(_OUTCOME.pack(each.number, each.revision, *refused))
    return b"".join(parts)


def _decoded_writers(data: bytes, position: int) -> tuple[Revision, dict[int, Writer]]:
    accepted, count = _WRITERS.unpack_from(data, position)
    position += _WRITERS.size
    writers: dict[int, Writer] = {}
    for _ in range(count):
        name, size = _WRITER.unpack_from(data, position)
        position += _WRITER.size
        writer = writers[name] = Writer()
        for _ in range(size):
            number, revision, operation, actual = _OUTCOME.unpack_from(data, position)
            position += _OUTCOME.size
            refusal = None if operation == _ACCEPTED else Refusal(operation, actual)
            writer.outcomes.append(Outcome(number, revision, refusal))
            writer.last, writer.revision = number, revision
    return accepted, writers
