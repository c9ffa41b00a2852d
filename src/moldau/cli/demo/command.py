"""`moldau demo`: its options."""

import signal
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer


def demo(
    no_spark: Annotated[bool, typer.Option("--no-spark", help="The broker alone: write, kill it, read.")] = False,
    records: Annotated[int, typer.Option(min=1000, help="With --no-spark: how many records to write.")] = 200_000,
    record_bytes: Annotated[int, typer.Option(min=8, help="With --no-spark: how large each record is.")] = 200,
    partitions: Annotated[int, typer.Option(min=1, help="With --no-spark: partitions of the topic.")] = 4,
) -> None:
    """Start a broker, write and read through a real Kafka client, kill the broker half-way, show what is left."""
    # A demo that is told to end must still end its processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    raise typer.Exit(0 if _broker_alone(records, record_bytes, partitions) else 1)


def _broker_alone(records: int, record_bytes: int, partitions: int) -> bool:
    from rich.console import Console

    from moldau.cli.demo import crash

    with tempfile.TemporaryDirectory(prefix="moldau-demo-") as folder:
        return crash.run(Console(), Path(folder), records, record_bytes, partitions)
