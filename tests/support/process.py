"""A broker as a process of its own: folder, settings, address, captured output, start, stop and kill."""

from __future__ import annotations

import ctypes
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.support.raw import answers

START_SECONDS = 150.0
STOP_SECONDS = 120.0
SHOWN_LINES = 60


_libc = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """Even a test run that is killed leaves no broker behind."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class BrokerFailed(AssertionError):
    """The process ended or did not come up; the message carries the end of what it printed."""


def free_port() -> int:
    """A free port below the range that the kernel gives to outgoing connections.

    In that range a client that keeps trying to reach a broker that is down can end up connected to itself, and the
    broker then finds its port taken.
    """
    first_outgoing = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.SystemRandom().sample(range(10_000, max(first_outgoing, 12_000)), 500):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) != 0:
                return port
    raise BrokerFailed("no free port found")


def resident_bytes(pid: int) -> int:
    """How much memory a process holds."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise BrokerFailed(f"process {pid} holds no memory")


class BrokerProcess(ABC):
    """One broker. Address and folder stay the same over restarts; output of all runs is kept in the folder."""

    name: str

    def __init__(self, directory: Path, settings: Mapping[str, object] | None = None) -> None:
        self.directory = directory
        self.settings = dict(settings or {})
        self.data = directory / "data"
        self.address = ""
        self.startup_seconds = 0.0
        self._began = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        directory.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> BrokerProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise BrokerFailed(f"{self.name} has not been started")
        return self._process

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @abstractmethod
    def _command(self) -> list[str]:
        """The command line of the next start."""

    @abstractmethod
    def _find_address(self) -> str | None:
        """Where this run listens, as soon as that is known."""

    def _prepare(self) -> None:  # noqa: B027 - most brokers need nothing
        """What must happen before a start."""

    def start(self) -> None:
        """Starts the process and returns when it answers a Metadata request."""
        self.begin()
        self.wait_until_up()

    def begin(self) -> None:
        """Starts the process and does not wait for it."""
        if self.running:
            raise BrokerFailed(f"{self.name} already runs")
        self._began = time.monotonic()
        self._spawn()

    def wait_until_up(self) -> None:
        started = self._began
        while not self._is_up():
            if self.process.poll() is not None:
                raise BrokerFailed(f"{self.name} ended with {self.process.returncode} at start\n{self.output()}")
            if time.monotonic() - started > START_SECONDS:
                self.kill()
                raise BrokerFailed(f"{self.name} was not up within {START_SECONDS:g} s\n{self.output()}")
            time.sleep(0.005)
        self.startup_seconds = time.monotonic() - started

    def _spawn(self) -> None:
        self._prepare()
        with self._file("stdout").open("wb") as out, self._file("stderr").open("ab") as err:
            self._process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, taken from a library loaded before
            )

    def start_and_kill(self, seconds: float) -> None:
        """Starts the process and kills it after a while, whatever it is doing by then."""
        self._spawn()
        time.sleep(seconds)
        self.kill()

    def _is_up(self) -> bool:
        found = self._find_address()
        if found is None:
            return False
        self.address = found
        return answers(found)

    def stop(self) -> int:
        """Asks the broker to end (SIGTERM) and returns its exit code."""
        if self.running:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerFailed(f"{self.name} ignored SIGTERM for {STOP_SECONDS:g} s\n{self.output()}") from None

    def kill(self) -> None:
        """Ends the broker without any warning (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def restart(self) -> None:
        """A clean stop and a start on the same address and folder."""
        code = self.stop()
        if code != 0:
            raise BrokerFailed(f"{self.name} ended with {code} instead of 0\n{self.output()}")
        self.start()

    def _file(self, stream: str) -> Path:
        return self.directory / f"{stream}.log"

    def output(self) -> str:
        """The end of what the broker printed and logged."""
        parts = []
        for path in sorted(self.directory.glob("*.log")):
            lines = path.read_text(errors="replace").splitlines()
            parts.append(f"--- {path.name} (last {SHOWN_LINES} of {len(lines)} lines)")
            parts.extend(lines[-SHOWN_LINES:])
        return "\n".join(parts)
