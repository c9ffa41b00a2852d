"""Classes by the names that configurations call them: aliases, Java's names, entry points, dotted names.

A package offers connectors under the entry point group `moldau.connectors`; any class on Python's path is found by
`package.module.Class` or `package.module:Class`. Java's plug-ins cannot run here and are refused with that reason.
"""

from __future__ import annotations

import difflib
import importlib
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from moldau.connect.interface import Connector, SinkConnector, SourceConnector
from moldau.version import VERSION

log = logging.getLogger(__name__)

ENTRY_POINTS: Final = "moldau.connectors"
ENDINGS: Final = ("source", "sink")
NEAR: Final = 0.8
NEAR_WITHOUT_ENDING: Final = 0.6
"""A JmsSource is no S3Source with a slip of the pen."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    java: str
    """The class of the Java connector that it takes the place of."""
    place: str

    @property
    def simple(self) -> str:
        return self.java.rsplit(".", 1)[-1]

    @property
    def short(self) -> str:
        return self.simple.removesuffix("Connector")


BUILT_IN: Final = (
    BuiltIn("org.apache.kafka.connect.file.FileStreamSourceConnector", "moldau.connect.connectors.files:FileSource"),
    BuiltIn("org.apache.kafka.connect.file.FileStreamSinkConnector", "moldau.connect.connectors.files:FileSink"),
    BuiltIn("org.apache.flume.source.SpoolDirectorySource", "moldau.connect.connectors.spooling:SpoolDirSource"),
    BuiltIn("io.confluent.connect.jdbc.JdbcSourceConnector", "moldau.connect.connectors.jdbc_source:JdbcSource"),
    BuiltIn("io.confluent.connect.jdbc.JdbcSinkConnector", "moldau.connect.connectors.jdbc_sink:JdbcSink"),
    BuiltIn("moldau.connect.ArchiveSinkConnector", "moldau.connect.connectors.archive_sink:ArchiveSink"),
    BuiltIn("moldau.connect.ArchiveSourceConnector", "moldau.connect.connectors.archive_source:ArchiveSource"),
    BuiltIn("io.confluent.connect.s3.S3SinkConnector", "moldau.connect.connectors.s3_sink:S3Sink"),
    BuiltIn("io.confluent.connect.s3.source.S3SourceConnector", "moldau.connect.connectors.s3_source:S3Source"),
    BuiltIn("moldau.connect.DeltaSinkConnector", "moldau.connect.connectors.delta_sink:DeltaSink"),
    BuiltIn("org.apache.iceberg.connect.IcebergSinkConnector", "moldau.connect.connectors.iceberg_sink:IcebergSink"),
    BuiltIn(
        "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        "moldau.connect.connectors.elasticsearch_sink:ElasticsearchSink",
    ),
    BuiltIn("io.confluent.connect.http.HttpSinkConnector", "moldau.connect.connectors.http_sink:HttpSink"),
    BuiltIn("com.mongodb.kafka.connect.MongoSinkConnector", "moldau.connect.connectors.mongo_sink:MongoSink"),
    BuiltIn("com.mongodb.kafka.connect.MongoSourceConnector", "moldau.connect.connectors.mongo_source:MongoSource"),
    BuiltIn(
        "io.debezium.connector.postgresql.PostgresConnector", "moldau.connect.connectors.postgres.source:PostgresSource"
    ),
)


class PluginMissing(ValueError):
    """No class of this name can be run."""


def names_of(java: str) -> set[str]:
    """As Kafka: the full name, the simple one, and the simple one without Connector."""
    simple = java.rsplit(".", 1)[-1]
    return {java, simple, simple.removesuffix("Connector")}


def find(name: str) -> type[Connector]:
    try:
        found = loaded(place_of(name))
    except (ImportError, AttributeError, ValueError) as error:
        raise PluginMissing(not_found(name, error)) from None
    if not (isinstance(found, type) and issubclass(found, SourceConnector | SinkConnector)):
        raise PluginMissing(f"{name} is no connector: a subclass of SourceConnector or SinkConnector is expected")
    return found


def place_of(name: str) -> str:
    for each in BUILT_IN:
        if name in names_of(each.java):
            return each.place
    point = entry_point(name)
    return name if point is None else point.value


def entry_point(name: str) -> EntryPoint | None:
    return next((each for each in packaged() if each.name == name), None)


def packaged() -> Iterable[EntryPoint]:
    return entry_points(group=ENTRY_POINTS)


def not_found(name: str, error: Exception) -> str:
    parts = [f"Failed to find any class that implements Connector and which name matches {name}"]
    if point := entry_point(name):
        parts.append(f" ({point.value}, which a package offers under this name, cannot be loaded: {error})")
    elif looks_java(name):
        parts.append(" (connectors are Python classes here: plug-ins of Java cannot be run)")
    elif "." in name:
        parts.append(f" ({error})")
    if near := nearest(name):
        parts.append(f"; did you mean {near}?")
    available = ", ".join(sorted([each.java for each in BUILT_IN] + [each.name for each in packaged()]))
    return "".join([*parts, f"; available connectors are: {available}"])


def nearest(name: str) -> str | None:
    """What was meant, if there is no doubt; in the form in which it was written."""
    known = {each.short.lower(): each.java if "." in name else each.short for each in BUILT_IN}
    known |= {each.name.lower(): each.name for each in packaged() if each.name != name}
    written = name.rsplit(".", 1)[-1].removesuffix("Connector").lower()
    for found in difflib.get_close_matches(written, known, n=3, cutoff=NEAR):
        if difflib.SequenceMatcher(None, without_ending(written), without_ending(found)).ratio() >= NEAR_WITHOUT_ENDING:
            return known[found]
    return None


def without_ending(simple: str) -> str:
    return next((simple.removesuffix(each) for each in ENDINGS if simple.endswith(each)), simple)


def looks_java(name: str) -> bool:
    return name.split(".")[0] in ("com", "org", "io", "net", "de", "java") and name.rsplit(".", 1)[-1][:1].isupper()


@lru_cache(maxsize=256)
def loaded(place: str) -> object:
    module, colon, attribute = place.partition(":")
    if not colon:
        module, _, attribute = place.rpartition(".")
    if not module or not attribute:
        raise ImportError("a dotted name of a class is expected, such as package.module.Class")
    return getattr(importlib.import_module(module), attribute)


def kind_of(connector: type[Connector]) -> str:
    return "source" if issubclass(connector, SourceConnector) else "sink"


def version_of(connector: type[Connector]) -> str:
    return connector.VERSION or VERSION


def offered() -> Iterable[tuple[str, type[Connector]]]:
    """Name and class of everything that is known without being asked for, and can be loaded."""
    for name in [each.java for each in BUILT_IN] + [each.name for each in packaged()]:
        try:
            found = find(name)
        except PluginMissing as problem:
            log.warning("%s is not offered: %s", name, problem)
        else:
            yield name, found
