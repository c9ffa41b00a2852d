"""What `moldau broker status` and `moldau broker stop` do: look at the brokers of this machine, and end them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from moldau.cli import times
from moldau.cli.broker import local_brokers
from moldau.cli.broker.local_brokers import LocalBroker
from moldau.cli.output import FAILED, NOT_FOUND, WRONG_USAGE, Column, CommandError, Format, Table, show, size_text

LOOK_SECONDS: Final = 0.05


def status(output: Format) -> int:
    brokers = local_brokers.found()
    document = [as_document(broker) for broker in brokers]

    def tables() -> list[Table]:
        table = Table(
            [
                Column("broker", right=True),
                Column("pid", right=True),
                Column("ports"),
                Column("running for", right=True),
                Column("memory", right=True),
                Column("data"),
                Column("cluster", wide=True),
            ]
        )
        for row in document:
            running = times.duration_text(row["running_seconds"] * 1000)
            memory = size_text(row["memory_bytes"])
            table.add(row["node_id"], row["pid"], row["ports"], running, memory, row["data"], row["cluster_id"])
        return [table]

    show(output, document, tables, empty="no broker of yours runs on this machine")
    return NOT_FOUND if not brokers else 0


def as_document(broker: LocalBroker) -> dict[str, Any]:
    return {
        "node_id": broker.node_id,
        "pid": broker.pid,
        "ports": list(broker.ports),
        "data": [str(directory) for directory in broker.directories],
        "cluster_id": broker.cluster_id,
        "running_seconds": round(broker.running_seconds),
        "memory_bytes": broker.memory_bytes,
    }


def stop(port: int | None, data: Path | None, node_id: int | None, every: bool, patience_ms: int) -> None:
    chosen = choose(local_brokers.found(), port, data, node_id, every)
    for broker in chosen:
        os.kill(broker.pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_ms / 1000
    for broker in chosen:
        await_end(broker, deadline)
        print(f"stopped {named(broker)}")


def choose(
    brokers: Sequence[LocalBroker], port: int | None, data: Path | None, node_id: int | None, every: bool
) -> list[LocalBroker]:
    """Those that are meant; where it is not clear which, none."""
    wanted = [
        broker
        for broker in brokers
        if (port is None or port in broker.ports)
        and (data is None or data.resolve() in broker.directories)
        and (node_id is None or node_id == broker.node_id)
    ]
    if not wanted:
        there = "; ".join(map(named, brokers))
        raise CommandError("no such broker runs here" if there else "no broker of yours runs here", there, NOT_FOUND)
    if len(wanted) > 1 and not every:
        hint = "say which with --port, --data or --node-id, or --all"
        raise CommandError(f"{len(wanted)} brokers run here: {'; '.join(map(named, wanted))}", hint, WRONG_USAGE)
    return wanted


def named(broker: LocalBroker) -> str:
    where = f" on port {','.join(map(str, broker.ports))}" if broker.ports else ""
    number = "" if broker.node_id is None else f" {broker.node_id}"
    return f"broker{number}{where}, pid {broker.pid}, data in {','.join(map(str, broker.directories))}"


def await_end(broker: LocalBroker, deadline: float) -> None:
    pause = threading.Event()
    while local_brokers.is_running(broker):
        if time.monotonic() > deadline:
            hint = "its log says what it does; SIGTERM was sent"
            raise CommandError(f"{named(broker)} still runs", hint, FAILED)
        pause.wait(LOOK_SECONDS)
