"""Our Python clients beside bare confluent-kafka on one broker, as ratios of medians (the loads take turns), and our
registry beside Apicurio's. First, what settings do to our clients alone."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from bench.clients import registries, tuning
from bench.clients.messages import CASES
from moldau.testing import Broker, Registry
from tests.peers import apicurio_registry
from tests.peers.maven import PeerMissing

SCHEMAS = 10_000


def arguments(given: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.clients", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, one repetition")
    parser.add_argument("--only", choices=("clients", "registry", "tuning"), help="one part alone")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--alone", action="store_true", help="our registry without Apicurio's beside it")
    parser.add_argument("--peer", metavar="URL", help="one more registry, which runs and is empty, for the same load")
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
    try:
        beside = options.only != "clients" and not options.alone and bool(apicurio_registry.home())
    except PeerMissing as missing:
        console.print(f"bench: {missing}", style="red", highlight=False, markup=False)
        return 2
    load = os.getloadavg()[0]
    with Broker() as broker, Registry(broker.bootstrap) as registry:
        if options.only != "registry":
            console.print(measure_clients(broker, registry, options))
        if options.only != "clients":
            count = options.schemas // 10 if options.quick else options.schemas
            seconds = 3 if options.quick else 10
            console.print(registries.measure(broker, count, seconds, beside, options.peer))
    console.print(f"{os.cpu_count()} processors, their load before it began {load:.1f}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
