"""Where Spark looks for the data source `moldau` by itself: it imports every top-level module named `pyspark_*`."""

from moldau.spark.source import MoldauDataSource as DefaultSource

__all__ = ["DefaultSource"]
