"""Lines of a file to a topic, and back: Kafka's FileStreamSource and FileStreamSink.

**Source.** The file may be missing, grow, be rotated (renamed, and begun anew: what was not read of the old one is read
first, then those that were rotated meanwhile, as long as they lie in the same folder) or be truncated and filled again.
A line counts when its end is there, or when its file was rotated and the next one has lines. A file that is gone before
it is known to be read to its end fails the task; with `errors.tolerance=all` that is logged. The position,
`{"position": …}` as Kafka's, also names the file (`inode`), where the batch before began (`from`), a checksum of the
last bytes before it, by which other content in their place is noticed, and when the file was last written (`mtime`).

**Sink.** The file has a companion for each connector, `.<file>.<connector>.connect`, which says up to which offset
each partition is written and how long the file was then, and, while a batch is written, how it will end. After a
crash an unfinished batch is cut off, or found to be complete; what others appended in the meantime is an error, never
lost. One process at a time may write: it holds a lock, `.<file>.lock`.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar, Final

from moldau.config.definition import ConfigType
from moldau.connect.connectors.file_rotation import FileGone, Held, Names, begun_after, find_inode, is_tolerant
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, not_empty
from moldau.connect.interface import Position, SinkConnector, SinkRecord, SourceConnector, Stream, StreamsChanged

if TYPE_CHECKING:
    import pyarrow as pa

    from moldau.types.ids import TopicPartition

log = logging.getLogger(__name__)

CHECKED_BYTES: Final = 1024
ROWS: Final = 50_000


class FileSource(SourceConnector):
    CONFIG: ClassVar = ConfigDef(
        Key("file", default=REQUIRED, importance="HIGH", doc="The file whose lines are sent.", check=not_empty),
        Key("topic", default=REQUIRED, importance="HIGH", doc="The topic to publish data to", check=not_empty),
        Key(
            "batch.size",
            ConfigType.INT,
            "2000",
            "The maximum number of records the source task can read from the file each time it is polled; here a "
            "batch is as large as 'batch.bytes' allows",
            "LOW",
        ),
        Key("batch.bytes", ConfigType.INT, "16777216", "How much of the file one batch reads.", "LOW", at_least(1)),
    )

    def __init__(self, config: Mapping[str, Any]) -> None:
        super().__init__(config)
        self._held = Held()

    def close(self) -> None:
        self._held.let_go()

    def streams(self) -> Sequence[Stream]:
        return [Stream({"filename": self.config["file"]}, self.config["topic"])]

    def latest(self, stream: Stream, position: Position | None) -> Position | None:
        path = Path(stream.partition["filename"])
        now = path.stat() if path.exists() else None
        if position is None:
            return None if now is None else self._begun(path, None)
        if now is not None and position.get("inode", now.st_ino) == now.st_ino:
            return self._same(path, now, position)
        return self._unless_renamed(path, position) if "inode" in position else position

    def _same(self, path: Path, now: os.stat_result, position: Position) -> Position | None:
        self._held.hold(path)
        read = position["position"]
        is_anew = read > now.st_size or not is_continued(path, position)
        found = self._more(path, 0 if is_anew else read, position)
        if not path.exists() or path.stat().st_ino != now.st_ino:
            return position  # renamed meanwhile: it may have been another one that was looked at
        if is_anew and found != position:
            log.warning("%s was truncated, or replaced, when %d bytes of it were read: it is begun anew", path, read)
        return found

    def _unless_renamed(self, path: Path, position: Position) -> Position | None:
        """What is found while files are renamed is not what counts: the next look will tell."""
        names = Names(path)
        try:
            found = self._rotated(path, position)
        except FileGone:
            if names.have_changed():
                return position
            raise
        return position if found != position and names.have_changed() else found

    def _rotated(self, path: Path, position: Position) -> Position | None:
        """The rest of the file that has another name now, or what was begun after it."""
        old = find_inode(path, position["inode"])
        if old is not None and not is_continued(old, position):
            old = None
        if old is not None:
            self._held.hold(old)
            if (more := self._more(old, position["position"], position)) != position:
                return more
        files = begun_after(path, old, position.get("mtime", 0))
        for number, later in enumerate(files):
            # Of the last to have lines the end of a line may still come, whatever its name.
            whole = any(end_of_lines(each, 0, self.config["batch.bytes"]) > 0 for each in files[number + 1 :])
            if self._more(later, 0, position, whole) == position:
                continue
            if old is None:
                self._tell_gone(path, position)
            elif (rest := self._more(old, position["position"], position, whole=True)) != position:
                return rest
            return self._begun(later, position, whole)
        return position

    def _begun(self, path: Path, position: Position | None, whole: bool = False) -> Position | None:
        self._held.hold(path)
        return self._more(path, 0, position, whole)

    def _tell_gone(self, path: Path, position: Position) -> None:
        """Nothing is said of a file of which it is known that it was read to its end."""
        size, read = self._held.size_of(position["inode"]), position["position"]
        if size is not None and size <= read:
            return
        lost = "whether lines behind them are lost is not known" if size is None else f"{size - read} bytes are lost"
        problem = f"{path} was begun anew, and the file before is gone, of which {read} bytes were read: {lost}"
        if not is_tolerant(self.config):
            raise FileGone(
                f"{problem}; move that file back beside {path.name}, or go on without it: with errors.tolerance=all, "
                "or by resetting the connector's offsets"
            )
        log.warning("%s", problem)

    def _more(self, path: Path, begin: int, position: Position | None, whole: bool = False) -> Position | None:
        """Up to where it can be read now; `position` if there is nothing new. `whole`: a last line without its end is
        one too."""
        now = path.stat()
        end = end_of_lines(path, begin, self.config["batch.bytes"])
        if end == begin and whole:
            end = now.st_size
        if end == begin:
            return position
        return {
            "position": end,
            "inode": now.st_ino,
            "mtime": now.st_mtime_ns,
            "from": begin,
            "check": checksum(path, end),
        }

    def read(self, stream: Stream, begin: Position | None, end: Position) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        path = Path(stream.partition["filename"])
        if not path.exists() or path.stat().st_ino != end["inode"]:
            found = find_inode(path, end["inode"])
            if found is None:
                raise FileNotFoundError(f"{path} was rotated away while it was read: inode {end['inode']} is gone")
            path = found
        with path.open("rb") as file:
            file.seek(end["from"])
            content = file.read(end["position"] - end["from"])
            # Afterwards: what was truncated before, or while that was read, shows here.
            if checksum_of(file, end["position"]) != end["check"]:
                raise StreamsChanged(f"{path} was truncated, or replaced, while it was read")
        lines = content.decode("utf-8", "replace").encode().splitlines()
        for at in range(0, len(lines), ROWS):
            yield pa.RecordBatch.from_pydict({"value": pa.array(lines[at : at + ROWS], pa.binary()).cast(pa.string())})

    def validate_position(self, partition: Any, position: Any) -> None:
        if set(partition) != {"filename"}:
            raise ValueError("Partition objects should contain the key 'filename'")
        if position is None:
            return
        if "position" not in position:
            raise ValueError("Offset objects should either be null or contain the key 'position'")
        if not isinstance(position["position"], int) or position["position"] < 0:
            raise ValueError("The value for the 'position' key in the offset should be a non-negative number")


def end_of_lines(path: Path, begin: int, most: int) -> int:
    """Where the last whole line ends, at most `most` bytes on unless a single line is longer."""
    with path.open("rb") as file:
        file.seek(begin)
        content = file.read(most)
        while True:
            # A carriage return at the very end may have its line feed still to come.
            ends = max(content.rfind(b"\n"), content.rfind(b"\r", 0, max(0, len(content) - 1)))
            if ends >= 0:
                return begin + ends + 1 + (content[ends : ends + 2] == b"\r\n")
            more = file.read(most)
            if not more:
                return begin
            content += more


def checksum(path: Path, position: int) -> int:
    with path.open("rb") as file:
        return checksum_of(file, position)


def checksum_of(file: IO[bytes], position: int) -> int:
    file.seek(max(0, position - CHECKED_BYTES))
    return zlib.crc32(file.read(min(position, CHECKED_BYTES)))


def is_continued(path: Path, position: Position) -> bool:
    return "check" not in position or checksum(path, position["position"]) == position["check"]


# -- the sink --------------------------------------------------------------------------------------------------------


class FileSink(SinkConnector):
    EXACT: ClassVar = "the offsets up to which the file is written stand in a companion file, with its length"
    ONE_WRITER: ClassVar = True
    CONFIG: ClassVar = ConfigDef(
        Key(
            "file", default=REQUIRED, importance="HIGH", doc="The file that the lines are appended to.", check=not_empty
        )
    )

    def write(self, records: Iterator[SinkRecord]) -> None:
        with Companion(Path(self.config["file"]), self.config["name"]) as companion:
            companion.recover()
            for pieces, offsets in self._pieces(records, companion):
                companion.append(b"".join(pieces), offsets)

    def alter(self, offsets: Mapping[TopicPartition, int | None]) -> None:
        with Companion(Path(self.config["file"]), self.config["name"]) as companion:
            companion.recover()
            companion.alter({str(place): offset for place, offset in offsets.items()})

    def _pieces(
        self, records: Iterable[SinkRecord], companion: Companion
    ) -> Iterator[tuple[list[bytes], dict[str, int]]]:
        pieces: list[bytes] = []
        offsets = dict(companion.offsets)
        for record in records:
            place = str(record.source)
            if record.order < offsets.get(place, 0):
                continue
            pieces.append(line_of(record.value))
            offsets[place] = record.order + 1
            if len(pieces) == ROWS:
                yield pieces, dict(offsets)
                pieces = []
        if pieces:
            yield pieces, offsets


def line_of(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray):
        return bytes(value) + b"\n"
    if isinstance(value, str):
        return value.encode() + b"\n"
    return ("null" if value is None else json.dumps(value, ensure_ascii=False, default=str)).encode() + b"\n"


class FileChanged(Exception):
    """Somebody else wrote to the sink's file while a batch was not finished."""


class Companion:
    """What is known of a sink's file, under a lock.

    {"offsets": {"topic-0": 12}, "length": 345}           written up to there
    {…, "next": {"offsets": …, "bytes": 67, "crc": 89}}   being written
    """

    def __init__(self, path: Path, connector: str) -> None:
        self._path = path
        self._place = path.with_name(f".{path.name}.{connector.replace('/', '_')}.connect")
        self._lock: IO[bytes] | None = None
        self.offsets: dict[str, int] = {}
        self._length = 0
        self._next: dict[str, Any] | None = None

    def __enter__(self) -> Companion:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = self._path.with_name(f".{self._path.name}.lock").open("ab")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        if self._place.exists():
            found = json.loads(self._place.read_bytes())
            self.offsets, self._length, self._next = found["offsets"], found["length"], found.get("next")
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def recover(self) -> None:
        """Ends what a crash has interrupted."""
        if self._next is None:
            return
        length, count = self._size(), self._next["bytes"]
        written = max(0, length - self._length)
        if written >= count and self._checksum(self._length, count) == self._next["crc"]:
            self.offsets = self._next["offsets"]
        elif written <= count and length >= self._length:
            os.truncate(self._path, self._length)
        elif length > self._length:
            raise FileChanged(
                f"{self._path} has {written - count} bytes that a batch which was not finished did not write: others "
                f"append to it. Put them aside, cut the file to {self._length} bytes and restart the connector"
            )
        self._next = None
        self._save()

    def append(self, content: bytes, offsets: dict[str, int]) -> None:
        # Others may have appended, or have emptied it, since the last batch: that is theirs to do.
        self._length = self._size()
        self._next = {"offsets": offsets, "bytes": len(content), "crc": zlib.crc32(content)}
        self._save()
        with self._path.open("ab") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self.offsets, self._length, self._next = offsets, self._length + len(content), None
        self._save()

    def alter(self, offsets: Mapping[str, int | None]) -> None:
        kept = {place: offset for place, offset in self.offsets.items() if place not in offsets}
        self.offsets = kept | {place: offset for place, offset in offsets.items() if offset is not None}
        self._save()

    def _size(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0

    def _checksum(self, at: int, count: int) -> int:
        with self._path.open("rb") as file:
            file.seek(at)
            return zlib.crc32(file.read(count))

    def _save(self) -> None:
        content: dict[str, Any] = {"offsets": self.offsets, "length": self._length}
        if self._next is not None:
            content["next"] = self._next
        fresh = self._place.with_suffix(".new")
        with fresh.open("wb") as file:
            file.write(json.dumps(content).encode())
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._place)
