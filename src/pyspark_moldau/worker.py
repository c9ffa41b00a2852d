"""PySpark's worker, which tells Spark at once that its words have arrived (`spark.python.worker.module`).

Spark sends a task in several small pieces over TCP. Its side holds the second one back until the first is
acknowledged (Nagle's algorithm), and this side waits 40 ms with that, in the hope of an answer to send along: longer
than a small task takes. Linux can be told to acknowledge at once, for a while; so it is told with every task. Spark's
daemon imports a worker only if its name begins with `pyspark`.
"""

from __future__ import annotations

import os
import socket
from typing import IO, Any

from pyspark.worker import main as run_task
from pyspark.worker_util import get_sock_file_to_executor


def main(infile: IO[Any], outfile: IO[Any]) -> None:
    acknowledge_at_once(infile.fileno())
    run_task(infile, outfile)


def acknowledge_at_once(descriptor: int) -> None:
    if not hasattr(socket, "TCP_QUICKACK"):
        return
    with socket.socket(fileno=os.dup(descriptor)) as connection:
        if connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


if __name__ == "__main__":
    with get_sock_file_to_executor() as connection_file:
        main(connection_file, connection_file)
