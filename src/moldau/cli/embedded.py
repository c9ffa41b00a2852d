"""A broker in a child process of this one, for commands that need one for a while."""

import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import IO, Self

LISTENER = re.compile(r"PLAINTEXT://([^\s,]+:\d+)")


class BrokerDidNotStartError(RuntimeError):
    """The broker process ended before its ready line."""


class EmbeddedBroker:
    """`moldau broker start` on a free port; a restart keeps address and folder, leaving the block ends it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
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
        """Where the broker's own log lines go."""
        return self.folder / "broker.log"

    @property
    def data(self) -> Path:
        """The folder with the topics."""
        return self.folder / "data"

    def start(self) -> None:
        """Start the process and return when it says that it is ready."""
        command = [sys.executable, "-m", "moldau", "broker", "start"]
        command += ["--set", f"listeners=PLAINTEXT://{self.address}", "--set", f"log.dirs={self.data}"]
        with self.log_file.open("a") as log:
            # Its own session: Ctrl-C reaches this process alone, which then ends the broker in order.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
            )
        self._process = process
        assert process.stdout is not None
        self.address = self._wait_for_ready_line(process.stdout)

    def _wait_for_ready_line(self, output: IO[str]) -> str:
        for line in output:
            if found := LISTENER.search(line):
                return found.group(1)
        raise BrokerDidNotStartError(self.log_file.read_text().strip() or "the broker ended without a word")

    def kill(self) -> None:
        """End the broker without any warning (SIGKILL)."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Ask the broker to end (SIGTERM) and return its exit code."""
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
