"""Spark's side: the data source `moldau`, its planner and its tasks. Imports `client` and the base layers (types,
kernels, wire, config, metrics), never the broker. What Spark looks up often (source, options, planner) imports no
Arrow, pandas or librdkafka.
"""

from moldau.spark.session import session
from moldau.spark.writing.foreach import exactly_once, write_batch

__all__ = ["exactly_once", "session", "write_batch"]
