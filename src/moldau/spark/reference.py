"""The reference page of the data source's options, from the tables that the code reads."""

from __future__ import annotations

from collections.abc import Iterable

from moldau.spark.kafka_keys import kafka_keys
from moldau.spark.option_table import Option, Use
from moldau.spark.planning.options import READ_OPTIONS
from moldau.spark.schema import COLUMNS
from moldau.spark.values.options import VALUE_OPTIONS
from moldau.spark.writing.options import WRITE_OPTIONS

SHORT = {
    Use.BATCH_READ: "read",
    Use.STREAM_READ: "readStream",
    Use.BATCH_WRITE: "write",
    Use.STREAM_WRITE: "writeStream",
}


def markdown() -> str:
    lines = [
        "# Options of the Spark data source",
        "",
        (
            'Written by `make docs`. `spark.read.format("moldau")`, `readStream`, `write` and `writeStream` take these '
            "options; names are read in any case. An option that is not here is refused, with the nearest name that "
            "is; so is one that contradicts another, or would have no effect beside it."
        ),
        "",
        "## Columns",
        "",
        "| column | type |",
        "|---|---|",
        *(f"| `{name}` | {kind.simpleString()} |" for name, kind in COLUMNS.items()),
        "",
        "`headers` comes with `includeHeaders`, or when it is named in `columns` or `.schema(…)`.",
        "",
        "## Reading",
        "",
        *table(READ_OPTIONS),
        "",
        "## Writing",
        "",
        *table(WRITE_OPTIONS),
        "",
        "## Typed keys and values",
        "",
        *table(VALUE_OPTIONS),
        "",
        "## Kafka's properties",
        "",
        (
            "Each is given with the prefix `kafka.`. *Ignored* ones are reported in the log; *refused* ones, and "
            "any that are not in this table, fail the query."
        ),
        "",
        "| property | reading | writing | |",
        "|---|---|---|---|",
        *(
            f"| `{key.name}` | {key.when_reading} | {key.when_writing} | {key.note} |"
            for key in sorted(kafka_keys().values(), key=lambda key: key.name)
        ),
    ]
    return "\n".join(lines) + "\n"


def table(options: Iterable[Option]) -> list[str]:
    rows = ["| option | for | default | meaning |", "|---|---|---|---|"]
    for option in options:
        uses = ", ".join(SHORT[use] for use in Use if use in option.uses)
        default = f"{option.default}" if option.default else "–"
        rows.append(f"| `{option.name}` | {uses} | {escape(default)} | {escape(option.doc)} |")
    return rows


def escape(text: str) -> str:
    """For a table's cell: code stays as it is, but for the bar."""
    parts = text.replace("|", "\\|").split("`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))
