"""A folder whose files go to a topic, each once: Flume's spooling directory source, under its property names.

Files are finished when they appear (moved there whole, not written there), have names that do not come again, and are
read line by line, the oldest first. One that is read to its end, and committed, is renamed to `<name>.COMPLETED` or,
with `deletePolicy=immediate`, deleted. The position names the file, so a crash between the commit and the renaming
leaves a file that is renamed at the next start, not read again. Once it is finished the position says so (`done`): what
appears under its name then is another file, though it has the same size and, as file systems give them out again at
once, the same inode.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from moldau.config.definition import ConfigError, ConfigType
from moldau.connect.connectors.file_rotation import FileGone, is_tolerant
from moldau.connect.connectors.files import ROWS, checksum, end_of_lines, is_continued
from moldau.connect.definitions import REQUIRED, ConfigDef, Key, at_least, not_empty, one_of
from moldau.connect.interface import Position, SourceConnector, Stream

if TYPE_CHECKING:
    import os

    import pyarrow as pa

log = logging.getLogger(__name__)


class FileNameTaken(Exception):
    """A file of this name was finished before."""


class FileChanged(Exception):
    """A file was written to after it had been put into the folder."""


def check_pattern(name: str, value: Any) -> None:
    try:
        re.compile(value)
    except re.error as error:
        raise ConfigError(name, value, f"it is no regular expression: {error}") from None


class SpoolDirSource(SourceConnector):
    CONFIG: ClassVar = ConfigDef(
        Key("spoolDir", default=REQUIRED, doc="The folder.", importance="HIGH", check=not_empty),
        Key("topic", default=REQUIRED, doc="Where the lines go.", importance="HIGH", check=not_empty),
        Key("fileSuffix", default=".COMPLETED", doc="What finished files get behind their names.", check=not_empty),
        Key("deletePolicy", default="never", doc="never or immediate.", check=one_of("never", "immediate")),
        Key("fileHeader", ConfigType.BOOLEAN, "false", "Whether a header has the path of the file."),
        Key("fileHeaderKey", default="file", doc="The name of that header."),
        Key("basenameHeader", ConfigType.BOOLEAN, "false", "Whether a header has the name of the file."),
        Key("basenameHeaderKey", default="basename", doc="The name of that header."),
        Key("includePattern", default="^.*$", doc="A pattern for the names of files to read.", check=check_pattern),
        Key("ignorePattern", default="^$", doc="A pattern for the names of files to leave.", check=check_pattern),
        Key("consumeOrder", default="oldest", doc="oldest or youngest first.", check=one_of("oldest", "youngest")),
        Key("batch.bytes", ConfigType.INT, "16777216", "How much of a file one batch reads.", "LOW", at_least(1)),
    )

    def streams(self) -> Sequence[Stream]:
        folder = Path(self.config["spoolDir"])
        if not folder.is_dir():
            raise NotADirectoryError(f"{folder} is no folder")
        return [Stream({"spoolDir": str(folder)}, self.config["topic"])]

    def latest(self, stream: Stream, position: Position | None) -> Position | None:
        folder = Path(stream.partition["spoolDir"])
        if position is not None and (more := self._rest(folder, position)) is not None:
            return more
        while (path := self._next(folder)) is not None:
            found = self._position(path, 0)
            if found["position"] > 0:
                return found
            self._finish(path)
        if position is None or "done" in position:
            return position
        return {**position, "from": position["position"], "done": True}

    def _rest(self, folder: Path, position: Position) -> Position | None:
        """What is left of the file that is being read; one that is read to its end is finished."""
        if "done" in position:
            return None
        path = folder / position["file"]
        now = path.stat() if path.exists() else None
        unread = position["size"] - position["position"]
        if now is not None and is_the_same(now, position):
            if unread > 0:
                return self._position(path, position["position"])
            self._finish(path)
            return None
        if now is not None and was_written_to(path, now, position):
            sizes = f"it had {position['size']} bytes when it was first read, and has {now.st_size} now"
            raise FileChanged(f"{path} was written to after it had been put there: {sizes}")
        if unread > 0:
            self._tell_gone(path, unread, position["size"])
        return None

    def _tell_gone(self, path: Path, unread: int, size: int) -> None:
        problem = f"{path} was taken away before it was read to its end: {unread} of its {size} bytes are lost"
        if not is_tolerant(self.config):
            raise FileGone(f"{problem}; put it back, or go on without them with errors.tolerance=all")
        log.warning("%s", problem)

    def _position(self, path: Path, begin: int) -> Position:
        now = path.stat()
        end = end_of_lines(path, begin, self.config["batch.bytes"])
        # The last line may lack its end: nothing comes behind it.
        end = now.st_size if end == begin else end
        return {
            "file": path.name,
            "inode": now.st_ino,
            "size": now.st_size,
            "mtime": now.st_mtime_ns,
            "from": begin,
            "position": end,
            "check": checksum(path, end),
        }

    def _next(self, folder: Path) -> Path | None:
        suffix = self.config["fileSuffix"]
        waiting = [
            (entry.stat().st_mtime_ns, entry.name)
            for entry in folder.iterdir()
            if entry.is_file()
            and not entry.name.startswith(".")
            and not entry.name.endswith(suffix)
            and re.fullmatch(self.config["includePattern"], entry.name)
            and not re.fullmatch(self.config["ignorePattern"], entry.name)
        ]
        if not waiting:
            return None
        chosen = min(waiting) if self.config["consumeOrder"] == "oldest" else max(waiting)
        return folder / chosen[1]

    def _finish(self, path: Path) -> None:
        if self.config["deletePolicy"] == "immediate":
            path.unlink()
            return
        target = path.with_name(f"{path.name}{self.config['fileSuffix']}")
        if target.exists():
            raise FileNameTaken(f"{target} is there already: names of files must not come again; rename {path.name}")
        path.rename(target)

    def read(self, stream: Stream, begin: Position | None, end: Position) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_type

        from moldau.spark.schema import HEADER_TYPE

        if "done" in end:
            return
        path = Path(stream.partition["spoolDir"]) / end["file"]
        with path.open("rb") as file:
            file.seek(end["from"])
            content = file.read(end["position"] - end["from"])
        if not is_the_same(path.stat(), end):
            raise FileChanged(f"{path} is another file than the one that was to be read")
        headers = self._headers(path)
        lines = content.decode("utf-8", "replace").encode().splitlines()
        for at in range(0, len(lines), ROWS):
            several = lines[at : at + ROWS]
            columns = {"value": pa.array(several, pa.binary()).cast(pa.string())}
            if headers:
                columns["headers"] = pa.array([headers] * len(several), to_arrow_type(HEADER_TYPE))
            yield pa.RecordBatch.from_pydict(columns)

    def _headers(self, path: Path) -> list[dict[str, Any]]:
        found = []
        if self.config["fileHeader"]:
            found.append({"key": self.config["fileHeaderKey"], "value": str(path).encode()})
        if self.config["basenameHeader"]:
            found.append({"key": self.config["basenameHeaderKey"], "value": path.name.encode()})
        return found

    def validate_position(self, partition: Any, position: Any) -> None:
        if set(partition) != {"spoolDir"}:
            raise ValueError("Partition objects should contain the key 'spoolDir'")
        if position is not None and not {"file", "inode", "size", "position"} <= set(position):
            raise ValueError("Offset objects should either be null or contain file, inode, size and position")


def is_the_same(now: os.stat_result, position: Position) -> bool:
    """A position that somebody set may lack the time."""
    described = now.st_ino, now.st_size, now.st_mtime_ns
    return described == (position["inode"], position["size"], position.get("mtime", now.st_mtime_ns))


def was_written_to(path: Path, now: os.stat_result, position: Position) -> bool:
    """Rather than replaced by another file. One that is read to its end and only has another time is taken for another:
    no file is deleted that may be unread."""
    if now.st_ino != position["inode"]:
        return False
    unread = position["size"] - position["position"]
    return unread > 0 or (now.st_size > position["size"] and is_continued(path, position))
