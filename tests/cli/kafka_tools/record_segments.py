"""Records files that Apache Kafka wrote and what its kafka-dump-log prints of them.

`python -m tests.cli.kafka_tools.record_segments` fills tests/cli/recorded/segments; ours must print the same.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

from confluent_kafka import Producer

from tests.cli.kafka_tools.scenario import Place
from tests.cli.kafka_tools.state import FIRST_TIMESTAMP, FOR_EVER, groups, transactions
from tests.peers.apache_kafka import ApacheKafka, java_tool
from tests.support.admin import admin_client, create_topic

SEGMENTS = Path(__file__).parent.parent / "recorded" / "segments"
TOOL = "org.apache.kafka.tools.DumpLogSegments"
SETTINGS = {
    "node.id": 1,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}
# Every batch is indexed, and a batch that is a day younger begins a new segment.
INDEXED = FOR_EVER | {"index.interval.bytes": 0, "segment.ms": 86_400_000 // 2}
OPTIONS = {
    ".log": ((), ("--deep-iteration",), ("--print-data-log",), ("--print-data-log", "--skip-record-metadata")),
    ".index": ((), ("--index-sanity-check",), ("--verify-index-only",)),
    ".timeindex": ((), ("--index-sanity-check",), ("--verify-index-only",)),
    ".txnindex": ((),),
    ".snapshot": ((),),
}


def main() -> None:
    shutil.rmtree(SEGMENTS, ignore_errors=True)
    SEGMENTS.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as folder, ApacheKafka(Path(folder) / "broker", SETTINGS) as broker:
        place = Place(broker.address, broker.data, Path(folder))
        write_plain(place)
        with groups(place):
            keep(broker.data / "__consumer_offsets-0", "groups")
        admin = admin_client(place.address)
        admin.delete_topics(["filled"])["filled"].result()
        with transactions(place):
            keep(broker.data / "__transaction_state-0", "transactions")
        broker.stop()
        keep(broker.data / "plain-0", "plain")
        keep(broker.data / "filled-0", "transactional")
    record_dumps()


def write_plain(place: Place) -> None:
    """Two segments of batches with every codec; the first one's indexes are trimmed when it is rolled."""
    create_topic(admin_client(place.address), "plain", 1, INDEXED)
    for day, codec in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
        producer = Producer({"bootstrap.servers": place.address, "compression.type": codec, "linger.ms": 200})
        later = 86_400_000 if day > 2 else 0
        for number in range(3):
            producer.produce(
                "plain",
                None if number == 2 else f"value {number} " * 20,
                key=None if number == 1 else f"key {number}",
                headers=[("a", b"1"), ("b", None)] if number == 0 else None,
                timestamp=FIRST_TIMESTAMP + later + day * 10 + number,
            )
        producer.flush()


def keep(folder: Path, name: str) -> None:
    target = SEGMENTS / name
    target.mkdir(exist_ok=True)
    for path in folder.iterdir():
        # Indexes of active segments are ten megabytes of reserved space; a time index is read with its offset index.
        alone = path.suffix == ".timeindex" and path.with_suffix(".index").stat().st_size == 0
        if path.suffix in OPTIONS and 0 < path.stat().st_size < 100_000 and not alone:
            shutil.copy(path, target / path.name)


def dumps() -> list[tuple[str, tuple[str, ...]]]:
    found = []
    for path in sorted(SEGMENTS.rglob("*.*")):
        if path.suffix not in OPTIONS:
            continue
        name = str(path.relative_to(SEGMENTS))
        found += [(name, options) for options in OPTIONS[path.suffix]]
        if path.suffix == ".log" and path.parent.name in ("groups", "transactions"):
            decoder = "--offsets-decoder" if path.parent.name == "groups" else "--transaction-log-decoder"
            found.append((name, (decoder,)))
    return found


def record_dumps() -> None:
    results = []
    for name, options in dumps():
        done = java_tool(TOOL, "--files", SEGMENTS / name, *options, check=False)
        results.append(
            {
                "file": name,
                "options": list(options),
                "exit": done.returncode,
                "stdout": done.stdout.replace(str(SEGMENTS), "{segments}").splitlines(),
                "stderr": done.stderr.replace(str(SEGMENTS), "{segments}").splitlines(),
            }
        )
    (SEGMENTS / "dumps.json").write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(results)} dumps")


if __name__ == "__main__":
    main()
