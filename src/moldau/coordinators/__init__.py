"""Group and transaction coordinators as state machines: a request and the time give records to append and an answer.

Pure: no clock, socket, file or task inside; knows nothing of files. May import types, wire and config. Records in
Kafka's own formats are the only durable state: it is rebuilt by replaying them.
"""
