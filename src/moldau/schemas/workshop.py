"""Schemas read and compared in worker processes, which are ended when they take too long or die of what they read.

Blocking calls, from any thread; each takes a worker for itself. A worker that died is replaced at the next call.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Final, NamedTuple

from moldau.schemas.model import SchemaError
from moldau.schemas.tags import Entity, Wishes
from moldau.schemas.worker import LENGTH, framed

SECONDS: Final = 10.0
WORKERS: Final = 2


class Text(NamedTuple):
    """A schema with the texts of what it refers to."""

    kind: str
    text: str
    referred: Mapping[str, str]


class Read(NamedTuple):
    canonical: str
    normalized: str


class Busy(Exception):
    """All workers had others to serve."""


class Unfinished(SchemaError):
    """It took too long, or ended its worker: another time it may be different."""


class Workshop:
    def __init__(self, workers: int = WORKERS, seconds: float = SECONDS, patience: float | None = None) -> None:
        """`seconds`: for one schema; `patience`: how long to wait for a worker, after which Busy is raised. None is for
        ever."""
        self._seconds = seconds
        self._patience = patience
        self._idle: queue.LifoQueue[Worker] = queue.LifoQueue()
        for _ in range(workers):
            self._idle.put(Worker())
        self._count = workers

    def __enter__(self) -> Workshop:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for _ in range(self._count):
            self._idle.get(timeout=2 * self._seconds).end()
        self._count = 0

    def parse(self, schema: Text, *, check: bool = True) -> Read:
        return Read(**self._ask({"do": "parse", **schema._asdict(), "check": check}))

    def format(self, schema: Text, form: str) -> str:
        return str(self._ask({"do": "format", **schema._asdict(), "form": form}))

    def compare(
        self, level: str, new: Text, earlier: Sequence[tuple[int, Text]], *, lenient: bool = False
    ) -> list[str]:
        """What is wrong, told; empty if nothing is."""
        before = [{"version": version, **schema._asdict()} for version, schema in earlier]
        found = self._ask({"do": "compare", **new._asdict(), "level": level, "earlier": before, "lenient": lenient})
        return list(found)

    def check(self, schema: Text, value: Any) -> tuple[str, str] | None:
        """Where and how a value breaks a JSON Schema. Raises Busy."""
        found = self._ask({"do": "check", **schema._asdict(), "value": value}, self._seconds)
        return None if found is None else (found[0], found[1])

    def descriptors(self, schema: Text) -> list[bytes]:
        """The files of a Protobuf schema, imported ones first."""
        return [base64.b64decode(each) for each in self._ask({"do": "descriptors", **schema._asdict()})]

    def tagged(self, schema: Text) -> dict[Entity, list[str]]:
        found = self._ask({"do": "tagged", **schema._asdict()})
        return {Entity(path, kind): tags for path, kind, tags in found}

    def retagged(self, schema: Text, more: Wishes, fewer: Wishes) -> str:
        wishes = {
            name: [[*entity, list(tags)] for entity, tags in each.items()]
            for name, each in (("more", more), ("fewer", fewer))
        }
        return str(self._ask({"do": "retagged", **schema._asdict(), **wishes}))

    def top_fields(self, schema: Text) -> list[str]:
        return list(self._ask({"do": "fields", **schema._asdict()}))

    def _ask(self, request: dict[str, Any], patience: float | None = None) -> Any:
        try:
            worker = self._idle.get(timeout=self._patience if patience is None else patience)
        except queue.Empty:
            raise Busy("no process that reads schemas was free in time") from None
        try:
            answer = json.loads(worker.ask(json.dumps(request).encode(), self._seconds))
        finally:
            self._idle.put(worker)
        if "refused" in answer:
            raise SchemaError(answer["refused"])
        return answer["done"]


class Worker:
    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def ask(self, request: bytes, seconds: float) -> bytes:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        try:
            process.stdin.write(framed(request))
            process.stdin.flush()
            return read_exactly(process.stdout.fileno(), LENGTH.unpack(read_exactly(process.stdout.fileno(), 4))[0])
        except (OSError, EOFError):
            slow = not timer.is_alive()
            self.end()
            why = f"took longer than {seconds:g} seconds" if slow else "ended the process that read it"
            raise Unfinished(f"the schema {why}") from None
        finally:
            timer.cancel()

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.end()
            command = [sys.executable, "-m", "moldau.schemas.worker"]
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        return self._process

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()
            self._process = None


def read_exactly(descriptor: int, count: int) -> bytes:
    pieces = []
    while count:
        piece = os.read(descriptor, min(count, 1 << 20))
        if not piece:
            raise EOFError
        pieces.append(piece)
        count -= len(piece)
    return b"".join(pieces)
