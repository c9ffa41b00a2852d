"""Measuring for `moldau perf`."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moldau.cli.output import DONE, FAILED, WRONG_USAGE, Column, CommandError, Format, Table, progress, show
from moldau.cli.perf.measuring import (
    PERCENTILES,
    Measured,
    consume_load,
    produce_load,
    round_trips,
    stand_at_end,
)
from moldau.types.ids import TopicPartition

if TYPE_CHECKING:
    from moldau.cli.connection import Connection


def payloads(size: int, file: Path | None) -> Iterator[bytes]:
    """The same random bytes again and again, or the lines of a file in turn."""
    if file is None:
        return itertools.repeat(random.Random(0).randbytes(size))
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror}", exit_code=WRONG_USAGE) from error
    if not lines:
        raise CommandError(f"{file} has no lines", exit_code=WRONG_USAGE)
    return itertools.cycle(lines)


def produce(
    cluster: Connection,
    topic: str,
    settings: Mapping[str, Any],
    lines: Iterator[bytes],
    records: int,
    rate: float | None,
    output: Format,
) -> int:
    from moldau.cli.refusals import partitions_of

    partitions_of(cluster, topic)
    producer = cluster.producer(**settings, **{"queue.buffering.max.kbytes": 256 * 1024})
    with progress(f"writing to {topic}", records) as advance:
        measured = produce_load(producer, topic, lines, records, rate, advance)
    report(measured, output)
    return FAILED if measured.failed else DONE


def consume(cluster: Connection, topic: str, records: int | None, output: Format) -> int:
    from confluent_kafka import OFFSET_BEGINNING

    from moldau.cli.calls.answers import for_client
    from moldau.cli.calls.offsets import log_ranges
    from moldau.cli.refusals import partitions_of

    places = [TopicPartition(topic, number) for number in partitions_of(cluster, topic)]
    spans = log_ranges(cluster, places).values()
    total = sum((last or 0) - (first or 0) for first, last in spans)
    consumer = cluster.consumer(
        **{"group.id": "moldau-perf", "enable.auto.commit": False, "enable.partition.eof": True}
    )
    consumer.assign([for_client(place, OFFSET_BEGINNING) for place in places])
    try:
        with progress(f"reading {topic}", records or total) as advance:
            measured = consume_load(consumer, records, len(places), advance)
    finally:
        consumer.close()
    report(measured, output, latencies=False)
    return DONE


def end_to_end(cluster: Connection, topic: str, records: int, size: int, acks: str, output: Format) -> int:
    from moldau.cli.refusals import partitions_of

    partitions = partitions_of(cluster, topic)
    producer = cluster.producer(**{"acks": acks, "linger.ms": 0})
    consumer = cluster.consumer(
        **{"group.id": "moldau-perf", "enable.auto.commit": False, "fetch.min.bytes": 1, "fetch.wait.max.ms": 500}
    )
    try:
        stand_at_end(consumer, topic, partitions)
        with progress("round trips", records) as advance:
            payload = random.Random(0).randbytes(size)
            measured = round_trips(producer, consumer, topic, payload, records, advance)
    finally:
        consumer.close()
    report(measured, output)
    return DONE


def report(measured: Measured, output: Format, latencies: bool = True) -> None:
    document: dict[str, Any] = {
        "records": measured.records,
        "failed": measured.failed,
        "bytes": measured.bytes,
        "seconds": round(measured.seconds, 3),
        "records_per_second": round(measured.records_per_second, 1),
        "mb_per_second": round(measured.mb_per_second, 3),
    }
    if latencies:
        document["latency_ms"] = latency_document(measured)

    def tables() -> list[Table]:
        shown = Table([Column("figure"), Column("value", right=True)])
        for name, value in document.items():
            if name != "latency_ms":
                shown.add(name.replace("_", " "), f"{value:,}")
        for name, value in document.get("latency_ms", {}).items():
            shown.add(f"latency {name}, ms", f"{value:,}")
        return [shown]

    show(output, document, tables)


def latency_document(measured: Measured) -> dict[str, float]:
    found = measured.latencies
    named = {"mean": found.mean} | {f"p{percent:g}": found.percentile(percent) for percent in PERCENTILES}
    return {name: round(seconds * 1000, 3) for name, seconds in (named | {"max": found.largest}).items()}
