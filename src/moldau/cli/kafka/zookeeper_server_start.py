"""zookeeper-server-start: run a ZooKeeper server with a properties file.

The server is the one inside pip's PySpark; Java as Spark needs it. `-daemon` puts it into the background; `-name` and
`-loggc` are accepted. Settings that the file leaves out are those of a development cluster (tickTime 500 and the like);
KAFKA_HEAP_OPTS says how much memory it may take, KAFKA_OPTS what else Java is told: above all the JAAS file
whose section `Server` has the logins.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from moldau.cli.kafka.start_options import without_start_options

USAGE: Final = "USAGE: zookeeper-server-start [-daemon] zookeeper.properties"


def main(arguments: Sequence[str]) -> int:
    left, daemon = without_start_options(arguments)
    if len(left) != 1 or left[0] in ("--help", "-h"):
        print(USAGE, file=sys.stderr)
        return 1
    from moldau.cli.zookeeper import server as zookeeper_server
    from moldau.cli.zookeeper.process import ZooKeeperError

    try:
        settings_file = zookeeper_server.prepared(zookeeper_server.read_file(left[0]))
        if daemon:
            zookeeper_server.run_in_background(settings_file)
        else:
            zookeeper_server.run(settings_file)
    except ZooKeeperError as error:
        print(error, file=sys.stderr)
        return 1
    return 0
