"""What an archive has of a partition: the files with their offsets, kept beside them as JSON.

    {"topic": "t", "partition": 0, "version": 7, "next": 200,      everything below 200 is archived
     "types": [<types of Spark, as JSON>],
     "files": [{"path": "topics/t/partition=0/t+0+0000000100.snappy.parquet", "first": 100, "last": 199, …}],
     "pages": [{"path": …, "first": 0, "last": 99, …}],            older files, in objects of their own
     "writing": {"topics/t/partition=0/t+0+0000000200.snappy.parquet": 200}}

It is replaced only as it was read, and twice for new files: it first says which will be written (`writing`), which
refuses whoever has read it before, and takes them in when they are there. What a crash leaves between the two bears a
name that stands in `writing`: it is written again, or emptied.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from moldau.connect.connectors.archive_stores import Store, Taken
from moldau.types.ids import TopicPartition

FORMAT: Final = 1
PAGE: Final = 1000
"""As many files stand in the manifest itself."""
FOLDER: Final = "_manifest"


class ArchiveDamaged(Exception):
    """What lies in the archive is not what its manifest says."""


class ArchiveTaken(Exception):
    """Another writer is at work on the same partition."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file."""

    path: str
    format: str
    first: int
    last: int
    records: int
    size: int
    crc: int
    first_timestamp: int | None
    """Of its first record, in milliseconds, as the two that follow."""
    least_timestamp: int | None
    greatest_timestamp: int | None
    key: str
    """Its type, as Spark's JSON."""
    value: str

    def checked(self, content: bytes | None) -> bytes:
        if content is None:
            raise ArchiveDamaged(f"{self.path} is missing; the manifest says that it has offsets {self.first} and on")
        if len(content) != self.size or zlib.crc32(content) != self.crc:
            raise ArchiveDamaged(f"{self.path} is not what was archived: its length or checksum differs")
        return content


@dataclass(frozen=True, slots=True)
class Page:
    path: str
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Manifest:
    topic: str
    partition: int
    version: int = 0
    next: int = 0
    files: tuple[Entry, ...] = ()
    pages: tuple[Page, ...] = ()
    writing: tuple[tuple[str, int], ...] = ()
    """Names that a crash may have left files under, with the offset in them."""

    def to_json(self) -> bytes:
        content: dict[str, Any] = {"format": FORMAT, "topic": self.topic, "partition": self.partition}
        content |= {"version": self.version, "next": self.next, **entries_to_json(self.files)}
        content |= {"pages": [asdict(page) for page in self.pages], "writing": dict(self.writing)}
        return json.dumps(content).encode()

    @classmethod
    def from_json(cls, path: str, text: bytes) -> Manifest:
        try:
            found = json.loads(text)
            if found["format"] != FORMAT:
                raise ArchiveDamaged(f"{path} has format {found['format']}, which only a later Moldau knows")
            return cls(
                found["topic"], found["partition"], found["version"], found["next"], entries_from_json(found),
                tuple(Page(**page) for page in found["pages"]), tuple(found["writing"].items()),
            )  # fmt: skip
        except (ValueError, LookupError, TypeError) as error:
            raise ArchiveDamaged(
                f"{path} is no manifest ({error!r}): put back the one of a backup, or move the folder of the topic "
                "away to begin a new archive"
            ) from None


def entries_to_json(entries: Iterable[Entry]) -> dict[str, Any]:
    """Types are written once: those of wide tables are long."""
    types: dict[str, int] = {}
    files = []
    for entry in entries:
        row = asdict(entry)
        for side in ("key", "value"):
            row[side] = types.setdefault(row[side], len(types))
        files.append(row)
    return {"types": list(types), "files": files}


def entries_from_json(found: dict[str, Any]) -> tuple[Entry, ...]:
    types = found["types"]
    return tuple(Entry(**{**row, "key": types[row["key"]], "value": types[row["value"]]}) for row in found["files"])


def manifest_path(folder: str, place: TopicPartition) -> str:
    return f"{folder}/{place.topic}/{FOLDER}/partition={place.partition}.json"


@dataclass(frozen=True, slots=True)
class Fresh:
    """A file to be written."""

    entry: Entry
    content: bytes


class Book:
    """The manifest of a partition, as it was last seen."""

    def __init__(self, store: Store, folder: str, place: TopicPartition) -> None:
        self._store = store
        self._path = manifest_path(folder, place)
        blob = store.read(self._path)
        self._tag = None if blob is None else blob.tag
        self.manifest = Manifest(*place) if blob is None else Manifest.from_json(self._path, blob.content)

    def entries(self, begin: int = 0) -> Iterator[Entry]:
        """All files with offsets from `begin` on."""
        for page in self.manifest.pages:
            if page.last >= begin:
                yield from (entry for entry in self._page(page) if entry.last >= begin)
        yield from (entry for entry in self.manifest.files if entry.last >= begin)

    def _page(self, page: Page) -> tuple[Entry, ...]:
        blob = self._store.read(page.path)
        if blob is None:
            raise ArchiveDamaged(f"{page.path} is missing, a part of {self._path}")
        try:
            return entries_from_json(json.loads(blob.content))
        except (ValueError, LookupError, TypeError) as error:
            raise ArchiveDamaged(f"{page.path} is no part of a manifest ({error!r})") from None

    def add(self, files: Sequence[Fresh], next_offset: int, empty: Callable[[str], bytes]) -> None:
        """Writes files and takes them in. `empty`: a file of that name without
        records."""
        known = dict(self.manifest.writing)
        names = {file.entry.path: file.entry.first for file in files}
        left = {name: first for name, first in known.items() if name not in names}
        self._save(replace(self.manifest, writing=tuple((names | left).items())))
        for file in files:
            self._write(file.entry.path, file.content, known=file.entry.path in known)
        for name in left:
            tag = self._store.tag(name)
            if tag is not None:
                self._store.replace(name, empty(name), tag)
        kept = self._paged((*self.manifest.files, *(file.entry for file in files)))
        # A name with a later offset may be asked for again.
        later = tuple((name, first) for name, first in left.items() if first >= next_offset)
        self._save(replace(kept, next=next_offset, writing=later))

    def _write(self, path: str, content: bytes, *, known: bool) -> None:
        tag = self._store.tag(path) if known else None
        try:
            if tag is None:
                self._store.create(path, content)
            else:
                self._store.replace(path, content, tag)
        except Taken as error:
            raise ArchiveTaken(
                f"{error}, and {self._path} does not have it: another connector archives the same topic to the same "
                "place, or the manifest was lost. Stop the other one; if there is none, move that file away"
            ) from None

    def _paged(self, files: tuple[Entry, ...]) -> Manifest:
        if len(files) <= PAGE:
            return replace(self.manifest, files=files)
        full, rest = files[:PAGE], files[PAGE:]
        first = min(entry.first for entry in full)
        path = self._path.removesuffix(".json") + f"/{first:020d}.json"
        content = json.dumps(entries_to_json(full)).encode()
        tag = self._store.tag(path)
        if tag is None:
            self._store.create(path, content)
        else:
            self._store.replace(path, content, tag)
        page = Page(path, first, max(entry.last for entry in full))
        return replace(self.manifest, files=rest, pages=(*self.manifest.pages, page))

    def _save(self, manifest: Manifest) -> None:
        fresh = replace(manifest, version=self.manifest.version + 1)
        try:
            if self._tag is None:
                self._tag = self._store.create(self._path, fresh.to_json())
            else:
                self._tag = self._store.replace(self._path, fresh.to_json(), self._tag)
        except Taken as error:
            raise ArchiveTaken(
                f"{error}: another worker archives {fresh.topic}-{fresh.partition}; this one goes on from where it is"
            ) from None
        self.manifest = fresh
