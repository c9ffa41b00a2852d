"""kafka-preferred-replica-election: the name under which Kafka's early books elect preferred leaders.

It left Apache Kafka in 3.0 for kafka-leader-election, and prints what that prints.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from moldau.cli.kafka import leader_election
from moldau.cli.kafka.connecting import BOOTSTRAP, ZOOKEEPER, names_cluster
from moldau.cli.kafka.options import Parser, value

PARSER: Final = Parser(
    "This tool helps to causes leadership for each partition to be transferred back to the 'preferred replica', it can "
    "be used to balance leadership among the servers.",
    BOOTSTRAP,
    ZOOKEEPER,
    value("admin.config", "config file", "A properties file with settings of the client."),
    value(
        "path-to-json-file",
        "list of partitions for which preferred replica leader election needs to be triggered",
        'The partitions, in a file like {"partitions": [{"topic": "foo", "partition": 1}]}; all without it.',
    ),
)


def main(arguments: Sequence[str]) -> int:
    options = PARSER.parse(arguments)
    if not names_cluster(options):
        raise PARSER.missing("bootstrap-server")
    handed = ["--election-type", "preferred"]
    for name, under in (
        ("bootstrap-server", "bootstrap-server"),
        ("zookeeper", "zookeeper"),
        ("admin.config", "command-config"),
        ("path-to-json-file", "path-to-json-file"),
    ):
        if options.has(name):
            handed += [f"--{under}", options.given(name)]
    if not options.has("path-to-json-file"):
        handed.append("--all-topic-partitions")
    return leader_election.main(handed)
