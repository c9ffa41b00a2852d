"""The schema registry `moldau registry start`: Confluent's HTTP API on a compacted topic in Confluent's format.

`records` is the format of the topic, `state` what its records amount to, `rules` what a request makes of that state:
records to write, and the answer. `log` reads the topic and writes it, `election` finds the one instance that may write,
`forwarding` hands it the writes of the others, `node` makes a process of them, `api` and its neighbours are the paths.
Runs on any Kafka; may import `client`, `web`, `schemas` and the base layers, never the broker.
"""
