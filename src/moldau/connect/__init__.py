"""Kafka Connect on Spark: connectors in Python, `connect-standalone`, `connect-distributed` and Connect's REST API.

`interface` is what a connector implements, `definitions` how it says its settings, `plugins` how it is found by name;
`connectors/` are those that come along. `sources` and `sinks` make a streaming query of a connector, with `converters`
and `transforms` as column expressions between it and the topics; both say why a crash neither loses nor doubles.
`worker/` is the process: settings, states, REST, the group of workers. May import `spark` and `web` and below, never
the broker.
"""

from moldau.connect.definitions import REQUIRED, ConfigDef, Key
from moldau.connect.interface import (
    RawRecord,
    RecordRefused,
    SinkConnector,
    SinkRecord,
    SourceConnector,
    SourceRecord,
    Stream,
)

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "Key",
    "RawRecord",
    "RecordRefused",
    "SinkConnector",
    "SinkRecord",
    "SourceConnector",
    "SourceRecord",
    "Stream",
]
