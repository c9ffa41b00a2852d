"""The load generator load.c: compiled once into the user's cache, run as a process, its one line of JSON read."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.setup import USER_CACHE, apt_install, is_root

SOURCE = Path(__file__).with_name("load.c")
RUN_SECONDS = 600.0

HOW_TO_GET_IT = """the load generator needs a C compiler and librdkafka's headers.
  Debian, Ubuntu:  apt-get install gcc librdkafka-dev     (done by itself where this runs as root)
  Fedora:          dnf install gcc librdkafka-devel
For a librdkafka in another place set CFLAGS and LDLIBS, as for make.
The compiler said:
"""


class LoadFailed(RuntimeError):
    """The load generator could not be built, or did not deliver everything; the message says why."""


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent or read: `settings` are librdkafka's own properties, as key=value."""

    count: int
    size: int = 100
    codec: str = "none"
    acks: str = "1"
    linger_ms: int = 5
    partitions: int = 1
    threads: int = 1
    rate: int = 0
    settings: tuple[str, ...] = ()

    @property
    def payload_bytes(self) -> int:
        return self.count * self.size

    def arguments(self) -> list[str]:
        named = {
            "count": self.count,
            "size": self.size,
            "codec": self.codec,
            "acks": self.acks,
            "linger": self.linger_ms,
            "partitions": self.partitions,
            "threads": self.threads,
            "rate": self.rate,
        }
        pairs = [f"--{name}={value}" for name, value in named.items()]
        return pairs + [f"--set={setting}" for setting in self.settings]


@dataclass(frozen=True, slots=True)
class Result:
    """What the generator measured; latencies only where it took them."""

    messages: int
    seconds: float
    client_cpu: float
    p50_us: float = 0.0
    p99_us: float = 0.0
    p999_us: float = 0.0
    max_us: float = 0.0

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds


class LoadGenerator:
    def __init__(self, program: Path) -> None:
        self._program = program

    @property
    def librdkafka_version(self) -> str:
        return subprocess.run([self._program, "version"], capture_output=True, text=True, check=True).stdout.strip()

    def produce(self, address: str, topic: str, load: Load) -> Result:
        return self._run("produce", address, topic, load)

    def consume(self, address: str, topic: str, load: Load) -> Result:
        return self._run("consume", address, topic, load)

    def synchronous(self, address: str, topic: str, load: Load) -> Result:
        return self._run("sync", address, topic, load)

    @contextlib.contextmanager
    def idle_connections(self, address: str, count: int) -> Iterator[Result]:
        """Connections that have asked one thing and then say nothing, open as long as the `with` block runs."""
        command = [str(self._program), "idle", f"--brokers={address}", f"--count={count}"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line:
                raise LoadFailed(f"{count} idle connections could not be opened")
            yield Result(**json.loads(line))

    def _run(self, mode: str, address: str, topic: str, load: Load) -> Result:
        command = [str(self._program), mode, f"--brokers={address}", f"--topic={topic}", *load.arguments()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_SECONDS, check=False)
        if done.returncode != 0:
            raise LoadFailed(f"{shlex.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}")
        return Result(**json.loads(done.stdout))


def build() -> LoadGenerator:
    """The compiled load generator, built again only when its source or the way to build it has changed."""
    command = _compile_command()
    digest = hashlib.sha256(SOURCE.read_bytes() + shlex.join(command).encode()).hexdigest()[:16]
    program = USER_CACHE / "bench" / f"load-{digest}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        partial = program.with_suffix(f".{os.getpid()}")
        _compile([*command, "-o", str(partial)])
        partial.rename(program)
    return LoadGenerator(program)


def _compile_command() -> list[str]:
    compiler = shlex.split(os.environ.get("CC") or "cc")
    flags = shlex.split(os.environ.get("CFLAGS", ""))
    libraries = shlex.split(os.environ.get("LDLIBS") or "-lrdkafka")
    return [*compiler, "-O2", *flags, str(SOURCE), *libraries, "-lpthread"]


def _compile(command: Sequence[str]) -> None:
    complaint = _try_to_compile(command)
    if complaint and is_root() and apt_install("gcc", "libc6-dev", "librdkafka-dev"):
        complaint = _try_to_compile(command)
    if complaint:
        raise LoadFailed(HOW_TO_GET_IT + complaint)


def _try_to_compile(command: Sequence[str]) -> str:
    """What the compiler complained about; empty if it made the program."""
    if shutil.which(command[0]) is None:
        return f"{command[0]}: not found"
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
