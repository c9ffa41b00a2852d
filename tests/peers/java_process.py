"""Java programs of our own that run until their input ends."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path

from tests.peers import java_programs
from tests.peers.java_programs import CLIENTS
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

SECONDS = 120.0
#: Java's defaults, but for the pauses before something is tried again.
QUICK_RETRIES = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 200}


class JavaProgram:
    """One that runs until its input ends; what it prints is read on the way."""

    def __init__(self, program: str, log: Path, given: Mapping[str, object]) -> None:
        """`given`: the program's own arguments, and settings of its client."""
        self.lines: list[str] = []
        self._log = log
        arguments = [f"{name}={value}" for name, value in given.items()]
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                java_programs.command(program, CLIENTS, arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, taken from a library loaded before
            )
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip("\n"))

    def goes_on(self, more: int) -> None:
        goal = len(self.lines) + more
        wait_until(lambda: len(self.lines) >= goal or self._process.poll() is not None, f"{more} more lines", SECONDS)
        assert self._process.poll() is None, self.told()

    def ask(self, kind: str) -> str:
        """An empty line is a question; the rest of the next line that begins so is the answer."""
        assert self._process.stdin is not None
        seen = len(self.lines)
        self._process.stdin.write("\n")
        self._process.stdin.flush()

        def answers() -> list[str]:
            return [line.removeprefix(f"{kind} ") for line in self.lines[seen:] if line.startswith(f"{kind} ")]

        wait_until(lambda: bool(answers()) or self._process.poll() is not None, f"it says {kind}", SECONDS)
        assert self._process.poll() is None, self.told()
        return answers()[0]

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        code = self._process.wait(SECONDS)
        self._reading.join()
        assert code == 0, self.told()

    def told(self) -> str:
        return "\n".join([*self.lines[-20:], self._log.read_text(errors="replace")[-6000:]])

    def kill(self) -> None:
        self._process.kill()
        self._reading.join()
        with self._process:  # closes its pipes
            pass
