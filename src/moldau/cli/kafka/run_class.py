"""kafka-run-class: run one of the tools by the name of Kafka's class, as old instructions do."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from moldau.cli.kafka.catalogue import TOOLS


def main(arguments: Sequence[str]) -> int:
    if not arguments:
        print("USAGE: kafka-run-class classname [opts]", file=sys.stderr)
        return 1
    wanted = arguments[0].rpartition(".")[2]
    for tool in TOOLS.values():
        if tool.java_class and tool.java_class.rpartition(".")[2] == wanted:
            from moldau.cli.kafka.entry import run

            return run(tool.name, arguments[1:])
    print(
        f"{arguments[0]}: Java classes cannot be run here; known are the classes of {', '.join(TOOLS)}",
        file=sys.stderr,
    )
    return 1
