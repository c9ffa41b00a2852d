"""`moldau txn`: transactions, those that hang among them."""

from __future__ import annotations

from typing import Annotated

import typer

from moldau.cli import completion
from moldau.cli.connection import Connection
from moldau.cli.options import DryRun, Output, Yes, connected
from moldau.cli.output import Format

app = typer.Typer(help="Transactions: who has one open, and ending those that nobody ends.", no_args_is_help=True)

Topic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", autocompletion=completion.topics, help="Only this one.")
]


@app.command("list")
@connected
def list_transactions(
    cluster: Connection,
    state: Annotated[list[str] | None, typer.Option(help="Only these states, for example Ongoing.")] = None,
    longer_than: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Only those that run longer than, for example, 5m.")
    ] = None,
    hanging: Annotated[
        bool, typer.Option("--hanging", help="Those that partitions hold open and no coordinator knows.")
    ] = False,
    older_than: Annotated[
        str, typer.Option(metavar="DURATION", help="With --hanging: how long nothing was written.")
    ] = "15m",
    topic: Topic = None,
    output: Output = Format.table,
) -> None:
    """List transactional ids and their states, or with --hanging the transactions that hang."""
    from moldau.cli.txn import actions

    if hanging:
        actions.list_hanging(cluster, topic, older_than, output)
    else:
        actions.list_transactions(cluster, state or [], longer_than, output)


@app.command()
@connected
def describe(
    cluster: Connection,
    ids: Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID...")],
    output: Output = Format.table,
) -> None:
    """Show a transaction's state, age, producer and partitions."""
    from moldau.cli.txn import actions

    actions.describe(cluster, ids, output)


@app.command()
@connected
def producers(
    cluster: Connection,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=completion.topics)],
    partition: Annotated[list[int] | None, typer.Option(min=0, help="Only these partitions.")] = None,
    output: Output = Format.table,
) -> None:
    """Show the producers that partitions remember, with the offset where an open transaction began."""
    from moldau.cli.txn import actions

    actions.producers(cluster, topic, partition or [], output)


@app.command()
@connected
def abort(
    cluster: Connection,
    transactional_id: Annotated[str | None, typer.Argument(metavar="TRANSACTIONAL_ID")] = None,
    topic: Topic = None,
    partition: Annotated[int | None, typer.Option(min=0, help="With --topic: a transaction that hangs.")] = None,
    start_offset: Annotated[int | None, typer.Option(min=0, help="Where the hanging one began.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Abort a transaction and fence its producer; or one that hangs, by --topic, --partition and --start-offset."""
    from moldau.cli.txn import actions

    if transactional_id is not None and topic is None:
        actions.abort(cluster, transactional_id, dry_run, yes)
    else:
        actions.abort_hanging(cluster, transactional_id, topic, partition, start_offset, dry_run, yes)
