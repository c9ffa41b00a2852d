"""What a connector's task needs to know to run: the pieces of its configuration, read and checked, and who runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from moldau.client.settings import ClientSettings
from moldau.connect.converter_names import java_name
from moldau.connect.converters import Converter
from moldau.connect.interface import Connector, SinkConnector, SourceConnector
from moldau.connect.transforms import Stage
from moldau.spark.writing.new_topics import NewTopics

if TYPE_CHECKING:
    from moldau.types.ids import TopicPartition

SINK_GROUP: Final = "connect-"
LOGIN: Final = ("security.", "sasl.", "ssl.", "client.id")
"""Of a client's settings those that say who it is."""
WORKERS_OWN: Final = (
    "group.id",
    "auto.offset.reset",
    "enable.auto.commit",
    "auto.commit.interval.ms",
    "key.deserializer",
    "value.deserializer",
    "key.serializer",
    "value.serializer",
)
"""What the worker does in the place of a client: of no concern to what reads and writes."""


@dataclass(frozen=True, slots=True)
class Errors:
    """What is done about records that cannot be converted, transformed or written."""

    tolerated: bool = False
    log: bool = False
    log_records: bool = False
    dead_letters: str = ""
    dead_letter_replication: int = 3
    dead_letter_headers: bool = False
    retry_ms: int = 0
    longest_delay_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Job:
    """A connector as it is to be run."""

    name: str
    place: str
    connector: type[Connector]
    config: Mapping[str, Any]
    """The connector's own values, and all that was given as text."""
    tasks_max: int
    key_converter: Converter
    value_converter: Converter
    stages: Sequence[Stage]
    errors: Errors
    topics: Sequence[str]
    topics_pattern: str
    kafka: Mapping[str, str]
    """The connection, under Java's names."""
    producer: Mapping[str, str]
    consumer: Mapping[str, str]
    group: str
    """Of the workers."""
    offsets_topic: str
    offsets_name: str
    """The connector's name in that topic."""
    poll_ms: int
    new_topics: Sequence[NewTopics] = ()
    """How a source makes topics that are missing."""
    admin: Mapping[str, str] = field(default_factory=dict)
    """For making topics and changing offsets."""

    @property
    def client(self) -> ClientSettings:
        return ClientSettings.from_properties(self.kafka)

    @property
    def admin_kafka(self) -> dict[str, str]:
        return {**self.kafka, **self.admin}

    @property
    def admin_client(self) -> ClientSettings:
        return ClientSettings.from_properties(self.admin_kafka)

    @property
    def consumer_kafka(self) -> dict[str, str]:
        """For what is asked in the name of the sink's group."""
        return {**self.kafka, **{name: value for name, value in self.consumer.items() if name.startswith(LOGIN)}}

    @property
    def sink_group(self) -> str:
        return self.consumer.get("group.id", f"{SINK_GROUP}{self.name}")

    def made(self) -> Connector:
        return self.connector(self.config)

    def source(self) -> SourceConnector:
        made = self.made()
        assert isinstance(made, SourceConnector)
        return made

    def sink(self) -> SinkConnector:
        made = self.made()
        assert isinstance(made, SinkConnector)
        return made

    @property
    def is_source(self) -> bool:
        return issubclass(self.connector, SourceConnector)

    @property
    def classes(self) -> dict[str, str]:
        """What runs at each stage, for dead letters."""
        return {
            "KEY_CONVERTER": java_name(self.key_converter),
            "VALUE_CONVERTER": java_name(self.value_converter),
            "TASK_POLL": str(self.config.get("connector.class", self.place)),
            "TASK_PUT": str(self.config.get("connector.class", self.place)),
        }

    def kafka_options(self, more: Mapping[str, str]) -> dict[str, str]:
        """As options of the data source."""
        return {f"kafka.{name}": value for name, value in {**self.kafka, **more}.items() if name not in WORKERS_OWN}


Offsets = dict["TopicPartition", int]
