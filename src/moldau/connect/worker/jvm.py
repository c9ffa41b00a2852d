"""The Java process of a Spark session: without it nothing runs, and no new session can be made beside what is left."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class SparkLost(OSError):
    """A worker has no Spark any more, and has to be started again."""


def how_it_ended(spark: SparkSession) -> str | None:
    """None while it runs, and where another process has started it."""
    process = getattr(spark.sparkContext._gateway, "proc", None)
    code = None if process is None else process.poll()
    if process is None or code is None:
        return None
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with the code {code}"
    return f"Spark's Java process {process.pid} {how}: no connector of this worker runs any more"
