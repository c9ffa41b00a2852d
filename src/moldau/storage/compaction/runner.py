"""The broker's side of the cleaning process: starts it when the first job comes, speaks with it, ends it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from moldau.storage.compaction.job import CleanedGroup, CleaningJob, CleaningResult
from moldau.storage.compaction.worker import CORRUPT, IO_ERROR

# -P: a module that happens to lie in the broker's working directory must not be taken for one of ours.
COMMAND = (sys.executable, "-P", "-m", "moldau.storage.compaction.worker")

OnGroup = Callable[[CleanedGroup], Awaitable[None]]


class CleaningError(Exception):
    """The log could not be cleaned; it stays as it was, but for groups that were swapped in already."""


class CleaningDiskError(CleaningError):
    """Its disk failed."""


class CorruptSourceError(CleaningError):
    """A batch in it is damaged."""


class CleaningStoppedError(CleaningError):
    """The job was ended from outside."""


class JobRunner(Protocol):
    async def run(self, job: CleaningJob, bytes_per_second: float, on_group: OnGroup) -> CleaningResult:
        """Waits for `on_group` before the job goes on. Raises CleaningError."""

    async def stop(self) -> None:
        """Ends the job that runs, if one does; nothing is written any more when this returns."""


class ProcessRunner:
    def __init__(self, command: tuple[str, ...] = COMMAND) -> None:
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()

    async def run(self, job: CleaningJob, bytes_per_second: float, on_group: OnGroup) -> CleaningResult:
        process = await self._running()
        try:
            await self._send(process, {"job": job.to_json(), "bytes_per_second": bytes_per_second})
            while True:
                answer = await self._receive(process)
                if "group" in answer:
                    group = answer["group"]
                    await on_group(CleanedGroup(group["base_offset"], tuple(group["sources"]), group["size"]))
                    await self._send(process, {"next": True})
                elif "result" in answer:
                    return CleaningResult(**answer["result"])
                else:
                    raise _error_of(answer["error"])
        except (ConnectionError, json.JSONDecodeError) as error:
            await self.stop()
            raise CleaningStoppedError("the cleaning process ended") from error
        except (Exception, asyncio.CancelledError) as error:
            # An error of the worker leaves it ready for the next job; after any other it would wait in mid-job.
            if type(error) not in (CleaningError, CleaningDiskError, CorruptSourceError):
                await self.stop()
            raise

    async def stop(self) -> None:
        async with self._starting:
            process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            if process.stdin is not None:
                process.stdin.close()

    async def _running(self) -> asyncio.subprocess.Process:
        async with self._starting:
            if self._process is None or self._process.returncode is not None:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
                )
            return self._process

    async def _send(self, process: asyncio.subprocess.Process, message: dict[str, Any]) -> None:
        assert process.stdin is not None
        process.stdin.write(json.dumps(message).encode() + b"\n")
        await process.stdin.drain()

    async def _receive(self, process: asyncio.subprocess.Process) -> dict[str, Any]:
        assert process.stdout is not None
        line = await process.stdout.readline()
        if not line.endswith(b"\n"):
            raise ConnectionError
        message: dict[str, Any] = json.loads(line)
        return message


def _error_of(answer: dict[str, str]) -> CleaningError:
    kinds: dict[str, type[CleaningError]] = {IO_ERROR: CleaningDiskError, CORRUPT: CorruptSourceError}
    return kinds.get(answer["kind"], CleaningError)(answer["message"])
