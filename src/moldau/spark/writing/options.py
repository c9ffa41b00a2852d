"""The writer's options. Reading them ends in one value, `WriteOptions`, which travels to the executors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moldau.client.login import WIRE_MECHANISMS, chosen_mechanism, described_mechanism
from moldau.client.settings import ClientSettings
from moldau.client.ticket_source import MISSING
from moldau.spark.kafka_keys import kafka_properties, under_kafka_names
from moldau.spark.option_table import (
    WRITE,
    Option,
    OptionError,
    Use,
    check_names,
    read_choice,
    read_count,
    read_flag,
)
from moldau.spark.patience import with_patience
from moldau.spark.values.options import VALUE_OPTIONS
from moldau.spark.writing.identity import DEFAULT_PREFIX, SINK_ID, default_sink_id
from moldau.spark.writing.new_topics import NAME, NewTopics, read_new_topics
from moldau.wire.compression import Codec

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"
DELIVERIES: Final = (EXACTLY_ONCE, AT_LEAST_ONCE)
BATCH: Final = frozenset({Use.BATCH_WRITE})
CODECS: Final = {codec.name.lower(): codec for codec in Codec}
ACKS: Final = {"all": -1, "-1": -1, "1": 1, "0": 0}
STAGE_BYTES: Final = 64 << 20
BATCH_BYTES: Final = 512 << 10
REQUEST_BYTES: Final = 1 << 20
TRANSACTION_MS: Final = 15 * 60_000
LARGEST_TRANSACTION_MS: Final = 2**31 - 1
OF_EXACTLY_ONCE: Final = (
    "sinkId", "sinkStartsAtBatch", "transactionalIdPrefix", "stageBytes", "queryId", "batchId",
)  # fmt: skip
"""Nothing looks at them at least once."""
CLIENT_DEFAULTS: Final = {"retry.backoff.ms": "20"}
"""Transactions end within milliseconds: short pauses, where nothing else is given."""

WRITE_OPTIONS: Final = (
    Option("topic", WRITE, "", "where all rows go; without it each row names its topic in the column `topic`"),
    Option(
        "delivery",
        WRITE,
        "exactly-once (stream), at-least-once (batch)",
        "`exactly-once`: each task writes in a transaction that also holds a marker of what it wrote; readers with "
        "`read_committed` see every row of a batch once, however often a task runs. `at-least-once`: without "
        "transactions; a task that runs again writes its rows again, and the options `sinkId` to `batchId` are refused",
    ),
    Option(
        "sinkId",
        WRITE,
        "the topic",
        "the name of this sink within its query. A second write to the same topic in one `foreachBatch` needs its own, "
        "and so does a query whose checkpoint was rewound or copied",
    ),
    Option(
        "sinkStartsAtBatch",
        WRITE,
        "0",
        "the first batch that this sink writes: only later batches need a marker of an earlier one. To be set to the "
        "batch at which a query with a checkpoint gets a new sink, or goes on after its markers have expired",
    ),
    Option(
        "transactionalIdPrefix",
        WRITE,
        DEFAULT_PREFIX,
        "transactional ids are `<prefix>/<query>/<sink>/<task>`; the group with the markers is "
        "`__moldau_sink/<prefix>/<query>/<sink>`",
    ),
    Option(
        "stageBytes",
        WRITE,
        str(STAGE_BYTES),
        "how much a task collects, encoded, before it opens its transaction: an open one holds back readers with "
        "`read_committed`. A task with less opens it when its input has ended",
    ),
    Option(
        "queryId",
        BATCH,
        "the streaming query's",
        "with `batchId`: makes a batch job that can be run again; a run with the same `queryId` and `batchId` "
        "completes the write, or finds it complete. `foreachBatch` needs neither",
    ),
    Option("batchId", BATCH, "the streaming query's", "see `queryId`; has to grow from write to write"),
    Option(
        NAME,
        WRITE,
        "",
        "what topics that are missing are made with, by the writer and not by the broker: a JSON list of objects with "
        "`include` and `exclude` (lists of patterns of names), `partitions`, `replication` and `configs`, of which the "
        'first that matches counts: `[{"partitions": 3, "configs": {"cleanup.policy": "compact"}}]`',
    ),
    Option("includeHeaders", WRITE, "", "accepted for compatibility: a column `headers` is written if it is there"),
)
OPTIONS: Final = WRITE_OPTIONS + VALUE_OPTIONS


@dataclass(frozen=True, slots=True)
class WriteOptions:
    topic: str | None
    exactly_once: bool
    prefix: str
    sink: str
    starts_at_batch: int
    stage_bytes: int
    batch_bytes: int
    request_bytes: int
    largest_request: int | None
    """Given as `max.request.size`; without it the topic's `max.message.bytes` is the only limit of a record."""
    codec: Codec
    level: int | None
    acks: int
    transaction_ms: int
    query: str | None
    batch: int | None
    client: ClientSettings
    new_topics: tuple[NewTopics, ...]
    properties: Mapping[str, str]
    """Honoured Kafka properties under Java's names."""


def parse_write_options(given: Mapping[str, str], use: Use) -> WriteOptions:
    check_names(given, OPTIONS, use)
    options = {name.lower(): value for name, value in given.items()}
    properties = with_patience(kafka_properties(options, use))
    if "bootstrap.servers" not in properties:
        raise OptionError("kafka.bootstrap.servers", "is missing; it names one broker or several, as host:port")
    default = EXACTLY_ONCE if use is Use.STREAM_WRITE else AT_LEAST_ONCE
    exactly_once = read_choice(options, "delivery", DELIVERIES, default) == EXACTLY_ONCE
    topic = options.get("topic")
    if topic is not None and not topic.strip():
        raise OptionError("topic", "is empty")
    read_flag(options, "includeHeaders", False)
    batch = read_count(options, "batchId", 0)
    if ("queryid" in options) != (batch is not None):
        raise OptionError("queryId", "goes together with batchId")
    codec = read_codec(properties)
    client = under_kafka_names(lambda: ClientSettings.from_properties(CLIENT_DEFAULTS | properties))
    refuse_librdkafka_mechanisms(client, properties)
    transaction_ms = read_number(properties, "transaction.timeout.ms", TRANSACTION_MS, 1000)
    if transaction_ms > LARGEST_TRANSACTION_MS:
        raise OptionError("kafka.transaction.timeout.ms", f"{transaction_ms} is more than {LARGEST_TRANSACTION_MS}")
    request_bytes = read_number(properties, "max.request.size", REQUEST_BYTES, 1)
    written = WriteOptions(
        topic=topic,
        exactly_once=exactly_once,
        prefix=read_name(options, "transactionalIdPrefix", DEFAULT_PREFIX),
        sink=read_name(options, "sinkId", default_sink_id(topic)),
        starts_at_batch=read_count(options, "sinkStartsAtBatch", 0) or 0,
        stage_bytes=read_default(options, "stageBytes", STAGE_BYTES),
        batch_bytes=read_number(properties, "batch.size", BATCH_BYTES, 1),
        request_bytes=request_bytes,
        largest_request=request_bytes if "max.request.size" in properties else None,
        codec=codec,
        level=read_level(properties, codec),
        acks=read_acks(properties, exactly_once),
        transaction_ms=transaction_ms,
        query=read_name(options, "queryId", "") or None,
        batch=batch,
        client=client,
        new_topics=read_new_topics(options),
        properties=properties,
    )
    if not exactly_once:
        refuse_options_of_exactly_once(options)
    return written


def refuse_options_of_exactly_once(options: Mapping[str, str]) -> None:
    for name in OF_EXACTLY_ONCE:
        if name.lower() in options:
            raise OptionError(name, "has no meaning with delivery=at-least-once; it is for delivery=exactly-once")


def refuse_librdkafka_mechanisms(client: ClientSettings, properties: Mapping[str, str]) -> None:
    """Encoded batches go over a connection of our own, and librdkafka lends none."""
    if client.needs_librdkafka:
        others = f"{described_mechanism(properties)} cannot be used for writing; {', '.join(WIRE_MECHANISMS)} can"
        is_kerberos = chosen_mechanism(properties) == "GSSAPI"
        raise OptionError(
            "kafka.sasl.mechanism", f"{described_mechanism(properties)}: {MISSING}" if is_kerberos else others
        )


def read_name(options: Mapping[str, str], name: str, default: str) -> str:
    text = options.get(name.lower(), default)
    if text != default and SINK_ID.fullmatch(text) is None:
        raise OptionError(name, f"{text!r} has to be 1 to 200 letters, digits and . _ : -")
    return text


def read_default(options: Mapping[str, str], name: str, default: int) -> int:
    given = read_count(options, name)
    return default if given is None else given


def read_number(properties: Mapping[str, str], name: str, default: int, least: int) -> int:
    text = properties.get(name)
    if text is None:
        return default
    try:
        number = int(text)
    except ValueError:
        raise OptionError(f"kafka.{name}", f"{text!r} is no whole number") from None
    if number < least:
        raise OptionError(f"kafka.{name}", f"{number} is less than {least}")
    return number


def read_codec(properties: Mapping[str, str]) -> Codec:
    name = properties.get("compression.type", "none").strip().lower()
    if name not in CODECS:
        raise OptionError("kafka.compression.type", f"{name!r} is none of {', '.join(CODECS)}")
    return CODECS[name]


def read_level(properties: Mapping[str, str], codec: Codec) -> int | None:
    name = f"compression.{codec.name.lower()}.level"
    return read_number(properties, name, 0, -(1 << 17)) if name in properties else None


def read_acks(properties: Mapping[str, str], exactly_once: bool) -> int:
    text = properties.get("acks", "all").strip().lower()
    if text not in ACKS:
        raise OptionError("kafka.acks", f"{text!r} is none of all, 1, 0")
    if exactly_once and ACKS[text] != ACKS["all"]:
        raise OptionError("kafka.acks", f"{text!r} contradicts delivery=exactly-once, which needs all")
    return ACKS[text]
