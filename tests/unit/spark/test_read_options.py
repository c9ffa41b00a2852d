"""Options of the Spark reader: what each means, and what is refused with which words."""

from __future__ import annotations

import logging
import pickle
import re

import pytest
from pyspark.sql.types import StructType

from moldau.client import settings
from moldau.spark.fetching.task import ReadTask
from moldau.spark.kafka_keys import HONOURED, IGNORED, REFUSED, kafka_keys
from moldau.spark.option_table import OptionError, Use
from moldau.spark.planning.catalog import open_catalog
from moldau.spark.planning.offsets import EARLIEST, LATEST, At, AtOffsets, AtTime, AtTimes
from moldau.spark.planning.options import OPTIONS, ReadOptions, check_read_options, parse_read_options
from moldau.spark.planning.reading import offered_schema, read_task
from moldau.spark.split import Split
from moldau.types.ids import TopicPartition

NEEDED = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "orders"}


def parsed(use: Use = Use.STREAM_READ, **options: str) -> ReadOptions:
    return parse_read_options(NEEDED | {name.replace("__", "."): value for name, value in options.items()}, use)


def refusal(use: Use = Use.STREAM_READ, without: str = "", **options: str) -> str:
    given = NEEDED | {name.replace("__", "."): value for name, value in options.items()}
    given.pop(without, None)
    with pytest.raises(OptionError) as caught:
        parse_read_options(given, use)
    return str(caught.value)


def test_the_defaults_are_those_of_the_documentation() -> None:
    stream, batch = parsed(), parsed(Use.BATCH_READ)
    assert (stream.start, batch.start) == (At(LATEST), At(EARLIEST))
    assert batch.end == At(LATEST)
    assert stream.read_committed
    assert stream.fail_on_data_loss
    assert stream.max_delay_ms == 15 * 60_000
    assert (stream.max_offsets, stream.min_offsets, stream.min_partitions, stream.max_records) == (None,) * 4
    assert stream.group_id is None


def test_names_are_read_in_any_case_and_options_travel_to_executors() -> None:
    options = parsed(MAXOFFSETSPERTRIGGER="7", FailOnDataLoss="FALSE", subscribe=" a, b ,a")
    assert (options.max_offsets, options.fail_on_data_loss) == (7, False)
    assert options.selection.topics == ("a", "b")
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize("name", ["checkpointlocation", "queryname", "path"])
def test_what_spark_adds_itself_is_not_refused(name: str) -> None:
    parsed(**{name: "anything"})


def test_a_misspelt_option_is_refused_with_the_nearest_name() -> None:
    assert "'startingoffset'" in (text := refusal(startingoffset="earliest"))
    assert "'startingOffsets'" in text
    assert "'kafka.group.id'" in refusal(kafka__groupid="x")
    assert "'value.format'" in refusal(value__fromat="json")
    assert "there is no such option" in refusal(zzz="1")


def test_a_login_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(settings, "can_have_tickets", lambda: False)
    login = {"kafka__security__protocol": "SASL_PLAINTEXT"}
    unknown = refusal(**login, kafka__sasl__mechanism="SCRAM-SHA-1")
    assert "option 'kafka.sasl.mechanism': 'SCRAM-SHA-1' is none of PLAIN, SCRAM-SHA-256" in unknown
    options = parsed(**login)
    with pytest.raises(OptionError, match=r"'kafka\.sasl\.mechanism': GSSAPI, Kafka's default .*--no-binary"):
        open_catalog(options.client, options.properties)
    task = ReadTask(options.client, options.properties, options.reading, ("value",))
    with pytest.raises(OptionError, match=r"'kafka\.sasl\.mechanism': GSSAPI, Kafka's default .*--no-binary"):
        next(task.read(Split("orders", None, 0, 0, 1)))


def test_an_option_of_another_use_says_where_it_belongs() -> None:
    assert "has no meaning for a stream read; it is for a batch read" in refusal(endingOffsets="latest")
    assert "has no meaning for a batch read" in refusal(Use.BATCH_READ, maxOffsetsPerTrigger="5")


def test_before_the_use_is_known_only_what_neither_knows_is_refused() -> None:
    check_read_options(NEEDED | {"maxOffsetsPerTrigger": "5"})
    check_read_options(NEEDED | {"endingOffsets": "latest"})
    with pytest.raises(OptionError, match="subscribe"):
        check_read_options({"kafka.bootstrap.servers": "a:1"})


def test_exactly_one_selection() -> None:
    assert "is missing" in refusal(without="subscribe")
    assert "contradicts" in refusal(subscribePattern="o.*")
    assert "bootstrap.servers" in refusal(without="kafka.bootstrap.servers")
    assert "kafka.bootstrap.servers" in refusal(kafka__bootstrap__servers="nonsense")
    assert "names nothing" in refusal(subscribe=" , ")


def test_assign() -> None:
    given = {"kafka.bootstrap.servers": "a:1", "assign": '{"t": [1, 0], "u": [3]}'}
    selection = parse_read_options(given, Use.BATCH_READ).selection
    assert selection.partitions == (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 3))
    assert selection.names == {"t", "u"}
    assert selection.reads(TopicPartition("t", 1))
    assert not selection.reads(TopicPartition("t", 2))
    for wrong in ("[1]", "{}", '{"t": 1}', '{"t": [-1]}', '{"t": [true]}', '{"t": []}', "x"):
        with pytest.raises(OptionError, match="assign"):
            parse_read_options(given | {"assign": wrong}, Use.BATCH_READ)


def test_places() -> None:
    place = TopicPartition("orders", 0)
    assert parsed(startingOffsets="Earliest").start == At(EARLIEST)
    assert parsed(startingOffsets='{"orders": {"0": -2}}').start == AtOffsets({place: EARLIEST})
    assert parsed(startingTimestamp="12", startingOffsets="earliest").start == AtTime(12)
    times = '{"orders": {"0": 99}}'
    assert parsed(startingOffsetsByTimestamp=times, startingOffsets="earliest").start == AtTimes({place: 99})
    both = parsed(startingOffsetsByTimestamp=times, startingTimestamp="5")
    assert (both.start, both.start_option) == (AtTime(5), "startingTimestamp")
    assert parsed(Use.BATCH_READ, endingTimestamp="7").end == AtTime(7)
    assert parsed(Use.BATCH_READ, endingOffsets='{"orders": {"0": 7}}').end == AtOffsets({place: 7})


@pytest.mark.parametrize(
    ("use", "options"),
    [
        (Use.BATCH_READ, {"startingOffsets": "latest"}),
        (Use.BATCH_READ, {"startingOffsets": '{"orders": {"0": -1}}'}),
        (Use.BATCH_READ, {"endingOffsets": "earliest"}),
        (Use.BATCH_READ, {"endingOffsets": '{"orders": {"0": -2}}'}),
        (Use.STREAM_READ, {"startingOffsets": "first"}),
        (Use.STREAM_READ, {"startingOffsets": '{"orders": {"0": -3}}'}),
        (Use.STREAM_READ, {"startingOffsets": '{"orders": {"zero": 1}}'}),
        (Use.STREAM_READ, {"startingOffsets": '{"orders": [1]}'}),
        (Use.STREAM_READ, {"startingOffsets": '{"orders": '}),
        (Use.STREAM_READ, {"startingTimestamp": "yesterday"}),
        (Use.STREAM_READ, {"startingOffsetsByTimestamp": '{"orders": {"0": -1}}'}),
        (Use.STREAM_READ, {"startingOffsetsByTimestampStrategy": "earliest"}),
        (Use.STREAM_READ, {"startingOffsetsByTimestampStrategy": "latest"}),
        (Use.BATCH_READ, {"startingOffsetsByTimestampStrategy": "latest", "startingOffsets": "earliest"}),
        (Use.STREAM_READ, {"maxOffsetsPerTrigger": "0"}),
        (Use.STREAM_READ, {"maxOffsetsPerTrigger": "many"}),
        (Use.STREAM_READ, {"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "8"}),
        (Use.STREAM_READ, {"maxTriggerDelay": "9 fortnights", "minOffsetsPerTrigger": "1"}),
        (Use.STREAM_READ, {"maxTriggerDelay": "9s"}),
        (Use.STREAM_READ, {"failOnDataLoss": "maybe"}),
        (Use.STREAM_READ, {"isolation.level": "serializable"}),
        (Use.STREAM_READ, {"isolation.level": "read_committed", "kafka.isolation.level": "read_uncommitted"}),
        (Use.STREAM_READ, {"kafka.group.id": " "}),
        (Use.STREAM_READ, {"kafka.auto.offset.reset": "earliest"}),
        (Use.STREAM_READ, {"kafka.enable.auto.commit": "true"}),
        (Use.STREAM_READ, {"kafka.request.timeout.ms": "soon"}),
        (Use.STREAM_READ, {"kafka.check.crcs": "perhaps"}),
        (Use.STREAM_READ, {"kafka.security.protocol": "TLS"}),
        (Use.STREAM_READ, {"subscribePattern": "("}),
    ],
)
def test_wrong_values_are_refused_by_name(use: Use, options: dict[str, str]) -> None:
    given = dict(NEEDED)
    if "subscribePattern" in options:
        del given["subscribe"]
    with pytest.raises(OptionError) as caught:
        parse_read_options(given | options, use)
    assert any(name in str(caught.value) for name in options)


def test_options_that_would_have_no_effect() -> None:
    times = '{"orders": {"0": 99}}'
    for start in ({"startingTimestamp": "5"}, {"startingOffsetsByTimestamp": times}):
        assert parsed(startingOffsetsByTimestampStrategy="latest", **start).no_match == "latest"
    without_time = refusal(startingOffsetsByTimestampStrategy="latest")
    assert "'startingOffsetsByTimestampStrategy': has no meaning without startingTimestamp or" in without_time
    for group in ({"kafka__group__id": "g"}, {"group__id": "g"}):
        assert "'groupIdPrefix': contradicts kafka.group.id" in refusal(groupIdPrefix="team", **group)
    assert parsed(groupIdPrefix="team").group_prefix == "team"
    assert "'groupIdPrefix': has no meaning for a batch read" in refusal(Use.BATCH_READ, groupIdPrefix="team")


def offered(**options: str) -> StructType:
    return offered_schema(NEEDED | options)


def test_options_that_ask_for_other_columns_than_the_schema() -> None:
    def read(schema: StructType, **options: str) -> tuple[str, ...]:
        return read_task(NEEDED | options, parsed(Use.BATCH_READ, **options), schema).columns

    value, both = offered(columns="value"), offered(columns="value,headers")
    assert read(value) == read(value, COLUMNS="value") == ("value",)
    assert read(both, includeHeaders="true") == read(both, columns="value", includeHeaders="true")
    for options, problem in (
        ({"columns": "key"}, "'columns': contradicts .schema"),
        ({"columns": "valu"}, "'columns': there is no column 'valu'"),
        ({"includeHeaders": "true"}, "'includeHeaders': contradicts .schema"),
        ({"includeHeaders": "maybe"}, "'includeHeaders': 'maybe' is neither"),
    ):
        with pytest.raises(OptionError, match=re.escape(problem)):
            read(value, **options)


def test_durations() -> None:
    for text, milliseconds in (("15m", 900_000), ("10 seconds", 10_000), ("500ms", 500), ("70", 70), ("1H", 3_600_000)):
        assert parsed(maxTriggerDelay=text, minOffsetsPerTrigger="1").max_delay_ms == milliseconds


def test_aliases() -> None:
    options = parsed(group__id="g", isolation__level="READ_UNCOMMITTED")
    assert options.group_id == "g"
    assert not options.read_committed
    assert parsed(kafka__group__id="h").group_id == "h"


def test_kafka_properties_are_honoured_ignored_or_refused(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        options = parsed(kafka__max__poll__records="5", kafka__client__id="me", kafka__fetch__max__wait__ms="9")
    assert "'kafka.max.poll.records' is ignored" in caplog.text
    assert "max.poll.records" not in options.properties
    assert options.client.client_id == "me"
    assert options.reading.max_wait_ms == 9
    assert {key.when_reading for key in kafka_keys().values()} == {HONOURED, IGNORED, REFUSED}
    assert {key.when_writing for key in kafka_keys().values()} == {HONOURED, IGNORED, REFUSED}


def test_no_option_is_listed_twice() -> None:
    assert len({option.key for option in OPTIONS}) == len(OPTIONS)
