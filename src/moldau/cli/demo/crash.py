"""The short demo, of the broker alone: a real client, a crash in the middle, and every acknowledged record counted."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from moldau.cli.demo.traffic import Findings, Pace

MEGABYTE = 1_000_000


def run(console: "Console", folder: Path, records: int, record_bytes: int, partitions: int) -> bool:
    """Write, kill, write on, read, compare; says whether everything was there."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from moldau.cli.demo.traffic import Traffic
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
