"""`moldau log`: look at log files, check them, bring a damaged one back into service."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from moldau.cli.options import Output
from moldau.cli.output import Format

app = typer.Typer(help="Look at log files, check them, bring a damaged one back.", no_args_is_help=True)

FAILED = 1

Paths = Annotated[
    list[Path],
    typer.Argument(metavar="PATH...", help="Segments (.log), the folder of a partition, or a broker's log directory."),
]


@app.command()
def dump(
    paths: Paths,
    records: Annotated[bool, typer.Option("--records", "-r", help="The records, not the batches.")] = False,
    template: Annotated[
        str | None,
        typer.Option("--format", "-F", metavar="TEMPLATE", help="How a record is printed, as in `moldau consume`."),
    ] = None,
    output: Output = Format.table,
) -> int:
    """Print the batches of a log, or its records. Only reads: the broker may be running."""
    from moldau.cli.log import actions
    from moldau.cli.records import consume_actions

    printer = None if template is None else consume_actions.printer(False, template, False, "")
    return actions.dump(paths, records or template is not None, printer, output)


@app.command()
def verify(paths: Paths, output: Output = Format.table) -> int:
    """Check every batch, record and index entry; exit code 1 if something is wrong. Only reads."""
    from moldau.cli.log import actions

    return actions.verify(paths, output)


@app.command()
def repair(
    folder: Annotated[str, typer.Argument(help="The partition's folder, for example /data/orders-0.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before data is cut off.")] = False,
) -> None:
    """Cut a damaged log before its first bad batch, so that the partition can be served again.

    What stands behind the damage is lost, and the broker must not be running. It leaves such a partition offline until
    this was done.
    """
    from moldau.storage.checkpoints import CorruptFileError, DirectoryInUseError
    from moldau.storage.errors import LogIOError
    from moldau.storage.files import OsFiles
    from moldau.storage.repair import NotAPartitionError, repair

    if not yes:
        typer.confirm(f"Cut {folder} before its first damaged batch, if it has one?", abort=True)
    try:
        done = repair(OsFiles(), folder, lambda: time.time_ns() // 1_000_000, _show_progress)
    except (NotAPartitionError, DirectoryInUseError, CorruptFileError, LogIOError, OSError) as error:
        print(f"moldau log repair: {error}", file=sys.stderr)
        raise typer.Exit(FAILED) from error
    print(str(done.cut) if done.cut is not None else "every batch is sound; nothing was cut")
    print(f"{folder}: offsets {done.log_start_offset} to {done.log_end_offset}, {done.bytes_checked} bytes checked")


def _show_progress(checked: int, total: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{checked >> 20} of {total >> 20} MB checked", end="" if checked < total else "\n", file=sys.stderr)
