"""Servers of other makers that sinks write to, as processes: MongoDB's protocol, OpenSearch."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.peers.java_programs import DOCUMENTS, OPTIONS, SEARCH, command
from tests.support.process import STOP_SECONDS, die_with_parent, free_port
from tests.support.waiting import wait_until

SECONDS = 180.0


class DataServer:
    """A program of `tests/peers` that prints `ready` and ends with its standard input. Folder and port stay."""

    def __init__(self, directory: Path, command: Callable[[Path, int], Sequence[str]]) -> None:
        self.data = directory / "data"
        self.data.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.port = free_port()
        self._command = command(self.data, self.port)
        self._log = directory / "server.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("wb") as out:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=out,
                cwd=self.directory,
                preexec_fn=die_with_parent,  # noqa: PLW1509
            )
        wait_until(self._is_ready, f"{self._log} says that it is ready", SECONDS)

    def _is_ready(self) -> bool:
        assert self._process is not None
        told = self._log.read_text(errors="replace")
        assert self._process.poll() is None, told[-3000:]
        return "ready" in told.split("\n")

    def stop(self) -> None:
        """With everything on the disk."""
        assert self._process is not None
        self._process.communicate(timeout=STOP_SECONDS)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()


class DocumentServer(DataServer):
    """Speaks MongoDB's protocol: mongo-java-server, which has all on the disk once it was stopped."""

    def __init__(self, directory: Path, *, changes: bool = False) -> None:
        """`changes`: with change streams, of collections."""
        more = ["oplog"] if changes else []
        super().__init__(
            directory, lambda data, port: command("DocumentServer", DOCUMENTS, [data / "file", port, *more])
        )

    @property
    def uri(self) -> str:
        """For connectors, which hear soon that it is away."""
        return f"{self._address}&serverSelectionTimeoutMS=2000"

    @property
    def _address(self) -> str:
        return f"mongodb://127.0.0.1:{self.port}/?directConnection=true"

    def documents(self, database: str, collection: str, *, places: bool = False) -> list[dict[str, Any]]:
        """By their ids; without the places that the sink puts into them."""
        from pymongo import MongoClient

        with MongoClient[dict[str, Any]](self._address, tz_aware=True) as client:
            found = list(client[database][collection].find().sort("_id", 1))
        if not places:
            for each in found:
                each.pop("_kafka", None)
        return found


class SearchServer(DataServer):
    """One node of OpenSearch."""

    def __init__(self, directory: Path) -> None:
        options = ["-Xmx512m" if each.startswith("-Xmx") else each for each in OPTIONS]
        super().__init__(directory, lambda data, port: command("SearchServer", SEARCH, [data, port], options))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"
