"""The process that cleans logs: `python -m moldau.storage.compaction.worker`.

A process, since a Python thread that computes would stall the broker's event loop for milliseconds at a time; one of
its own rather than a pool's, so that it can be killed in mid-job and ends by itself when the broker is gone.

JSON lines, one at a time in each direction. In: {"job": {…}, "bytes_per_second": …}, then {"next": true} after each
group. Out: {"group": {…}} for each group, then {"result": {…}} or {"error": {"kind": …, "message": …}}. Any other line,
or the end of the input, ends the process.
"""

from __future__ import annotations

import json
import logging
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, BinaryIO

from moldau.storage.compaction.job import CleanedGroup, CleaningJob, run_job
from moldau.storage.errors import CorruptLogError, LogIOError
from moldau.storage.files import OsFiles

log = logging.getLogger("moldau.storage.compaction")

IO_ERROR = "io"
CORRUPT = "corrupt"
OTHER_ERROR = "other"
# The broker's own work goes first where cores are few.
NICENESS = 5


class OwnerGoneError(Exception):
    """The broker ended, or does not want the result any more."""


class Pace:
    """Holds a job to a number of bytes per second and notices when nobody waits for it any more."""

    def __init__(self, bytes_per_second: float, owner: BinaryIO, clock: Callable[[], float]) -> None:
        self._bytes_per_second = bytes_per_second
        self._owner = owner
        self._clock = clock
        self._start = clock()
        self._bytes = 0

    def __call__(self, size: int) -> None:
        self._bytes += size
        ahead = self._bytes / self._bytes_per_second - (self._clock() - self._start)
        # While a job runs, the owner says nothing: anything to be read is the end.
        if select.select([self._owner], [], [], max(0.0, ahead))[0]:
            raise OwnerGoneError


class Worker:
    def __init__(self, owner: BinaryIO, answers: BinaryIO, clock: Callable[[], float]) -> None:
        self._owner = owner
        self._answers = answers
        self._clock = clock

    def run(self) -> None:
        try:
            while True:
                request = self._receive()
                self._serve(CleaningJob.from_json(request["job"]), request["bytes_per_second"])
        except (OwnerGoneError, BrokenPipeError):
            return

    def _serve(self, job: CleaningJob, bytes_per_second: float) -> None:
        pace = Pace(bytes_per_second, self._owner, self._clock)
        try:
            for event in run_job(OsFiles(), job, pace):
                if isinstance(event, CleanedGroup):
                    self._send({"group": asdict(event)})
                    self._receive()
                else:
                    self._send({"result": asdict(event)})
        except (OwnerGoneError, BrokenPipeError):
            raise
        except (OSError, LogIOError) as error:
            self._send_error(IO_ERROR, error)
        except CorruptLogError as error:
            self._send_error(CORRUPT, error)
        except Exception as error:
            log.exception("cleaning %s failed", job.folder)
            self._send_error(OTHER_ERROR, error)

    def _receive(self) -> dict[str, Any]:
        line = self._owner.readline()
        if not line.endswith(b"\n"):
            raise OwnerGoneError
        message: dict[str, Any] = json.loads(line)
        return message

    def _send_error(self, kind: str, error: Exception) -> None:
        self._send({"error": {"kind": kind, "message": f"{error}" or type(error).__name__}})

    def _send(self, message: dict[str, Any]) -> None:
        self._answers.write(json.dumps(message).encode() + b"\n")
        self._answers.flush()


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the broker, which then closes our input
    os.nice(NICENESS)
    Worker(sys.stdin.buffer, sys.stdout.buffer, time.monotonic).run()


if __name__ == "__main__":
    main()
