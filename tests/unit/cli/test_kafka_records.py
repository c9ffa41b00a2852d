"""Lines to records, records to lines, and times, as Kafka's tools read and print them."""

from __future__ import annotations

import io
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moldau.cli.broker.local_brokers import is_broker
from moldau.cli.kafka.dump_indexes import used
from moldau.cli.kafka.formatters import DefaultFormatter, deserializer, java_double, java_single, make_formatter
from moldau.cli.kafka.get_offsets import rule_of
from moldau.cli.kafka.group_resets import duration, milliseconds, partitions_of_argument
from moldau.cli.kafka.line_reader import Line, LineReader
from moldau.cli.kafka.measuring import Latencies, Throttler, date_text
from moldau.cli.kafka.options import ToolError

HEADERS = {"parse.headers": "true", "parse.key": "true"}


def test_plain_lines() -> None:
    source = io.BytesIO("eins\nzwei\r\n\nvier ä".encode())
    assert [line.value for line in LineReader({}).lines(source)] == [b"eins", b"zwei", b"", "vier ä".encode()]


def test_keys_and_headers() -> None:
    assert LineReader({"parse.key": "true"}).parse("k\tv\tw") == Line(b"v\tw", b"k")
    found = LineReader(HEADERS).parse("a:1,b:2\tk\tv")
    assert found == Line(b"v", b"k", [("a", b"1"), ("b", b"2")])
    with_null = LineReader(HEADERS | {"null.marker": "NULL"})
    assert with_null.parse("NULL\tNULL\tNULL") == Line(None, None, None)
    assert with_null.parse("a:NULL\tk\tv").headers == [("a", None)]


@pytest.mark.parametrize(
    ("properties", "line", "problem"),
    [
        ({"parse.key": "true"}, "no key", "No key separator found on line number 0: 'no key'"),
        ({"parse.headers": "true"}, "none", "No headers delimiter found"),
        ({"parse.headers": "true"}, "a\tv", "No header key separator found in pair 'a'"),
        ({"parse.headers": "true", "null.marker": "a"}, "a:1\tv", "Header keys should not be equal"),
    ],
)
def test_lines_that_cannot_be_read(properties: dict[str, str], line: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        LineReader(properties).parse(line)


def test_errors_that_are_ignored() -> None:
    reader = LineReader(HEADERS | {"ignore.error": "true"})
    assert reader.parse("only a value") == Line(b"only a value")
    assert reader.parse("a\tk\tv").headers == [("a", None)]


def test_separators_that_are_equal() -> None:
    with pytest.raises(ToolError, match=r"headers\.delimiter and headers\.separator may not be equal"):
        LineReader({"headers.delimiter": ","})
    with pytest.raises(ToolError, match=r"null\.marker and key\.separator may not be equal"):
        LineReader({"null.marker": "\t"})


@given(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])))
def test_every_line_is_its_record(text: str) -> None:
    (line,) = LineReader({}).lines(io.BytesIO(text.encode() + b"\n"))
    assert line.value == text.encode().rstrip(b"\r\n")


class Message:
    """What a formatter asks of a record."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def __getattr__(self, name: str) -> Any:
        return lambda: self._fields.get(name)


def shown(properties: dict[str, str], **fields: Any) -> bytes:
    out = io.BytesIO()
    message: Any = Message(**fields)
    DefaultFormatter(properties).write(message, out)
    return out.getvalue()


def test_formatting() -> None:
    everything = {f"print.{name}": "true" for name in ("timestamp", "partition", "offset", "epoch", "headers", "key")}
    record = {"timestamp": (1, 5), "partition": 2, "offset": 7, "headers": [("a", b"1"), ("b", None)], "key": b"k"}
    assert shown(everything, value=b"v", **record) == (
        b"CreateTime:5\tPartition:2\tOffset:7\tEpoch:NOT_PRESENT\ta:1,b:null\tk\tv\n"
    )
    assert shown({}, value=None) == b"null\n"
    assert shown({"print.value": "false"}, value=b"v") == b""
    assert shown({"print.timestamp": "true"}, timestamp=(0, -1), value=b"v") == b"NO_TIMESTAMP\tv\n"


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("LongDeserializer", struct.pack(">q", -5), "-5"),
        ("org.apache.kafka.common.serialization.IntegerDeserializer", struct.pack(">i", 7), "7"),
        ("ShortDeserializer", struct.pack(">h", 7), "7"),
        ("DoubleDeserializer", struct.pack(">d", 1e10), "1.0E10"),
        ("FloatDeserializer", struct.pack(">f", 0.1), "0.1"),
        ("BooleanDeserializer", b"\x01", "true"),
        ("BytesDeserializer", b"a\\\x00", "a\\x5C\\x00"),
        ("StringDeserializer", "ä".encode(), "ä"),
    ],
)
def test_deserializers(name: str, data: bytes, text: str) -> None:
    read = deserializer(name)
    assert read is not None
    assert read(data) == text


def test_classes_that_only_java_has() -> None:
    with pytest.raises(ValueError, match="Java classes cannot be loaded here"):
        deserializer("com.example.MyDeserializer")
    with pytest.raises(ValueError, match="Java classes cannot be loaded here"):
        make_formatter("com.example.MyFormatter", {})
    read = deserializer("LongDeserializer")
    assert read is not None
    with pytest.raises(ValueError, match="Size of data received by LongDeserializer is not 8"):
        read(b"abc")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"), (1.0, "1.0"), (1048576.0, "1048576.0"), (1e7, "1.0E7"), (12345678.9, "1.23456789E7"),
        (0.001, "0.001"), (0.0001, "1.0E-4"), (-2.5, "-2.5"), (-1e300, "-1.0E300"), (float("inf"), "Infinity"),
        (float("nan"), "NaN"),
    ],
)  # fmt: skip
def test_floating_point_as_java_prints_it(number: float, text: str) -> None:
    assert java_double(number) == text


def test_single_precision_as_java_prints_it() -> None:
    assert java_single(struct.unpack(">f", struct.pack(">f", 3.14))[0]) == "3.14"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("P1D", 86400),
        ("PT1H", 3600),
        ("PT1M30S", 90),
        ("P1DT2H", 93600),
        ("-PT5S", -5),
        ("PT0.5S", 0.5),
        ("PT-6H", -21600),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text).total_seconds() == seconds


@pytest.mark.parametrize("text", ["1h", "P", "PT", "P1DT", "", "PT1D"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ToolError, match="Text cannot be parsed to a Duration"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-09-13T12:26:40.002", 1_600_000_000_002),
        ("2020-09-13T12:26:40.002Z", 1_600_000_000_002),
        ("2020-09-13T14:26:40.002+02:00", 1_600_000_000_002),
        ("2020-09-13T10:26:40.002-02", 1_600_000_000_002),
    ],
)
def test_times(text: str, expected: int) -> None:
    assert milliseconds(text) == expected


@pytest.mark.parametrize("text", ["2020-09-13", "2020-09-13T12:26", "2020-13-13T12:26:40.002", "nowT"])
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ToolError, match=r"java\.text\.ParseException"):
        milliseconds(text)


def test_partitions_of_a_topic() -> None:
    assert partitions_of_argument("a:0,2") == [("a", 0), ("a", 2)]
    for wrong in ("a:", "a:b", "a:0:1", ":"):
        with pytest.raises(ToolError):
            partitions_of_argument(wrong)


@pytest.mark.parametrize(
    ("rule", "matching"),
    [
        ("a:1", {1}),
        ("a:1-3", {1, 2}),
        ("a:2-", {2, 3}),
        ("a:-2", {0, 1}),
        ("a", {0, 1, 2, 3}),
        (":3", {3}),
        ("b", set()),
    ],
)
def test_rules_for_partitions(rule: str, matching: set[int]) -> None:
    wanted = rule_of(rule)
    assert {index for index in range(4) if wanted("a", index)} == matching


def test_reserved_space_of_an_index_is_not_printed() -> None:
    assert list(used([(0, 0), (5, 70), (0, 0), (0, 0)], 0)) == [(0, 0), (5, 70)]


def test_dates() -> None:
    assert date_text(1_600_000_000_007, "SSS") == "007"
    assert len(date_text(0, "yyyy-MM-dd HH:mm:ss:SSS")) == len("2020-09-13 12:26:40:002")


def test_latencies(capsys: pytest.CaptureFixture[str]) -> None:
    stats = Latencies(4, 10_000, steady=False)
    for latency in (1, 2, 3, 10):
        stats.record(latency, 100, 0)
    stats.print_total()
    printed = capsys.readouterr().out
    assert printed.startswith("4 records sent, ")
    assert printed.endswith(
        "4.00 ms avg latency, 10.00 ms max latency, 3 ms 50th, 10 ms 95th, 10 ms 99th, 10 ms 99.9th.\n"
    )


def test_no_rate_means_no_waiting() -> None:
    assert Throttler(-1).wait(1_000_000) == 0
    assert Throttler(10).wait(1_000) > 90


@pytest.mark.parametrize(
    ("command", "broker"),
    [
        (["/venv/bin/python", "/venv/bin/moldau", "broker", "start", "--config", "x"], True),
        (["/venv/bin/python3.11", "-m", "moldau", "broker", "start"], True),
        (["python", "bin/kafka-server-start.sh", "server.properties"], True),
        (["/bin/bash", "-c", "moldau broker start"], False),
        (["python", "-m", "pytest", "broker", "start"], False),
        (["vim", "kafka-server-start"], False),
        ([], False),
    ],
)
def test_which_processes_are_brokers(command: list[str], broker: bool) -> None:
    assert is_broker(command) is broker
