"""`moldau log`: work on log files, with the broker stopped."""

import sys
import time
from typing import Annotated

import typer

app = typer.Typer(help="Work on the files of a partition. The broker must not be running.", no_args_is_help=True)

FAILED = 1


@app.callback()
def _group() -> None:
    """Keeps `repair` a command of its own while it is the only one."""


@app.command()
def repair(
    folder: Annotated[str, typer.Argument(help="The partition's folder, for example /data/orders-0.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before data is cut off.")] = False,
) -> None:
    """Cut a damaged log before its first bad batch, so that the partition can be served again.

    What stands behind the damage is lost. A broker leaves such a partition offline until this was done.
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
