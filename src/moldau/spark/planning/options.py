"""The reader's options: names and meanings of Spark's own Kafka connector, and some of ours.

Reading them ends in one value, `ReadOptions`, which travels to the executors; nothing later looks at option text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from moldau.client.settings import ClientSettings
from moldau.config.java_patterns import compile_pattern
from moldau.spark.fetching.read_settings import READ_COMMITTED, READ_UNCOMMITTED, ReadSettings
from moldau.spark.kafka_keys import kafka_properties, under_kafka_names
from moldau.spark.option_table import (
    READ,
    Option,
    OptionError,
    Use,
    check_names,
    read_choice,
    read_count,
    read_flag,
    read_milliseconds,
    read_names,
)
from moldau.spark.patience import SETTING, with_patience
from moldau.spark.planning.ends import Dips
from moldau.spark.planning.offsets import (
    EARLIEST,
    LATEST,
    At,
    AtOffsets,
    AtTime,
    AtTimes,
    Place,
    parse_assignment,
    parse_partition_numbers,
)
from moldau.spark.values.options import VALUE_OPTIONS
from moldau.types.ids import TopicPartition

BATCH: Final = frozenset({Use.BATCH_READ})
STREAM: Final = frozenset({Use.STREAM_READ})
LEVELS: Final = (READ_COMMITTED, READ_UNCOMMITTED)
STRATEGIES: Final = ("error", "latest")
SELECTIONS: Final = ("assign", "subscribe", "subscribePattern")
STARTS: Final = ("startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets")
ENDS: Final = ("endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets")
ALIASES: Final = {"group.id": "kafka.group.id", "isolation.level": "kafka.isolation.level"}
MAX_TRIGGER_DELAY_MS: Final = 15 * 60_000
METADATA_MS: Final = 1000
OFFSET_RETRIES: Final = 3
OFFSET_RETRY_MS: Final = 1000

READ_OPTIONS: Final = (
    Option("assign", READ, "", 'partitions to read, as JSON: `{"orders": [0, 1]}`'),
    Option("subscribe", READ, "", "topics to read, separated by commas; all of them have to exist"),
    Option(
        "subscribePattern",
        READ,
        "",
        "topics to read, as a Java regular expression that matches the whole name; internal topics never match. "
        "Topics that are created later are found",
    ),
    Option(
        "startingOffsets",
        READ,
        "latest (stream), earliest (batch)",
        "where a new query begins: `earliest`, `latest`, or JSON with a place for every partition, "
        '`{"orders": {"0": 23, "1": -2}}`, where -2 is earliest and -1 latest. Ignored when a query goes on from a '
        "checkpoint. Partitions found while a stream runs begin at earliest",
    ),
    Option(
        "startingTimestamp",
        READ,
        "",
        "where a new query begins: the first record at or after this time, in milliseconds since 1970, in every "
        "partition; goes before `startingOffsets` and `startingOffsetsByTimestamp`",
    ),
    Option(
        "startingOffsetsByTimestamp",
        READ,
        "",
        'the same with a time for each partition, `{"orders": {"0": 1700000000000}}`; goes before `startingOffsets`',
    ),
    Option(
        "startingOffsetsByTimestampStrategy",
        READ,
        "error",
        "when a partition has no record at or after that time: `error`, or `latest` to begin at its end; only with "
        "one of the two times",
    ),
    Option("endingOffsets", BATCH, "latest", "where the read ends: `latest`, or JSON as above without -2"),
    Option(
        "endingTimestamp",
        BATCH,
        "",
        "where the read ends: before the first record at or after this time; at the end where there is none; goes "
        "before the other two",
    ),
    Option(
        "endingOffsetsByTimestamp", BATCH, "", "the same with a time for each partition; goes before `endingOffsets`"
    ),
    Option(
        "failOnDataLoss",
        READ,
        "true",
        "whether a query fails when records it should read are gone (expired, topic deleted or created anew, log cut); "
        "with false it warns and goes on with what is there: with the first record that is left, with the beginning of "
        "the new topic, with what comes after the end of the cut log",
    ),
    Option("maxOffsetsPerTrigger", STREAM, "", "most offsets in a batch, taken from the partitions in proportion"),
    Option("minOffsetsPerTrigger", STREAM, "", "least offsets that have to wait before a batch begins"),
    Option(
        "maxTriggerDelay",
        STREAM,
        "15m",
        "how long `minOffsetsPerTrigger` may put a batch off; availableNow never waits",
    ),
    Option(
        "minPartitions",
        READ,
        "",
        "least number of tasks; partitions are split, the largest first. A recorded batch keeps its tasks when it is "
        "replayed, whatever this says by then",
    ),
    Option("maxRecordsPerPartition", READ, "", "most offsets in a task; larger ranges are split"),
    Option("includeHeaders", READ, "false", "adds the column `headers`"),
    Option(
        "columns",
        READ,
        "all but headers",
        "only these columns, separated by commas, in this order: what is not named is not built. `.schema(…)` does the "
        "same, and may not name others",
    ),
    Option(
        "pushdown",
        BATCH,
        "false",
        "uses filters on `topic`, `partition`, `offset` and `timestamp` to read less; needs "
        "`spark.sql.python.filterPushdown.enabled`",
    ),
    Option(
        "groupIdPrefix",
        STREAM,
        "",
        "without `kafka.group.id`, which it contradicts: the session's listener publishes under this prefix and the "
        "query's name",
    ),
    Option("group.id", READ, "", "the same as `kafka.group.id`: the group to which consumed offsets are published"),
    Option(
        "isolation.level",
        READ,
        "read_committed",
        "the same as `kafka.isolation.level`: `read_committed` reads up to the end of the last decided transaction and "
        "leaves aborted records out, `read_uncommitted` reads everything",
    ),
    Option(
        "kafkaConsumer.pollTimeoutMs",
        READ,
        "`kafka.default.api.timeout.ms`",
        "how long a task waits for records that a broker which answers does not hand out: an open transaction holds "
        "them back, or its log is shorter than it was. A broker that is away is waited for as everywhere",
    ),
    Option(
        "fetchOffset.numRetries",
        READ,
        "3",
        "how often a stream asks again when a log seems to end before the place where the query is, as it can after a "
        "change of leaders, before that is data loss. (Requests that fail are repeated for "
        "`kafka.default.api.timeout.ms`, and a batch read needs no more than that)",
    ),
    Option(
        "fetchOffset.retryIntervalMs",
        READ,
        "1000",
        "the pause before each of these; the pause after a request that failed is `kafka.retry.backoff.ms`",
    ),
    Option(
        "partition.metadata.cache.ttl.ms",
        STREAM,
        "1000",
        "how long an idle stream waits before it looks for new topics and partitions again; -1 looks every time",
    ),
)
OPTIONS: Final = READ_OPTIONS + VALUE_OPTIONS


@dataclass(frozen=True, slots=True)
class Selection:
    """What is read: partitions, topics, or topics that match; one of them is set."""

    partitions: tuple[TopicPartition, ...] = ()
    topics: tuple[str, ...] = ()
    pattern: re.Pattern[str] | None = None

    @property
    def names(self) -> frozenset[str] | None:
        """The topics, or None where they have to be found."""
        if self.pattern is not None:
            return None
        return frozenset(self.topics) | {place.topic for place in self.partitions}

    def reads_topic(self, name: str) -> bool:
        return self.pattern.fullmatch(name) is not None if self.pattern is not None else name in (self.names or ())

    def reads(self, place: TopicPartition) -> bool:
        return place in self.partitions if self.partitions else self.reads_topic(place.topic)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    selection: Selection
    start: Place
    start_option: str
    end: Place
    end_option: str
    no_match: str
    fail_on_data_loss: bool
    max_offsets: int | None
    min_offsets: int | None
    max_delay_ms: int
    min_partitions: int | None
    max_records: int | None
    pushdown: bool
    group_id: str | None
    group_prefix: str
    metadata_ms: int
    dips: Dips
    properties: Mapping[str, str]
    """Honoured Kafka properties under Java's names."""
    client: ClientSettings
    reading: ReadSettings

    @property
    def read_committed(self) -> bool:
        return self.reading.committed


def check_read_options(given: Mapping[str, str]) -> None:
    """Before it is known whether the read is a batch or a stream: refuses what neither could use."""
    try:
        parse_read_options(given, Use.BATCH_READ)
    except OptionError as problem:
        try:
            parse_read_options(given, Use.STREAM_READ)
        except OptionError:
            raise problem from None


def parse_read_options(given: Mapping[str, str], use: Use) -> ReadOptions:
    check_names(given, OPTIONS, use)
    options = with_aliases(given)
    properties = with_patience(kafka_properties(options, use))
    if "bootstrap.servers" not in properties:
        raise OptionError("kafka.bootstrap.servers", "is missing; it names one broker or several, as host:port")
    start_option, start = read_start(options, use)
    end_option, end = read_end(options)
    check_strategy(options)
    limits = {name: read_count(options, name) for name in ("maxOffsetsPerTrigger", "minOffsetsPerTrigger")}
    check_limits(limits["minOffsetsPerTrigger"], limits["maxOffsetsPerTrigger"], options)
    metadata_ms = read_count(options, "partition.metadata.cache.ttl.ms", -1)
    fail_on_data_loss = read_flag(options, "failOnDataLoss", True)
    return ReadOptions(
        selection=read_selection(options),
        start=start,
        start_option=start_option,
        end=end,
        end_option=end_option,
        no_match=read_choice(options, "startingOffsetsByTimestampStrategy", STRATEGIES, "error"),
        fail_on_data_loss=fail_on_data_loss,
        max_offsets=limits["maxOffsetsPerTrigger"],
        min_offsets=limits["minOffsetsPerTrigger"],
        max_delay_ms=read_milliseconds(options, "maxTriggerDelay", MAX_TRIGGER_DELAY_MS),
        min_partitions=read_count(options, "minPartitions"),
        max_records=read_count(options, "maxRecordsPerPartition"),
        pushdown=read_flag(options, "pushdown", False),
        group_id=read_group(properties, options),
        group_prefix=options.get("groupidprefix", ""),
        metadata_ms=METADATA_MS if metadata_ms is None else metadata_ms,
        dips=read_dips(options),
        properties=properties,
        client=under_kafka_names(lambda: ClientSettings.from_properties(properties)),
        reading=read_reading(options, properties, fail_on_data_loss),
    )


def with_aliases(given: Mapping[str, str]) -> dict[str, str]:
    options = {name.lower(): value for name, value in given.items()}
    for alias, name in ALIASES.items():
        if alias not in options:
            continue
        value = options.pop(alias)
        if options.setdefault(name, value) != value:
            raise OptionError(alias, f"says {value!r}, but {name} says {options[name]!r}")
    return options


def read_selection(options: Mapping[str, str]) -> Selection:
    given = [name for name in SELECTIONS if name.lower() in options]
    if not given:
        raise OptionError("subscribe", "is missing; give one of subscribe, subscribePattern and assign")
    if len(given) > 1:
        raise OptionError(given[1], f"contradicts {given[0]}; give one of them")
    if given == ["assign"]:
        return Selection(partitions=parse_assignment(options["assign"], "assign"))
    if given == ["subscribe"]:
        return Selection(topics=read_names(options, "subscribe") or ())
    try:
        return Selection(pattern=compile_pattern(options["subscribepattern"]))
    except ValueError as error:
        raise OptionError("subscribePattern", str(error)) from None


def read_start(options: Mapping[str, str], use: Use) -> tuple[str, Place]:
    default = At(LATEST) if use is Use.STREAM_READ else At(EARLIEST)
    option, place = read_place(options, STARTS, default)
    if use is Use.BATCH_READ and LATEST in places(place):
        raise OptionError(option, "a batch read cannot begin at latest, there would be nothing to read")
    return option, place


def read_end(options: Mapping[str, str]) -> tuple[str, Place]:
    option, place = read_place(options, ENDS, At(LATEST))
    if EARLIEST in places(place):
        raise OptionError(option, "a read cannot end at earliest, there would be nothing to read")
    return option, place


def places(place: Place) -> set[int]:
    match place:
        case At(where):
            return {where}
        case AtOffsets(offsets):
            return set(offsets.values())
        case _:
            return set()


def read_place(options: Mapping[str, str], names: tuple[str, str, str], default: Place) -> tuple[str, Place]:
    """Spark's precedence: one time for all, a time for each, offsets."""
    one_time, times, offsets = names
    if one_time.lower() in options:
        return one_time, AtTime(read_count(options, one_time, 0) or 0)
    if times.lower() in options:
        numbers = parse_partition_numbers(options[times.lower()], times)
        negative = [place for place, number in numbers.items() if number < 0]
        if negative:
            raise OptionError(times, f"{negative[0]}: {numbers[negative[0]]} is no time")
        return times, AtTimes(numbers)
    text = options.get(offsets.lower())
    if text is None:
        return offsets, default
    word = text.strip().lower()
    if word in ("earliest", "latest"):
        return offsets, At(EARLIEST if word == "earliest" else LATEST)
    if not word.startswith("{"):
        raise OptionError(offsets, f"{text!r} is neither earliest, latest nor JSON")
    numbers = parse_partition_numbers(text, offsets)
    wrong = [place for place, number in numbers.items() if number < EARLIEST]
    if wrong:
        raise OptionError(offsets, f"{wrong[0]}: {numbers[wrong[0]]} is no offset; -2 is earliest, -1 latest")
    return offsets, AtOffsets(numbers)


def check_limits(least: int | None, most: int | None, options: Mapping[str, str]) -> None:
    if least is not None and most is not None and least > most:
        raise OptionError("minOffsetsPerTrigger", f"{least} is more than maxOffsetsPerTrigger, {most}")
    if "maxtriggerdelay" in options and least is None:
        raise OptionError("maxTriggerDelay", "has no meaning without minOffsetsPerTrigger")


def check_strategy(options: Mapping[str, str]) -> None:
    if "startingoffsetsbytimestampstrategy" not in options:
        return
    one_time, times, _ = STARTS
    if one_time.lower() not in options and times.lower() not in options:
        raise OptionError("startingOffsetsByTimestampStrategy", f"has no meaning without {one_time} or {times}")


def read_group(properties: Mapping[str, str], options: Mapping[str, str]) -> str | None:
    group = properties.get("group.id")
    if group is not None and not group.strip():
        raise OptionError("kafka.group.id", "is empty")
    if group is not None and "groupidprefix" in options:
        raise OptionError("groupIdPrefix", "contradicts kafka.group.id, which names the group; give one of them")
    return group


def read_dips(options: Mapping[str, str]) -> Dips:
    retries = read_count(options, "fetchOffset.numRetries", 0)
    pause_ms = read_count(options, "fetchOffset.retryIntervalMs", 0)
    return Dips(
        retries=OFFSET_RETRIES if retries is None else retries,
        pause_seconds=(OFFSET_RETRY_MS if pause_ms is None else pause_ms) / 1000,
    )


def read_reading(options: Mapping[str, str], properties: Mapping[str, str], fail_on_data_loss: bool) -> ReadSettings:
    timeout_ms = read_count(options, "kafkaConsumer.pollTimeoutMs")
    plain = ReadSettings(
        isolation=read_choice(options, "kafka.isolation.level", LEVELS, READ_COMMITTED),
        fail_on_data_loss=fail_on_data_loss,
        timeout_seconds=(int(properties[SETTING]) if timeout_ms is None else timeout_ms) / 1000,
    )
    return under_kafka_names(lambda: plain.with_properties(properties))
