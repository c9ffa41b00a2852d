"""What commands print: tables for people, JSON and YAML for programs, one line for what went wrong.

Results go to stdout; questions, notes, progress and errors to stderr, so that a pipe carries results alone. Tables are
plain aligned columns, in a terminal too (`tables`). `rich` is imported only where it draws.

Exit codes, the same for every `moldau` command:

    0    done
    1    the cluster refused it, or a part of it failed
    2    the command line, or a file it names, is wrong; nothing was done
    3    no broker could be reached
    4    what was named (topic, group, transaction, profile) does not exist
    5    `cluster health` found something wrong
    130  ended with Ctrl-C
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TextIO

from moldau.cli.tables import Column, Table, lines_of

__all__ = (
    "DONE", "EXIT_CODES", "FAILED", "INTERRUPTED", "NOT_FOUND", "UNHEALTHY", "UNREACHABLE", "WRONG_USAGE", "Column",
    "CommandError", "Format", "ReaderGone", "Table", "confirm", "nearest", "note", "plural", "print_table", "progress",
    "show", "size_text", "to_yaml", "warn",
)  # fmt: skip

DONE: Final = 0
FAILED: Final = 1
WRONG_USAGE: Final = 2
UNREACHABLE: Final = 3
NOT_FOUND: Final = 4
UNHEALTHY: Final = 5
INTERRUPTED: Final = 130

EXIT_CODES: Final = {
    DONE: "done",
    FAILED: "the cluster refused it, or a part of it failed",
    WRONG_USAGE: "the command line, or a file it names, is wrong; nothing was done",
    UNREACHABLE: "no broker could be reached",
    NOT_FOUND: "what was named (topic, group, transaction, profile) does not exist",
    UNHEALTHY: "`cluster health` found something wrong",
    INTERRUPTED: "ended with Ctrl-C",
}


BOLD: Final = "\x1b[1m"
PLAIN: Final = "\x1b[0m"


class CommandError(Exception):
    """Ends a command: one line that says what is wrong and what to do, and an exit code."""

    def __init__(self, message: str, hint: str = "", exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __str__(self) -> str:
        text = f"{self.message}; {self.hint}" if self.hint else self.message
        return " ".join(text.split())


class ReaderGone(Exception):
    """Whoever read our output has closed it (`| head`): the end of the command, and no fault."""


class Format(StrEnum):
    """How results are printed."""

    table = "table"
    wide = "wide"
    json = "json"
    yaml = "yaml"

    @property
    def for_programs(self) -> bool:
        return self in (Format.json, Format.yaml)


def show(format: Format, document: Any, tables: Callable[[], Sequence[Table]], empty: str = "") -> None:
    """Print a result: the document for programs, the tables (made only then) for people."""
    if format is Format.json:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif format is Format.yaml:
        print(to_yaml(document))
    else:
        found = [table if format is Format.wide else table.without_wide() for table in tables()]
        if empty and not any(table.rows for table in found):
            note(empty)
            return
        for number, table in enumerate(found):
            if number:
                print()
            print_table(table)


def print_table(table: Table, out: TextIO | None = None) -> None:
    out = out or sys.stdout
    if table.title:
        print(table.title, file=out)
    print(*shown_lines(table, out), sep="\n", file=out)


def shown_lines(table: Table, out: TextIO) -> list[str]:
    """Within a terminal's width, with its headings in bold."""
    if not out.isatty():
        return lines_of(table)
    lines = lines_of(table, shutil.get_terminal_size().columns)
    if "NO_COLOR" not in os.environ and lines and lines[0].isupper():
        lines[0] = f"{BOLD}{lines[0]}{PLAIN}"
    return lines


def to_yaml(value: Any, indent: int = 0) -> str:
    """Block style; strings quoted as in JSON, which YAML reads."""
    pad = "  " * indent
    if isinstance(value, Mapping) and value:
        return "\n".join(f"{pad}{_yaml_key(key)}:{_yaml_below(item, indent)}" for key, item in value.items())
    if isinstance(value, list | tuple) and value:
        return "\n".join(f"{pad}-{_yaml_item(item, indent)}" for item in value)
    return pad + json.dumps(value, ensure_ascii=False)


def _yaml_key(key: object) -> str:
    text = str(key)
    return text if text.replace("_", "").isalpha() else json.dumps(text, ensure_ascii=False)


def _yaml_below(item: Any, indent: int) -> str:
    if isinstance(item, Mapping | list | tuple) and item:
        return "\n" + to_yaml(item, indent + 1)
    return " " + to_yaml(item)


def _yaml_item(item: Any, indent: int) -> str:
    if isinstance(item, Mapping | list | tuple) and item:
        return " " + to_yaml(item, indent + 1).lstrip()
    return " " + to_yaml(item)


def note(message: str) -> None:
    """Something beside the result: to stderr."""
    print(message, file=sys.stderr)


def warn(message: str) -> None:
    note(f"warning: {message}")


def warn_of_readers(path: Path, properties: Mapping[str, str]) -> None:
    """If the file says secrets, and everybody on this machine may read it."""
    from moldau.config.open_files import warning_of_properties

    warning = warning_of_properties(path, properties)
    if warning is not None:
        warn(warning)


def plural(count: int, thing: str) -> str:
    """1 record, 2,000 records."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def size_text(size: int) -> str:
    """Bytes as people read them."""
    amount, unit = float(size), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if amount < 1024:
            break
        amount, unit = amount / 1024, larger
    return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed. Where nobody can be asked, `--yes` must have been given."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise CommandError(f"nobody can be asked: {question} Add --yes to go ahead", exit_code=WRONG_USAGE)
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise CommandError("nothing was done", exit_code=FAILED)


@contextmanager
def progress(description: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar on stderr, if that is a terminal; call what it gives with the amount done so far."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task(description, total=total)
        yield lambda done: bars.update(bar, completed=done)


def nearest(name: str, known: Sequence[str] | set[str]) -> str:
    """A hint that names what was probably meant, or nothing."""
    import difflib

    found = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f"did you mean {found[0]!r}?" if found else ""
