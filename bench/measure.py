"""What a process and the machine use: CPU seconds, memory, other work; and pages made ready before a run."""

from __future__ import annotations

import contextlib
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil  # type: ignore[import-untyped]

PIECE = bytes(1 << 20)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process and its children, in ticks of usually 10 ms (/proc/PID/stat)."""
    process = psutil.Process(pid)
    times = process.cpu_times()
    used = times.user + times.system + times.children_user + times.children_system
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            child_times = child.cpu_times()
            used += child_times.user + child_times.system
    return float(used)


def resident_mb(pid: int) -> float:
    """Memory of a process and its children that is in RAM, in millions of bytes. The page cache does not count."""
    process = psutil.Process(pid)
    return float(sum(each.memory_info().rss for each in [process, *process.children(recursive=True)]) / 1e6)


def machine_busy_seconds() -> float:
    """CPU time that all processors together were not idle, time stolen by the hypervisor included."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def clients_cpu_seconds() -> float:
    """CPU time of the load generators that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@dataclass(frozen=True, slots=True)
class Reading:
    at: float
    broker: float
    machine: float
    clients: float

    @classmethod
    def now(cls, pids: Sequence[int]) -> Self:
        used = sum(cpu_seconds(pid) for pid in pids)
        return cls(time.monotonic(), used, machine_busy_seconds(), clients_cpu_seconds())


class Watch:
    """What happened while a `with` block ran: CPU seconds of the broker, or of all that belong to a cluster, and how
    many cores worked for others."""

    def __init__(self, *pids: int) -> None:
        self._pids = pids
        self.broker_cpu = 0.0
        self.other_cores = 0.0
        self.seconds = 0.0

    def __enter__(self) -> Self:
        self._start = Reading.now(self._pids)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            return
        end, start = Reading.now(self._pids), self._start
        self.seconds = end.at - start.at
        self.broker_cpu = end.broker - start.broker
        others = (end.machine - start.machine) - self.broker_cpu - (end.clients - start.clients)
        self.other_cores = max(0.0, others / self.seconds)


def warm_pages(folder: Path, size_bytes: int) -> None:
    """Writes and deletes a file, so that the run that follows finds memory the kernel has touched before.

    In a virtual machine the first touch of a page can cost ten times the write itself, and would be measured instead.
    """
    path = folder / "warm-up"
    with path.open("wb", buffering=0) as file:
        for _ in range(-(-size_bytes // len(PIECE))):
            file.write(PIECE)
    path.unlink()


def allow_many_files() -> None:
    """Whatever is started from now on inherits this limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
