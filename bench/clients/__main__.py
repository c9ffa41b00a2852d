"""Our Python clients beside bare confluent-kafka on one broker, and our registry, beside another where `--peer` names
one that runs and is empty. Ratios of medians; the loads take turns. First, what settings do to our clients alone."""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.clients import schemas, tuning
from bench.clients.messages import CASES
from moldau.testing import Broker, Registry

SCHEMAS = 10_000


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one repetition")
    parser.add_argument("--only", choices=("clients", "registry", "tuning"), help="one part alone")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--peer", metavar="URL", help="another schema registry, for the same load")
    parser.add_argument("--schemas", type=int, default=SCHEMAS, help=f"how many to register (default {SCHEMAS})")
    return parser.parse_args(given)


def measure_clients(broker: Broker, registry: Registry, options: argparse.Namespace) -> Table:
    table = Table("case", "ours /s", "theirs /s", "ratio", "goal", "")
    topic = broker.topic("bench")
    for name, goal, count, ours, theirs in CASES:
        wanted = count // 10 if options.quick else count
        found: tuple[list[float], list[float]] = ([], [])
        for _ in range(1 if options.quick else options.repetitions):
            for place, each in enumerate((ours, theirs)):
                found[place].append(each(broker, registry, topic, wanted))
        mine, other = (statistics.median(each) for each in found)
        ratio = mine / other
        met = "met" if ratio >= goal else "missed"
        table.add_row(name, f"{mine:,.0f}", f"{other:,.0f}", f"{ratio:.2f}", f"≥ {goal}", met)
    return table


def measure_registry(broker: Broker, registry: Registry, options: argparse.Namespace) -> Table:
    count = options.schemas // 10 if options.quick else options.schemas
    table = Table("registry", f"registrations/s ({count:,})", "reads by id/s", "p99 ms", "MB", "start s")
    for name, url in (("ours", registry.url), ("peer", options.peer)):
        if url is None:
            continue
        made = asyncio.run(schemas.register(url, 0, count))
        asyncio.run(schemas.read(url, count, 2))
        load = asyncio.run(schemas.read(url, count, 3 if options.quick else 10))
        more = (f"{resident_mb(registry):,.0f}", f"{start_seconds(registry):.2f}") if name == "ours" else ("", "")
        table.add_row(name, f"{made:,.0f}", f"{load.rate:,.0f}", f"{load.p99:.1f}", *more)
    return table


def resident_mb(registry: Registry) -> float:
    """Of the process and those that it started to read schemas."""
    tree = {registry.pid, *children(registry.pid)}
    pages = sum(int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in tree)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *children(child)]
    return found


def start_seconds(registry: Registry) -> float:
    """From the process' start until it serves what the topic holds."""
    registry.stop()
    started = time.perf_counter()
    registry.start()
    return time.perf_counter() - started


def main(given: Sequence[str]) -> int:
    options = arguments(given)
    console = Console()
    if not console.is_terminal:
        console.width = 120
    if options.only in (None, "tuning"):
        for table in tuning.measure(10 if options.quick else 1):
            console.print(table)
    if options.only == "tuning":
        return 0
    with Broker() as broker, Registry(broker.bootstrap) as registry:
        if options.only != "registry":
            console.print(measure_clients(broker, registry, options))
        if options.only != "clients":
            fresh = {"kafkastore.topic": "_fresh", "schema.registry.group.id": "fresh"}
            with Registry(broker.bootstrap, fresh) as empty:
                console.print(measure_registry(broker, empty, options))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
