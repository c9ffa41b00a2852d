"""`moldau demo`: a broker, a real client, a crash in the middle, and proof that no acknowledged record was lost."""

import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from moldau.cli.demo_traffic import Findings, Pace

MEGABYTE = 1_000_000


def demo(
    records: Annotated[int, typer.Option(min=1000, help="How many records to write.")] = 200_000,
    record_bytes: Annotated[int, typer.Option(min=8, help="How large each record is.")] = 200,
    partitions: Annotated[int, typer.Option(min=1, help="How many partitions the topic has.")] = 4,
) -> None:
    """Start a broker, write and read through a real Kafka client, kill the broker half-way, show what is left."""
    from rich.console import Console

    try:
        import confluent_kafka  # noqa: F401
    except ImportError:
        print("The demo uses the confluent-kafka client: pip install 'moldau[demo]'", file=sys.stderr)
        raise typer.Exit(2) from None
    # A demo that is told to end must still end its broker.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="moldau-demo-") as folder:
        all_there = _run(Console(), Path(folder), records, record_bytes, partitions)
    raise typer.Exit(0 if all_there else 1)


def _run(console: "Console", folder: Path, records: int, record_bytes: int, partitions: int) -> bool:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from moldau.cli.demo_traffic import Traffic
    from moldau.cli.embedded import EmbeddedBroker

    started = time.perf_counter()
    with EmbeddedBroker(folder) as broker:
        _say(console, f"Broker up on {broker.address} in {_milliseconds_since(started)} ms, its log in {broker.data}")
        traffic = Traffic(broker.address, "demo-orders", partitions, records, record_bytes)
        traffic.create_topic()
        _say(console, f"Topic {traffic.topic} with {partitions} partitions, made by librdkafka's admin client")

        def crash_and_restart() -> None:
            broker.kill()
            killed = time.perf_counter()
            acknowledged = traffic.acknowledged
            broker.start()
            _say(
                console,
                f"[bold red]SIGKILL[/] after {acknowledged:,} acknowledged records; "
                f"back in {_milliseconds_since(killed)} ms, the producer goes on by itself",
            )

        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            bar = progress.add_task("writing", total=records)
            written = traffic.write(crash_and_restart, lambda done: progress.update(bar, completed=done))
            bar = progress.add_task("reading", total=records)
            read, findings = traffic.read(lambda done: progress.update(bar, completed=done))
        _show(console, traffic.topic, record_bytes, written, read, findings)
        code = broker.stop()
    _say(console, f"Broker asked to stop (SIGTERM): exit code {code}; the folder is removed, nothing is left running")
    return findings.all_there and written.records == records and code == 0


def _show(
    console: "Console", topic: str, record_bytes: int, written: "Pace", read: "Pace", findings: "Findings"
) -> None:
    from rich.table import Table

    paces = Table(title="Traffic (with the crash in the writing)")
    for heading in ("", "records", "seconds", "records/s", "MB/s"):
        paces.add_column(heading, justify="right")
    for name, pace in (("written, acks=all", written), ("read", read)):
        rate = pace.records / pace.seconds
        paces.add_row(
            name, f"{pace.records:,}", f"{pace.seconds:.2f}", f"{rate:,.0f}", f"{rate * record_bytes / MEGABYTE:,.0f}"
        )
    console.print(paces)

    logs = Table(title=f"What the log of {topic} holds")
    for heading in ("partition", "first offset", "end offset", "records"):
        logs.add_column(heading, justify="right")
    for partition, (first, end) in enumerate(findings.offsets):
        logs.add_row(str(partition), str(first), f"{end:,}", f"{end - first:,}")
    console.print(logs)

    verdict = Table(title="Every acknowledged record, after a kill -9")
    for heading in ("acknowledged", "missing", "twice", "out of order", "changed"):
        verdict.add_column(heading, justify="right")
    counts = (findings.missing, findings.twice, findings.out_of_order, findings.changed)
    verdict.add_row(f"{findings.acknowledged:,}", *(f"[{'red' if count else 'green'}]{count:,}" for count in counts))
    console.print(verdict)


def _say(console: "Console", message: str) -> None:
    console.print(f"[bold green]•[/] {message}", highlight=False)


def _milliseconds_since(start: float) -> int:
    return round((time.perf_counter() - start) * 1000)
