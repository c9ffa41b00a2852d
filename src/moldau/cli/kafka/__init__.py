"""Kafka's own command-line tools under their names: the same flags, output and exit codes.

One module per tool; `catalogue` is the table of them, `entry` runs them, `options` is Kafka's option parser. Each
talks to any Kafka broker through confluent-kafka and, where that lacks a call or a field, through `moldau.client`. Only
`dump_log` reads files. May import everything of ours, but lazily: a tool pays only for what it uses.
"""
