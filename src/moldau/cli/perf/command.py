"""`moldau perf`: how fast a cluster is for a Python program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.connection import Connection
from moldau.cli.options import Output, TopicName, connected
from moldau.cli.output import Format
from moldau.cli.records.produce import Acks, Codec

app = typer.Typer(help="Measure a cluster: records in, records out, one there and back.", no_args_is_help=True)

Size = Annotated[int, typer.Option(min=1, help="Bytes in a record.")]


@app.command()
@connected
def produce(
    cluster: Connection,
    topic: TopicName,
    records: Annotated[int, typer.Option("--records", "-n", min=1)] = 1_000_000,
    size: Size = 100,
    payload_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Lines to send in turn instead of random bytes.")
    ] = None,
    rate: Annotated[float | None, typer.Option(min=0.001, help="Records per second at most.")] = None,
    compression: Annotated[Codec, typer.Option("--compression", "-z")] = Codec.none,
    acks: Annotated[Acks, typer.Option()] = Acks.every,
    linger_ms: Annotated[float, typer.Option(min=0)] = 5,
    output: Output = Format.table,
) -> int:
    """Write many records: rate, and how long each waited for its acknowledgement."""
    from moldau.cli.perf import actions

    settings = {"compression.type": compression.value, "acks": acks.value, "linger.ms": linger_ms}
    payloads = actions.payloads(size, payload_file)
    return actions.produce(cluster, topic, settings, payloads, records, rate, output)


@app.command()
@connected
def consume(
    cluster: Connection,
    topic: TopicName,
    records: Annotated[
        int | None, typer.Option("--records", "-n", min=1, help="How many; without it all that is there.")
    ] = None,
    output: Output = Format.table,
) -> int:
    """Read many records from the start of a topic."""
    from moldau.cli.perf import actions

    return actions.consume(cluster, topic, records, output)


@app.command("end-to-end")
@connected
def end_to_end(
    cluster: Connection,
    topic: TopicName,
    records: Annotated[int, typer.Option("--records", "-n", min=1)] = 1_000,
    size: Size = 100,
    acks: Annotated[Acks, typer.Option()] = Acks.every,
    output: Output = Format.table,
) -> int:
    """Write one record, read it back, then the next: latency from end to end."""
    from moldau.cli.perf import actions

    return actions.end_to_end(cluster, topic, records, size, acks.value, output)
