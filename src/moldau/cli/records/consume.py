"""`moldau consume` and `moldau tail`: print records."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

import typer

from moldau.cli import completion
from moldau.cli.connection import Connection
from moldau.cli.options import TopicPatterns, connected
from moldau.cli.sides import Sides

POSITION_HELP: Final = "start, end, an offset, -N (the last N records), @TIME (@2024-05-01T12:00, @-1h)."


class Shape(StrEnum):
    """How records are printed."""

    text = "text"
    json = "json"


class Isolation(StrEnum):
    read_committed = "read_committed"
    read_uncommitted = "read_uncommitted"


Template = Annotated[
    str | None,
    typer.Option("--format", "-F", metavar="TEMPLATE", help=r"For example '%k\t%v\n'; the how-to lists them all."),
]
Keys = Annotated[bool, typer.Option("--keys", "-k", help="Print the key and a tab before the value.")]
Output = Annotated[Shape, typer.Option("--output", "-o", help="json prints a line that `produce -i json` reads.")]
Partitions = Annotated[list[int] | None, typer.Option("--partition", min=0, help="Only these partitions.")]
Grep = Annotated[
    str | None, typer.Option("--grep", metavar="REGEX", help="Only records with a match in key, value or a header.")
]
Null = Annotated[str, typer.Option("--null", metavar="TEXT", help="Printed for a null key or value.")]
IsolationLevel = Annotated[Isolation, typer.Option(help="Whether records of open and aborted transactions are shown.")]
Summary = Annotated[bool, typer.Option("--summary/--no-summary", help="A line on stderr at the end.")]

Decode = Annotated[
    Sides | None,
    typer.Option("--decode", help="Written with schemas of a registry, of any kind: print it as JSON."),
]
RegistryUrl = Annotated[
    str,
    typer.Option(
        "--registry",
        envvar="MOLDAU_REGISTRY",
        metavar="URL",
        help="The schema registry; user:password@ before the host.",
    ),
]
LOCAL_REGISTRY: Final = "http://localhost:8081"


@connected
def consume(
    cluster: Connection,
    topics: TopicPatterns,
    begin: Annotated[str, typer.Option("--from", metavar="POSITION", help=POSITION_HELP)] = "start",
    end: Annotated[str, typer.Option("--to", metavar="POSITION", help=POSITION_HELP)] = "end",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Wait for more at the end.")] = False,
    count: Annotated[int | None, typer.Option("--count", "-n", min=0, help="End after so many records.")] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            "-g",
            help="Read as a member of this group, from where it stands, and commit.",
            autocompletion=completion.groups,
        ),
    ] = None,
    partition: Partitions = None,
    grep: Grep = None,
    template: Template = None,
    keys: Keys = False,
    output: Output = Shape.text,
    null: Null = "",
    decode: Decode = None,
    registry: RegistryUrl = LOCAL_REGISTRY,
    isolation: IsolationLevel = Isolation.read_committed,
    summary: Summary = True,
) -> int:
    """Print the records of topics: everything that is there now, or a part of it."""
    from moldau.cli.records import consume_actions as actions

    decoding = actions.decoding(cluster, decode, registry)
    printer = actions.printer(output is Shape.json, template, keys, null, decode.names if decode else ())
    wanted = actions.Wanted(topics, partition or [], begin, end, follow, count, grep, isolation.value, decoding)
    if group is not None:
        return actions.consume_as_member(cluster, wanted, group, printer, summary)
    return actions.consume(cluster, wanted, printer, summary)


@connected
def tail(
    cluster: Connection,
    topics: TopicPatterns,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="First the last N of each partition.")] = 0,
    partition: Partitions = None,
    grep: Grep = None,
    template: Template = None,
    keys: Keys = False,
    output: Output = Shape.text,
    null: Null = "",
    decode: Decode = None,
    registry: RegistryUrl = LOCAL_REGISTRY,
    isolation: IsolationLevel = Isolation.read_committed,
    summary: Summary = True,
) -> int:
    """Print records as they arrive, until Ctrl-C."""
    from moldau.cli.records import consume_actions as actions

    decoding = actions.decoding(cluster, decode, registry)
    printer = actions.printer(output is Shape.json, template, keys, null, decode.names if decode else ())
    wanted = actions.Wanted(topics, partition or [], f"-{lines}", "end", True, None, grep, isolation.value, decoding)
    return actions.consume(cluster, wanted, printer, summary)
