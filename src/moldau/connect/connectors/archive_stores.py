"""Where an archive lies: a folder, or a bucket. Objects are written whole, and replaced only as they were last seen.

A folder's writer holds a lock on a file of it, and everything is on disk when a call returns. In a bucket the condition
goes with the request (`If-None-Match`, `If-Match`): of two writers who saw the same, one is refused.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from obstore.store import ObjectStore

LOCAL: Final = "file://"
S3: Final = "s3://"
PREFIXES: Final = {"s3": "aws_", "gs": "google_", "az": "azure_"}
"""What the names of options begin with."""
RETRY_SECONDS: Final = 60
REASON: Final = 400
NO_BUCKET: Final = "NoSuchBucket"


class Taken(Exception):
    """Somebody else wrote in the meantime."""


class ArchiveAway(OSError):
    """The store does not answer, or refuses."""


@dataclass(frozen=True, slots=True)
class Blob:
    content: bytes
    tag: str
    """Changes with the content."""


class Store(Protocol):
    name: str

    def read(self, path: str) -> Blob | None: ...

    def tag(self, path: str) -> str | None:
        """None: there is no such object."""

    def create(self, path: str, content: bytes) -> str:
        """Raises Taken if it is there."""

    def replace(self, path: str, content: bytes, tag: str) -> str:
        """Raises Taken if it is not as it was."""

    def names(self, path: str) -> list[str]:
        """What lies directly below."""

    def locked(self, path: str) -> Any:
        """A context in which this process is the only one on this machine."""


def is_folder(url: str) -> bool:
    return "://" not in url or url.startswith(LOCAL)


def check_options(url: str, options: Mapping[str, str]) -> None:
    """Raises ValueError."""
    if is_folder(url):
        if options:
            raise ValueError(f"store.options.{next(iter(options))} is no option of {url}: a folder has none")
        return
    prefix = PREFIXES.get(url.partition("://")[0])
    if prefix is None:
        raise ValueError(f"{url} is no folder and none of {', '.join(PREFIXES)}")
    wrong = [name for name in options if not name.startswith(prefix)]
    if wrong:
        raise ValueError(f"store.options.{wrong[0]} is no option of {url}: those begin with {prefix}")


def store_of(url: str, options: Mapping[str, str], retries: int = 3) -> Store:
    check_options(url, options)
    return Folder(Path(url.removeprefix(LOCAL))) if is_folder(url) else Bucket(url, options, retries)


class Folder:
    def __init__(self, root: Path) -> None:
        self._root = root
        self.name = str(root)

    def read(self, path: str) -> Blob | None:
        try:
            with (self._root / path).open("rb") as file:
                return Blob(file.read(), tag_of(os.fstat(file.fileno())))
        except FileNotFoundError:
            return None

    def tag(self, path: str) -> str | None:
        try:
            return tag_of((self._root / path).stat())
        except FileNotFoundError:
            return None

    def create(self, path: str, content: bytes) -> str:
        if self.tag(path) is not None:
            raise Taken(f"{self._root / path} is there already")
        return self._write(self._root / path, content)

    def replace(self, path: str, content: bytes, tag: str) -> str:
        if self.tag(path) != tag:
            raise Taken(f"{self._root / path} was changed by somebody else")
        return self._write(self._root / path, content)

    def names(self, path: str) -> list[str]:
        with suppress(FileNotFoundError):
            return sorted(os.listdir(self._root / path))
        return []

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        place = self._root / f"{path}.lock"
        make_folder(place.parent)
        with place.open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @staticmethod
    def _write(path: Path, content: bytes) -> str:
        make_folder(path.parent)
        fresh = path.with_name(f".{path.name}.new")
        with fresh.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            tag = tag_of(os.fstat(file.fileno()))
        fresh.replace(path)
        sync_folder(path.parent)
        return tag


def tag_of(found: os.stat_result) -> str:
    return f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"


def make_folder(path: Path) -> None:
    if path.is_dir():
        return
    make_folder(path.parent)
    path.mkdir(exist_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


class Bucket:
    """S3 and what speaks its protocol, Google Cloud Storage, Azure: whatever obstore knows."""

    def __init__(self, url: str, options: Mapping[str, str], retries: int) -> None:
        self.name = url
        self._options = dict(options)
        self._retries = retries
        self._made: ObjectStore | None = None

    def read(self, path: str) -> Blob | None:
        import obstore

        with self._told(path):
            try:
                found = obstore.get(self._store(), path)
                return Blob(bytes(found.bytes()), str(found.meta["e_tag"]))
            except FileNotFoundError as error:
                if NO_BUCKET in str(error):
                    raise
                return None

    def tag(self, path: str) -> str | None:
        import obstore

        with self._told(path):
            try:
                return obstore.head(self._store(), path)["e_tag"]
            except FileNotFoundError as error:
                if NO_BUCKET in str(error):
                    raise
                return None

    def create(self, path: str, content: bytes) -> str:
        return self._put(path, content, "create")

    def replace(self, path: str, content: bytes, tag: str) -> str:
        return self._put(path, content, {"e_tag": tag})

    def names(self, path: str) -> list[str]:
        import obstore

        with self._told(path):
            found = obstore.list_with_delimiter(self._store(), path)
        below = [*found["common_prefixes"], *(each["path"] for each in found["objects"])]
        return sorted(each.rsplit("/", 1)[-1] for each in below)

    @contextmanager
    def locked(self, path: str) -> Iterator[None]:
        yield

    def _put(self, path: str, content: bytes, mode: Any) -> str:
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        with self._told(path):
            try:
                made = obstore.put(self._store(), path, content, mode=mode, use_multipart=False)
            except (AlreadyExistsError, PreconditionError):
                raise Taken(f"{self.name}/{path} was written by somebody else") from None
        return str(made["e_tag"])

    def _store(self) -> ObjectStore:
        if self._made is None:
            from obstore.store import from_url

            retry: Any = {"max_retries": self._retries, "retry_timeout": timedelta(seconds=RETRY_SECONDS)}
            plain = any(value.startswith("http://") for value in self._options.values())
            given: Any = self._options or None
            made: Any = from_url(self.name, config=given, client_options={"allow_http": plain}, retry_config=retry)
            self._made = made
        assert self._made is not None
        return self._made

    @contextmanager
    def _told(self, path: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, PermissionError) as error:
            raise ArchiveAway(f"{self.name} cannot be used ({path}): {reason_of(str(error))}") from None


def reason_of(text: str) -> str:
    """Without what obstore shows of its insides."""
    return text.partition("Debug source")[0].replace("\n", " ").strip()[:REASON]
