"""A program of the demo in a process of its own, that speaks in JSON lines and leaves nothing behind.

Spark's driver is a Python process with a Java child, and that one's Python workers form process groups of their own.
What they share is the session that the first process opened: by it all of them are found and killed.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

SESSION_FIELD = 3  # in /proc/PID/stat, counted from behind the name in brackets
SECONDS_TO_END = 30
LOOK_SECONDS = 0.02

Handler: TypeAlias = Callable[[dict[str, Any]], None]


class Program:
    """`python -m module arguments…`; every JSON line it prints goes to `on_message`, from a thread of its own."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        log_file: Path,
        on_message: Handler,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.log_file = log_file
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **(environment or {})},
            )
        self._pause = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(on_message,), daemon=True)
        self._reader.start()

    @property
    def ended(self) -> int | None:
        """The exit code, once there is one."""
        return self._process.poll()

    def tell(self, word: str) -> None:
        """One line on the program's stdin; one that is gone hears nothing."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"{word}\n".encode())
            self._process.stdin.flush()

    def wait(self, seconds: float) -> int:
        """Wait for the end and return the exit code."""
        code = self._process.wait(seconds)
        self._close()
        return code

    def kill(self) -> int:
        """SIGKILL to the process and to every process of its session; returns how many that were."""
        killed: set[int] = set()
        while members := _members_of_session(self._process.pid):
            for member in members:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(member, signal.SIGKILL)
            killed |= set(members)
            self._pause.wait(LOOK_SECONDS)
            self._process.poll()
        self._process.kill()
        self._process.wait()
        self._close()
        return len(killed)

    def _close(self) -> None:
        self._reader.join(SECONDS_TO_END)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()

    def _read(self, on_message: Handler) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                message = json.loads(line)
                if isinstance(message, dict):
                    on_message(message)

    def last_words(self, lines: int = 15) -> str:
        """The end of what it wrote to stderr."""
        return "\n".join(self.log_file.read_text(errors="replace").splitlines()[-lines:])


def _members_of_session(session: int) -> list[int]:
    """Living processes of a session; without /proc (macOS) only the first process is known."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            state, *numbers = stat.read_text(errors="replace").rpartition(")")[2].split()
            if int(numbers[SESSION_FIELD - 1]) == session and state != "Z":
                found.append(int(stat.parent.name))
    return found


def say(**message: object) -> None:
    """One JSON line on stdout, for the process that started this one."""
    sys.stdout.write(json.dumps(message, default=str) + "\n")
    sys.stdout.flush()
