"""What is wrong with a whole configuration: told at once, before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from moldau.connect.configuration import checked, described, unknown
from moldau.connect.definitions import ConfigDef, ConfigRefused, Key
from moldau.connect.interface import SourceConnector
from moldau.connect.plugins import BUILT_IN, find

SINK = {"topics": "t"}
CONNECTORS: dict[str, dict[str, str]] = {
    "FileStreamSource": {"file": "f", "topic": "t"},
    "JdbcSource": {"connection.url": "jdbc:sqlite:x.db", "mode": "bulk", "topic.prefix": "p"},
    "JdbcSink": {**SINK, "connection.url": "jdbc:sqlite:x.db"},
    "ArchiveSink": {**SINK, "url": "/archive"},
    "ArchiveSource": {"url": "/archive"},
    "S3Sink": {**SINK, "s3.bucket.name": "b"},
    "IcebergSink": {**SINK, "iceberg.tables": "db.t", "iceberg.catalog.type": "sql", "iceberg.catalog.uri": "sqlite://"},
    "MongoSink": {**SINK, "database": "d"},
    "MongoSource": {"database": "d"},
    "HttpSink": {**SINK, "http.api.url": "http://localhost"},
    "ElasticsearchSink": {**SINK, "connection.url": "http://localhost"},
    "Postgres": {
        "database.hostname": "h", "database.user": "u", "database.dbname": "d", "topic.prefix": "p",
    },
}  # fmt: skip


def given(connector: str, config: dict[str, str]) -> dict[str, str]:
    return {"name": "n", "connector.class": connector, **CONNECTORS[connector], **config}


def problems(connector: str, config: dict[str, str]) -> list[str]:
    try:
        checked(given(connector, config))
    except ConfigRefused as refused:
        return refused.problems
    return []


@pytest.mark.parametrize("connector", CONNECTORS)
def test_what_is_needed_is_enough(connector: str) -> None:
    assert problems(connector, {}) == []


TOGETHER: list[tuple[str, dict[str, str], list[str]]] = [
    (
        "JdbcSink",
        {"insert.mode": "upsert", "delete.enabled": "true"},
        ["Primary key mode must be 'record_key' when delete support is enabled", "insert.mode=upsert needs pk.mode"],
    ),
    ("JdbcSink", {"pk.mode": "kafka", "pk.fields": "a,b"}, ["pk.mode=kafka has 3 columns"]),
    ("JdbcSource", {"mode": "timestamp"}, ["mode=timestamp needs timestamp.column.name"]),
    (
        "JdbcSource",
        {"mode": "timestamp+incrementing", "query": "SELECT 1", "table.whitelist": "t", "topic.prefix": ""},
        [
            "query reads no tables: take table.whitelist away, or the query",
            "query goes to the topic that topic.prefix names: set it",
            "mode=timestamp+incrementing needs timestamp.column.name",
        ],
    ),
    ("JdbcSource", {"table.include.list": "a,("}, ["Invalid value ( for configuration table.include.list"]),
    (
        "ArchiveSink",
        {"partitioner.class": "FieldPartitioner", "format.class": "OrcFormat", "orc.codec": "gzip"},
        ["partitioner.class=FieldPartitioner needs partition.field.name", "orc.codec=gzip is none of"],
    ),
    (
        "ArchiveSink",
        {"partitioner.class": "TimeBasedPartitioner", "url": "ftp://host"},
        [
            "partitioner.class=TimeBasedPartitioner needs path.format and partition.duration.ms",
            "ftp://host is no folder and none of s3, gs, az",
        ],
    ),
    (
        "S3Sink",
        {
            "partitioner.class": "TimeBasedPartitioner",
            "path.format": "'year'=YYYY/q",
            "partition.duration.ms": "1000",
            "store.options.azure_x": "1",
        },
        ["Invalid value 'year'=YYYY/q for configuration path.format: q is none of", "store.options.azure_x is no opt"],
    ),
    ("ArchiveSource", {"timestamp.from": "20", "timestamp.to": "10"}, ["timestamp.to has to be later"]),
    ("ArchiveSource", {"store.options.x": "1"}, ["store.options.x is no option of /archive: a folder has none"]),
    ("IcebergSink", {"iceberg.catalog.type": "skl"}, ["Invalid value skl for configuration iceberg.catalog.type: one"]),
    ("IcebergSink", {"iceberg.catalog.uri": ""}, ["iceberg.catalog.type=sql needs iceberg.catalog.uri"]),
    (
        "MongoSink",
        {
            "document.id.strategy": "PartialKeyStrategy",
            "writemodel.strategy": "UpdateAll",
            "post.processor.chain": "Renamer",
            "timeseries.timefield": "at",
            "references": "a:b",
            "topic.override.t.database": "x",
        },
        [
            "document.id.strategy.partial.key.projection.type has to be allowlist or blocklist",
            "writemodel.strategy: UpdateAll is not known here",
            "post.processor.chain: only DocumentIdAdder is known here",
            "timeseries.timefield=at is not known here",
            "references: a:b is no field:collection:id",
            "topic.override.t.database: only topic.override.TOPIC.collection is known here",
        ],
    ),
    (
        "MongoSink",
        {"delete.on.null.values": "true", "writemodel.strategy": "InsertOneDefaultStrategy"},
        ["delete.on.null.values needs a document.id.strategy of keys"],
    ),
    (
        "MongoSource",
        {"topic.mapper": "X", "output.json.formatter": "Y", "pipeline": "{", "startup.mode": "timestamp"},
        [
            "topic.mapper=X is not known here",
            "output.json.formatter: known are",
            "pipeline is no JSON",
            "startup.mode=timestamp needs startup.mode.timestamp.start.at.operation.time",
        ],
    ),
    (
        "HttpSink",
        {
            "http.api.url": "ftp://x",
            "http.proxy.host": "proxy",
            "behavior.on.null.values": "delete",
            "headers": "no colon",
            "retry.on.status.codes": "many",
            "regex.patterns": "a~b",
            "auth.type": "basic",
        },
        [
            "http.proxy.host is not known here",
            "behavior.on.null.values=delete needs ${key} in http.api.url",
            "http.api.url begins with http:// or https://",
            "headers: no colon is no name:value",
            "many is no range of statuses",
            "regex.replacements has 1 parts, and regex.patterns 2",
            "auth.type=basic needs connection.user and connection.password",
        ],
    ),
    (
        "ElasticsearchSink",
        {
            "use.autogenerated.ids": "true",
            "behavior.on.null.values": "delete",
            "write.method": "upsert",
            "key.ignore": "true",
            "topic.to.external.resource.mapping": "t",
        },
        [
            "use.autogenerated.ids=true is not possible",
            "behavior.on.null.values=delete needs key.ignore=false",
            "write.method=upsert needs key.ignore=false",
            "topic.to.external.resource.mapping: t is no topic:index",
        ],
    ),
    (
        "Postgres",
        {"column.mask.hash": "x", "message.key.columns": "y", "skipped.operations": "c,x"},
        [
            "Invalid value c,x for configuration skipped.operations: some of c, u, d and t, or none alone",
            "Invalid value x for configuration column.mask.hash: this setting of Debezium is not followed here",
            "Invalid value y for configuration message.key.columns: this setting of Debezium is not followed here",
        ],
    ),
    ("Postgres", {"skipped.operations": "c,none"}, ["Invalid value c,none for configuration skipped.operations"]),
]


@pytest.mark.parametrize(("connector", "config", "told"), TOGETHER)
def test_settings_that_do_not_go_together_are_told_at_once(
    connector: str, config: dict[str, str], told: list[str]
) -> None:
    found = problems(connector, config)
    assert [each[: len(start)] for each, start in zip(found, told, strict=True)] == told
    answer = described(given(connector, config), connector)
    shown = [problem for each in answer["configs"] for problem in each["value"]["errors"]]
    assert (answer["error_count"], sorted(shown)) == (len(told), sorted(found)), "validate tells the same"


def test_what_is_wrong_by_itself_is_told_beside_what_does_not_go_together() -> None:
    wrong = {"insert.mode": "merge", "delete.enabled": "true", "pk.mode": "record_value", "batch.size": "0"}
    assert [each.split(":")[0] for each in problems("JdbcSink", wrong)] == [
        "Invalid value merge for configuration insert.mode",
        "Invalid value 0 for configuration batch.size",
        "Primary key mode must be 'record_key' when delete support is enabled",
    ]


@pytest.mark.parametrize("built_in", BUILT_IN, ids=lambda each: each.simple)
def test_missing_settings_break_no_check(built_in: Any) -> None:
    with pytest.raises(ConfigRefused, match="Missing required configuration"):
        checked({"connector.class": built_in.java})


def test_converters_and_patterns_of_topics_are_checked() -> None:
    converters = {f"{each}.converter": "no.such.Converter" for each in ("key", "value", "header")}
    found = problems("JdbcSink", {**converters, "topics": "", "topics.regex": "("})
    assert sorted(each.split(" for configuration ")[1].split(":")[0] for each in found) == [
        "header.converter",
        "key.converter",
        "topics.regex",
        "value.converter",
    ]
    for name in ("org.apache.kafka.connect.storage.SimpleHeaderConverter", "SimpleHeaderConverter", "StringConverter"):
        assert problems("JdbcSink", {"header.converter": name}) == []


def unknown_of(connector: str, config: dict[str, str]) -> list[str]:
    whole = given(connector, config)
    return unknown(whole, checked(whole))


def test_settings_that_nobody_knows_are_told_with_the_nearest() -> None:
    assert unknown_of("FileStreamSource", {"errors.tolerence": "all", "colour": "red"}) == [
        "errors.tolerence is not known, and passed over: did you mean errors.tolerance?",
        "colour is not known, and passed over",
    ]
    known = {
        "transforms": "c",
        "transforms.c.type": "Cast$Value",
        "transforms.c.spec": "int32",
        "value.converter": "JsonConverter",
        "value.converter.schemas.enable": "false",
        "producer.override.linger.ms": "5",
        "admin.override.client.id": "a",
        "topic.creation.default.partitions": "1",
        "topic.creation.default.replication.factor": "1",
        "topic.creation.default.retention.ms": "1",
    }
    assert unknown_of("FileStreamSource", known) == []
    assert unknown_of("FileStreamSource", {**known, "transforms.c.spek": "x"}) == [
        "transforms.c.spek is not known, and passed over: did you mean transforms.c.spec?"
    ]
    assert unknown_of("IcebergSink", {"iceberg.catalog.s3.endpoint": "x"}) == []
    assert unknown_of("S3Sink", {"store.options.aws_x": "y"}) == []
    assert unknown_of("MongoSink", {"topic.override.t.collection": "c"}) == []


class Mine(SourceConnector):
    CONFIG: ClassVar = ConfigDef(Key("first"), Key("second"))

    @classmethod
    def problems(cls, config: Any) -> list[tuple[str, str]]:
        return [("second", "second needs first")] if config["second"] and not config["first"] else []


class Plain(SourceConnector):
    pass


def test_connectors_of_ones_own_have_rules_too() -> None:
    config = {"name": "n", "connector.class": f"{__name__}.Mine", "second": "2"}
    with pytest.raises(ConfigRefused, match=r"^second needs first$"):
        checked(config)
    plain = {**config, "connector.class": f"{__name__}.Plain"}
    assert unknown(plain, checked(plain)) == [], "it does not say what it knows"
    assert find(f"{__name__}.Mine").OPEN == ()


def test_nothing_is_looked_at_but_the_values(tmp_path: Path) -> None:
    assert problems("ArchiveSink", {"url": str(tmp_path / "nowhere")}) == []
    assert list(tmp_path.iterdir()) == []
