"""`moldau kafka-tools`: which of Apache Kafka's commands are here under their names, and which are not."""

from __future__ import annotations

from moldau.cli.kafka.catalogue import LATER, TOOLS
from moldau.cli.options import Output
from moldau.cli.output import Column, Format, Table, show


def kafka_tools(output: Output = Format.table) -> None:
    """List Apache Kafka's commands that are here under their own names, and what is missing."""
    rows = [{"command": tool.name, "purpose": tool.purpose, "missing": None} for tool in TOOLS.values()]
    rows += [{"command": tool.name, "purpose": tool.purpose, "missing": tool.missing} for tool in LATER.values()]

    def tables() -> list[Table]:
        here = Table([Column("command"), Column("what it does")], "Here, each also with .sh:")
        missing = Table([Column("command"), Column("what it does"), Column("what is missing")], "Not here:")
        for row in rows:
            if row["missing"] is None:
                here.add(row["command"], row["purpose"])
            else:
                missing.add(row["command"], row["purpose"], row["missing"])
        return [here, missing]

    show(output, rows, tables)
