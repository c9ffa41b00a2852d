"""Schema registries under the same load, one after the other, each alone: ours, Apicurio's with its schemas in the same
Kafka as ours and in memory, and any other that runs already."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from rich.table import Table

from bench.clients import schemas
from moldau.testing import Broker, Registry
from tests.peers.apicurio_registry import ApicurioRegistry

WARM_SECONDS = 5.0
OURS = {"kafkastore.topic": "_fresh", "schema.registry.group.id": "fresh"}


class Started(Protocol):
    """A registry that this program has started."""

    @property
    def url(self) -> str: ...

    @property
    def pid(self) -> int: ...

    def start(self) -> None: ...

    def stop(self) -> object: ...


def measure(broker: Broker, count: int, seconds: float, beside: bool, peer: str | None) -> Table:
    """Of `count` schemas. `beside`: Apicurio's too; `peer`: the address of one that runs."""
    columns = ("reads by id/s", "p99 ms", "MB", "start s", "start, empty s")
    table = Table("registry", f"registrations/s ({count:,})", *columns)
    began = time.perf_counter()
    with Registry(broker.bootstrap, OURS) as ours:
        empty = f"{time.perf_counter() - began:.2f}"
        table.add_row("ours", *figures(ours.url, count, seconds), *costs(ours, count), empty)
    for name, bootstrap in (("Apicurio", broker.bootstrap), ("Apicurio, in memory", "")) if beside else ():
        with apicurio(bootstrap) as theirs:
            empty = f"{theirs.startup_seconds:.2f}"
            loaded = figures(theirs.url, count, seconds)
            more = costs(theirs, count) if bootstrap else (megabytes(theirs.pid), "")
            table.add_row(name, *loaded, *more, empty)
    if peer is not None:
        table.add_row("peer", *figures(peer, count, seconds))
    return table


@contextmanager
def apicurio(bootstrap: str) -> Iterator[ApicurioRegistry]:
    with tempfile.TemporaryDirectory(prefix="moldau-bench-") as folder:
        registry = ApicurioRegistry(Path(folder), bootstrap)
        registry.start()
        try:
            yield registry
        finally:
            registry.kill()


def figures(url: str, count: int, seconds: float) -> tuple[str, str, str]:
    made = asyncio.run(schemas.register(url, 0, count))
    asyncio.run(schemas.read(url, count, WARM_SECONDS))
    load = asyncio.run(schemas.read(url, count, seconds))
    return f"{made:,.0f}", f"{load.rate:,.0f}", f"{load.p99:.1f}"


def costs(registry: Started, count: int) -> tuple[str, str]:
    """Memory after the load, and the time of a start with all schemas."""
    return megabytes(registry.pid), f"{start_seconds(registry, count):.2f}"


def megabytes(pid: int) -> str:
    """Of the process and those that it started to read schemas."""
    pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in (pid, *children(pid)))
    return f"{pages * os.sysconf('SC_PAGE_SIZE') / 1e6:,.0f}"


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *children(child)]
    return found


def start_seconds(registry: Started, last_id: int) -> float:
    """From the process' start until it answers with what the topic ends with."""
    registry.stop()
    started = time.perf_counter()
    registry.start()
    asyncio.run(schemas.await_id(registry.url, last_id))
    return time.perf_counter() - started
