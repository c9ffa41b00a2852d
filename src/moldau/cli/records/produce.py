"""`moldau produce`: write records from lines, JSON, or the command line."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.connection import Connection
from moldau.cli.options import TopicName, connected
from moldau.cli.records.consume import LOCAL_REGISTRY, RegistryUrl


class Input(StrEnum):
    """What comes in."""

    lines = "lines"
    json = "json"


class Codec(StrEnum):
    none = "none"
    gzip = "gzip"
    snappy = "snappy"
    lz4 = "lz4"
    zstd = "zstd"


class Acks(StrEnum):
    none = "0"
    leader = "1"
    every = "all"


class Report(StrEnum):
    """What goes out."""

    none = "none"
    json = "json"


Headers = Annotated[
    list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="A header of every record.")
]
ValueSchema = Annotated[
    str | None,
    typer.Option(
        "--value-schema",
        metavar="SCHEMA",
        help="Values are JSON, written with a schema of the registry: latest, an id, or a file to register.",
    ),
]
KeySchema = Annotated[str | None, typer.Option("--key-schema", metavar="SCHEMA", help="The same for keys.")]


@connected
def produce(
    cluster: Connection,
    topic: TopicName,
    values: Annotated[
        list[str] | None, typer.Argument(metavar="VALUE...", help="Values to write; without any they are read.")
    ] = None,
    input_format: Annotated[
        Input, typer.Option("--input", "-i", help="json: lines as `consume -o json` prints them.")
    ] = Input.lines,
    file: Annotated[
        Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read this file instead of stdin.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", "-k", help="The key of every record.")] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-K", metavar="TEXT", help=r"A key stands before it: ':', '\t'.")
    ] = None,
    header: Headers = None,
    value_schema: ValueSchema = None,
    key_schema: KeySchema = None,
    registry: RegistryUrl = LOCAL_REGISTRY,
    null: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="A key or value with this text is null (a tombstone).")
    ] = None,
    partition: Annotated[int | None, typer.Option("--partition", min=0, help="Without it the key decides.")] = None,
    keep_partitions: Annotated[
        bool, typer.Option("--keep-partitions", help="With json: each record to the partition that it names.")
    ] = False,
    timestamp: Annotated[str | None, typer.Option(metavar="TIME", help="Without it now, or the one in json.")] = None,
    compression: Annotated[Codec, typer.Option("--compression", "-z")] = Codec.none,
    acks: Annotated[Acks, typer.Option()] = Acks.every,
    rate: Annotated[float | None, typer.Option(min=0.001, help="So many records per second at most.")] = None,
    output: Annotated[
        Report, typer.Option("--output", "-o", help="json: where each record was written.")
    ] = Report.none,
) -> int:
    """Write records. Every line that is read is one record; the end of input, or Ctrl-C, ends it with a summary."""
    from moldau.cli.records import produce_actions as actions

    shape = actions.Shape(
        key=key,
        key_separator=key_separator,
        headers=header or [],
        null=null,
        partition=partition,
        keep_partitions=keep_partitions,
        timestamp=timestamp,
        as_json=input_format is Input.json,
        encoding=actions.encoding(cluster, registry, topic, key_schema, value_schema),
    )
    # Java's partitioner, so that a key lands where every other Kafka client puts it.
    settings = {
        "compression.type": compression.value,
        "acks": acks.value,
        "linger.ms": 5,
        "partitioner": "murmur2_random",
    }
    if acks is Acks.every:
        settings["enable.idempotence"] = True
    return actions.produce(cluster, topic, shape, settings, values or [], file, rate, output is Report.json)
