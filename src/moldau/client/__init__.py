"""A small synchronous Kafka client over `wire`: one connection, and the cluster behind several.

It serves processes that need raw record batches or requests that librdkafka does not offer: Spark's driver and workers,
and some commands. Blocking sockets, no threads, nothing imported that a fresh Python worker would have to pay for.
`core` is the part without sockets, which the broker's own calls to other brokers share.
May import `types`, `kernels`, `wire`; never the broker.
"""
