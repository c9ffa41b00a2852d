"""The writer's options and columns: what they become, and what is refused with the name of the cause."""

from __future__ import annotations

import pytest
from pyspark.sql.types import StructType

from moldau.client import settings
from moldau.client.ticket_source import TicketSource
from moldau.spark.option_table import OptionError, Use
from moldau.spark.values.ddl import parse_type
from moldau.spark.writing.errors import RowRefused
from moldau.spark.writing.links import Links
from moldau.spark.writing.options import parse_write_options
from moldau.spark.writing.rows import check_schema
from moldau.spark.writing.writers import plan_write
from moldau.wire.compression import Codec

BROKER = {"kafka.bootstrap.servers": "localhost:9092"}


def columns(ddl: str) -> StructType:
    found = parse_type(ddl)
    assert isinstance(found, StructType)
    return found


def test_defaults_of_a_stream() -> None:
    options = parse_write_options({**BROKER, "topic": "out", "checkpointlocation": "/c"}, Use.STREAM_WRITE)
    assert options.exactly_once
    assert (options.prefix, options.sink, options.starts_at_batch) == ("moldau", "out", 0)
    assert (options.acks, options.codec, options.transaction_ms) == (-1, Codec.NONE, 900_000)


def test_defaults_of_a_batch() -> None:
    options = parse_write_options(BROKER, Use.BATCH_WRITE)
    assert not options.exactly_once
    assert (options.topic, options.sink) == (None, "topic-column")


def test_everything_given() -> None:
    given = {
        "topic": "out", "DELIVERY": "Exactly-Once", "sinkid": "s", "transactionalIdPrefix": "p", "stageBytes": "1000",
        "sinkStartsAtBatch": "7", "queryId": "q", "batchId": "3", "includeHeaders": "true",
        "kafka.compression.type": "zstd", "kafka.compression.zstd.level": "5", "kafka.batch.size": "10",
        "kafka.max.request.size": "20", "kafka.delivery.timeout.ms": "3000", "kafka.transaction.timeout.ms": "4000",
    }  # fmt: skip
    options = parse_write_options({**BROKER, **given}, Use.BATCH_WRITE)
    assert (options.exactly_once, options.sink, options.prefix, options.stage_bytes) == (True, "s", "p", 1000)
    assert (options.starts_at_batch, options.query, options.batch) == (7, "q", 3)
    assert (options.codec, options.level, options.batch_bytes, options.request_bytes) == (Codec.ZSTD, 5, 10, 20)
    assert (options.client.total_seconds, options.transaction_ms) == (3.0, 4000)


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"topic": " "}, "option 'topic': is empty"),
        ({"delivry": "x"}, "did you mean 'delivery'"),
        ({"delivery": "twice"}, "'twice' is none of exactly-once, at-least-once"),
        ({"sinkId": "a/b"}, "option 'sinkId': 'a/b' has to be"),
        ({"batchId": "1"}, "option 'queryId': goes together with batchId"),
        ({"sinkStartsAtBatch": "-1"}, "-1 is less than 0"),
        ({"stageBytes": "many"}, "'many' is no whole number"),
        ({"sinkId": "s"}, "option 'sinkId': has no meaning with delivery=at-least-once"),
        ({"sinkStartsAtBatch": "1"}, "option 'sinkStartsAtBatch': has no meaning with delivery=at-least-once"),
        ({"transactionalIdPrefix": "p"}, "option 'transactionalIdPrefix': has no meaning with delivery=at-least-once"),
        ({"stageBytes": "1"}, "option 'stageBytes': has no meaning with delivery=at-least-once"),
        ({"queryId": "q", "batchId": "1"}, "option 'queryId': has no meaning with delivery=at-least-once"),
        ({"kafka.acks": "2"}, "option 'kafka.acks': '2' is none of all, 1, 0"),
        ({"kafka.acks": "1", "delivery": "exactly-once"}, "contradicts delivery=exactly-once"),
        ({"kafka.compression.type": "rar"}, "'rar' is none of none, gzip"),
        ({"kafka.transactional.id": "me"}, "the option delivery decides"),
        ({"kafka.enable.idempotence": "true"}, "the option delivery decides"),
        ({"kafka.transaction.timeout.ms": "1"}, "1 is less than 1000"),
        ({"kafka.transaction.timeout.ms": "9999999999"}, "is more than"),
        ({"kafka.batch.size": "x"}, "option 'kafka.batch.size': 'x' is no whole number"),
        ({"kafka.bootstrap.servers": ""}, "kafka.bootstrap.servers"),
        (
            {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "OAUTHBEARER"},
            "OAUTHBEARER cannot be used for writing",
        ),
        (
            {"kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.mechanism": "SCRAM-SHA-1"},
            "'kafka.sasl.mechanism': 'SCRAM-SHA-1' is none of PLAIN",
        ),
        ({"kafka.sasl.oauthbearer.assertion.file": "c"}, "OAUTHBEARER, through librdkafka, with"),
    ],
)
def test_refused_options(given: dict[str, str], problem: str) -> None:
    with pytest.raises(OptionError, match=problem):
        parse_write_options({**BROKER, **given}, Use.BATCH_WRITE)


def test_kerberos_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {**BROKER, "kafka.security.protocol": "SASL_PLAINTEXT", "kafka.sasl.kerberos.keytab": "k"}
    for delivery in ("at-least-once", "exactly-once"):
        monkeypatch.setattr(settings, "can_have_tickets", lambda: True)
        sasl = parse_write_options({**given, "delivery": delivery}, Use.STREAM_WRITE).client.sasl
        assert sasl is not None and sasl.tickets == TicketSource(keytab="k")
        monkeypatch.setattr(settings, "can_have_tickets", lambda: False)
        with pytest.raises(OptionError, match=r"'kafka.sasl.mechanism': GSSAPI, Kafka's default .*moldau\[kerberos\]'"):
            parse_write_options({**given, "delivery": delivery}, Use.STREAM_WRITE)


def test_pauses_are_short_unless_they_are_given() -> None:
    for given, seconds in (({}, 0.02), ({"kafka.retry.backoff.ms": "700"}, 0.7)):
        client = parse_write_options({**BROKER, **given}, Use.BATCH_WRITE).client
        assert client.backoff_seconds == Links(client).cluster.settings.backoff_seconds == seconds


def test_a_query_id_is_for_batches() -> None:
    with pytest.raises(OptionError, match="has no meaning for a stream write"):
        parse_write_options({**BROKER, "queryId": "q", "batchId": "1"}, Use.STREAM_WRITE)


def test_the_broker_has_to_be_named() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers"):
        parse_write_options({"topic": "t"}, Use.STREAM_WRITE)


def test_columns_are_found_whatever_their_case_and_others_left_out() -> None:
    layout = check_schema(columns("offset BIGINT, Value STRING, KEY BINARY, extra INT"), "t")
    assert layout.positions == {"value": 1, "key": 2}


def test_a_typed_column_may_have_any_type() -> None:
    assert check_schema(columns("value STRUCT<a: INT>, key INT"), "t", {"key", "value"}).positions == {
        "value": 0,
        "key": 1,
    }
    assert check_schema(columns("Value STRUCT<a: INT>, KEY INT"), "t", {"key", "value"}).positions == {
        "value": 0,
        "key": 1,
    }


def test_a_format_without_its_column() -> None:
    with pytest.raises(OptionError, match=r"option 'key\.format': has no meaning: there is no column 'key'"):
        plan_write({**BROKER, "topic": "t", "key.format": "json"}, columns("value STRING"), False, Use.BATCH_WRITE)


@pytest.mark.parametrize(
    ("ddl", "problem"),
    [
        ("valu STRING", r"a column 'value' \(binary or string\) is needed; the columns are: valu"),
        ("value BIGINT", "column 'value' is bigint; it has to be binary or string"),
        ("value STRING, key INT", "column 'key' is int; it has to be binary or string"),
        ("value STRING, partition BIGINT", "column 'partition' is bigint; it has to be int"),
        ("value STRING, headers STRING", "column 'headers' is string; it has to be array<struct"),
        ("value STRING, headers ARRAY<STRUCT<key: STRING>>", "column 'headers'"),
        ("value STRING, timestamp STRING", "column 'timestamp' is string; it has to be timestamp"),
        ("value STRING, topic INT", "column 'topic' is int; it has to be string"),
        ("value STRING, VALUE STRING", "there are two columns 'value'"),
    ],
)
def test_refused_columns(ddl: str, problem: str) -> None:
    with pytest.raises(RowRefused, match=problem):
        check_schema(columns(ddl), "t")


def test_a_topic_is_needed() -> None:
    with pytest.raises(RowRefused, match="a topic is needed"):
        check_schema(columns("value STRING"), None)
    assert check_schema(columns("value STRING, topic STRING"), None).topic is None
