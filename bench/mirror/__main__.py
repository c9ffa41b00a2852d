"""How fast a backlog is copied: Moldau's mirror and MirrorMaker 2 in turn, between the same two brokers.

The clock runs from the first record that is seen in the target to the last, so that neither start counts; the start has
a column of its own. MirrorMaker 2 runs twice: with its defaults, and exactly once. It has as many tasks as there are
partitions, the mirror one thread.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.load import Load, build
from bench.measure import cpu_seconds, resident_mb
from bench.peers import Peer, Topics, end_offsets
from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.mirror.topics import looked_up
from tests.peers.mirror_maker import MirrorMaker
from tests.support.mirroring import MirrorProcess

PARTITIONS = 4
MIRRORS = ("moldau", "mirrormaker", "mirrormaker-exactly-once")
GIVE_UP_SECONDS = 300.0
REPLICAS = {
    f"{name}.replication.factor": "1"
    for name in ("offset.storage", "config.storage", "status.storage", "heartbeats.topic", "checkpoints.topic")
} | {"replication.factor": "1", "offset-syncs.topic.replication.factor": "1"}


@dataclass(frozen=True, slots=True)
class Copied:
    records_per_second: float
    cpu_per_million: float
    """CPU seconds of the mirror alone for a million records."""
    resident_mb: float
    first_record_seconds: float


def settings(source: str, target: str, topic: str, mirror: str) -> dict[str, str]:
    found = {
        "clusters": "us, eu",
        "us.bootstrap.servers": source,
        "eu.bootstrap.servers": target,
        "us->eu.enabled": "true",
        "topics": topic,
        "tasks.max": str(PARTITIONS) if mirror != "moldau" else "1",
        "emit.heartbeats.enabled": "false",
        "heartbeats.replication.enabled": "false",
        **REPLICAS,
    }
    if mirror == "mirrormaker-exactly-once":
        found |= {"eu.exactly.once.source.support": "enabled", "us.consumer.isolation.level": "read_committed"}
    return found


@contextmanager
def running(mirror: str, folder: Path, properties: dict[str, str]) -> Iterator[Callable[[], int]]:
    """Gives the process id."""
    if mirror == "moldau":
        process = MirrorProcess(folder, properties)
        process.start()
        try:
            yield lambda: process.pid
        finally:
            process.stop()
    else:
        with MirrorMaker(folder, properties, heap="1g") as maker:
            yield lambda: maker.pid


def copied_so_far(cluster: Cluster, address: str, topic: str) -> int:
    if topic not in looked_up(cluster, [topic]):
        return 0
    return end_offsets(address, topic, PARTITIONS) or 0


def measure(mirror: str, source: str, target: str, topic: str, count: int, folder: Path) -> Copied:
    began = time.monotonic()
    remote = f"us.{topic}"
    with (
        Cluster(ClientSettings.from_properties({"bootstrap.servers": target})) as cluster,
        running(mirror, folder, settings(source, target, topic, mirror)) as pid,
    ):
        while (first := copied_so_far(cluster, target, remote)) == 0:
            if time.monotonic() - began > GIVE_UP_SECONDS:
                raise SystemExit(f"{mirror} has copied nothing; see {folder}")
            time.sleep(0.01)
        first_at, cpu = time.monotonic(), cpu_seconds(pid())
        while (now := end_offsets(target, remote, PARTITIONS) or 0) < count:
            if time.monotonic() - began > GIVE_UP_SECONDS:
                raise SystemExit(f"{mirror} has copied {now} of {count}; see {folder}")
            time.sleep(0.01)
        seconds = time.monotonic() - first_at
        used = cpu_seconds(pid()) - cpu
        done = count - first
        return Copied(done / seconds, used / done * 1e6, resident_mb(pid()), first_at - began)


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.mirror", description=__doc__)
    parser.add_argument("--records", type=int, default=1_000_000, help="of 100 bytes; a tenth as many of 1,000 bytes")
    parser.add_argument("--brokers", choices=[peer.value for peer in Peer], default="moldau", help="both sides")
    parser.add_argument("--mirrors", nargs="+", choices=MIRRORS, default=list(MIRRORS))
    options = parser.parse_args(given)
    loader = build()
    console = Console(width=130)
    table = Table("records", "mirror", "records/s", "MB/s", "CPU s/million", "resident MB", "first record s", "ratio")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = Peer(options.brokers)
        for size, count in ((100, options.records), (1000, options.records // 2)):
            rates: dict[str, Copied] = {}
            for mirror in options.mirrors:
                place = folder / f"{mirror}-{size}"
                with peer.broker(place / "us") as source, peer.broker(place / "eu") as target:
                    Topics(source).create("load", PARTITIONS)
                    load = Load(count=count, size=size, partitions=PARTITIONS, acks="all")
                    loader.produce(source.address, "load", load)
                    rates[mirror] = found = measure(mirror, source.address, target.address, "load", count, place)
                ratio = rates["moldau"].records_per_second / found.records_per_second if "moldau" in rates else 0.0
                table.add_row(
                    f"{count:,} of {size} B", mirror, f"{found.records_per_second:,.0f}",
                    f"{found.records_per_second * size / 1e6:,.0f}", f"{found.cpu_per_million:.2f}",
                    f"{found.resident_mb:,.0f}", f"{found.first_record_seconds:.2f}", f"{ratio:.1f}",
                )  # fmt: skip
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
