"""A broker, or a schema registry, in a child process of this one, for those who need one for a while."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Self


class ProcessDidNotStartError(RuntimeError):
    """The process ended before its ready line."""


class Embedded:
    """A command of ours on a free port; a restart keeps address and folder, leaving the block ends it."""

    command: ClassVar[tuple[str, ...]]
    ready: ClassVar[re.Pattern[str]]
    """The line that says so, with the address as its only group."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object] | None = None,
        before_start: Callable[[], None] | None = None,
    ) -> None:
        """`before_start` is one system call that the new process makes first."""
        self.folder = folder
        self._settings = dict(settings or {})
        self._before_start = before_start
        self.address = "127.0.0.1:0"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def log_file(self) -> Path:
        """Where its own log lines go."""
        return self.folder / f"{self.command[0]}.log"

    @property
    def pid(self) -> int:
        """Of the process that runs."""
        if self._process is None:
            raise RuntimeError(f"the {self.command[0]} does not run")
        return self._process.pid

    def settings(self) -> dict[str, object]:
        """What it is started with, now that the address is known."""
        raise NotImplementedError

    def start(self) -> None:
        """Start the process and return when it says that it is ready."""
        command = [sys.executable, "-m", "moldau", *self.command]
        for name, value in self.settings().items():
            command += ["--set", f"{name}={value}"]
        with self.log_file.open("a") as log:
            # Its own session: Ctrl-C reaches this process alone, which then ends the other in order.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
                preexec_fn=self._before_start,  # noqa: PLW1509 - what callers give is one system call
            )
        self._process = process
        assert process.stdout is not None
        self.address = self._wait_for_ready_line(process.stdout)

    def _wait_for_ready_line(self, output: IO[str]) -> str:
        for line in output:
            if found := self.ready.search(line):
                return found.group(1)
        raise ProcessDidNotStartError(
            self.log_file.read_text().strip() or f"the {self.command[0]} ended without a word"
        )

    def kill(self) -> None:
        """End it without any warning (SIGKILL)."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to end (SIGTERM) and return its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(how)
        code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
        return code


class EmbeddedBroker(Embedded):
    """`moldau broker start`; `address` is host and port."""

    command = ("broker", "start")
    ready = re.compile(r"PLAINTEXT://([^\s,]+:\d+)")

    @property
    def data(self) -> Path:
        """The folder with the topics."""
        return self.folder / "data"

    def settings(self) -> dict[str, object]:
        return {"listeners": f"PLAINTEXT://{self.address}", "log.dirs": self.data, **self._settings}


class EmbeddedRegistry(Embedded):
    """`moldau registry start` on the brokers that its settings name."""

    command = ("registry", "start")
    ready = re.compile(r"ready: http://([^\s,]+:\d+)")

    def settings(self) -> dict[str, object]:
        return {"listeners": f"http://{self.address}", **self._settings}
