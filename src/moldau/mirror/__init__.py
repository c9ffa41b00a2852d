"""Mirroring: topics, groups, settings and access rules of one cluster, kept up in another, exactly once.

It is what Kafka's MirrorMaker 2 does, with its property file, names and record formats, on our own wire client: record
batches travel as bytes, and the position in the source is written in the transaction that writes the records.
May import the client and what is below it; never the broker, never Spark.
"""
