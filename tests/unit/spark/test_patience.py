"""One patience for all of source and sink, and what may be said about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from confluent_kafka import KafkaError, KafkaException

from moldau.client.errors import ConnectionLost
from moldau.client.settings import ClientSettings
from moldau.spark.errors import ClusterUnavailable, SourceError, TopicMissing
from moldau.spark.option_table import OptionError, Use
from moldau.spark.planning.librdkafka_catalog import LibrdkafkaCatalog
from moldau.spark.planning.offsets import LATEST
from moldau.spark.planning.options import parse_read_options
from moldau.spark.writing.links import TOPIC_SECONDS, Missing
from moldau.spark.writing.options import parse_write_options
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.metadata import MetadataResponse, MetadataResponseTopic

PLACE = {"kafka.bootstrap.servers": "localhost:9092"}
READ = {**PLACE, "subscribe": "t"}
ONE_SETTING = "kafka.default.api.timeout.ms"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class TestSetting:
    @pytest.mark.parametrize(("given", "seconds"), [({}, 120.0), ({ONE_SETTING: "7000"}, 7.0)])
    def test_is_the_same_everywhere(self, given: dict[str, str], seconds: float) -> None:
        for read_use in (Use.BATCH_READ, Use.STREAM_READ):
            reading = parse_read_options({**READ, **given}, read_use)
            assert (reading.client.total_seconds, reading.reading.timeout_seconds) == (seconds, seconds)
            assert ClientSettings.from_properties(reading.properties).total_seconds == seconds
        for write_use in (Use.BATCH_WRITE, Use.STREAM_WRITE):
            assert parse_write_options({**PLACE, **given}, write_use).client.total_seconds == seconds

    def test_has_a_second_name_for_those_who_come_from_producers(self) -> None:
        named = {"kafka.delivery.timeout.ms": "7000"}
        assert parse_write_options({**PLACE, **named}, Use.STREAM_WRITE).client.total_seconds == 7.0
        parse_write_options({**PLACE, **named, ONE_SETTING: "7000"}, Use.STREAM_WRITE)
        with pytest.raises(OptionError, match=r"says 7000, but kafka\.default\.api\.timeout\.ms says 8000"):
            parse_write_options({**PLACE, **named, ONE_SETTING: "8000"}, Use.STREAM_WRITE)

    @pytest.mark.parametrize(("text", "problem"), [("0", "0 is less than 1"), ("soon", "'soon' is no whole number")])
    def test_is_a_time(self, text: str, problem: str) -> None:
        for parse, given in ((parse_read_options, READ), (parse_write_options, PLACE)):
            use = Use.STREAM_READ if given is READ else Use.STREAM_WRITE
            with pytest.raises(OptionError, match=rf"'{ONE_SETTING}': {problem}"):
                parse({**given, ONE_SETTING: text}, use)  # type: ignore[operator]


class TestTopicThatIsMissing:
    def answers(self, clock: Clock, *each: ErrorCode | None) -> Callable[[], MetadataResponse]:
        """One a second; None where no broker answers."""
        left: Iterator[ErrorCode | None] = iter(each)

        def ask() -> MetadataResponse:
            clock.now += 1
            code = next(left)
            if code is None:
                raise ConnectionLost("away")
            return MetadataResponse(topics=[MetadataResponseTopic(error_code=code)])

        return ask

    def test_is_believed_after_a_while(self) -> None:
        clock = Clock()
        missing = Missing(clock.monotonic)
        ask = self.answers(clock, *[ErrorCode.UNKNOWN_TOPIC_OR_PARTITION] * 100)
        while clock.now <= TOPIC_SECONDS:
            missing.watched(ask)
        with pytest.raises(TopicMissing):
            missing.watched(ask)

    def test_counts_only_answers(self) -> None:
        clock = Clock()
        missing = Missing(clock.monotonic)
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        ask = self.answers(clock, *[unknown] * 10, *[None] * 60, *[unknown] * 10, ErrorCode.NONE)
        for _ in range(81):
            try:
                answer = missing.watched(ask)
            except ConnectionLost:
                continue
        assert answer.topics[0].error_code == ErrorCode.NONE


class Admin:
    """librdkafka's, whose cluster is away for so many questions."""

    def __init__(self, away: int, code: int) -> None:
        self._away = away
        self._code = code

    def _answer(self, result: Any) -> Any:
        self._away -= 1
        if self._away >= 0:
            raise KafkaException(KafkaError(self._code))
        return result

    def _later(self, result: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(self._answer(result))
        except KafkaException as error:
            future.set_exception(error)
        return future

    def list_topics(self, timeout: float) -> Any:
        return self._answer(SimpleNamespace(topics={"t": None}))

    def describe_topics(self, names: Any, request_timeout: float) -> Any:
        topic_id = SimpleNamespace(get_most_significant_bits=lambda: 0, get_least_significant_bits=lambda: 7)
        partition = SimpleNamespace(id=0, leader=SimpleNamespace(id=1))
        return {"t": self._later(SimpleNamespace(partitions=[partition], topic_id=topic_id, is_internal=False))}

    def list_offsets(self, asked: Any, isolation_level: Any, request_timeout: float) -> Any:
        return {place: self._later(SimpleNamespace(offset=9)) for place in asked}


class TestLibrdkafka:
    """It gives up whatever was under way when its connection was lost."""

    place = TopicPartition("t", 0)

    def catalog(self, away: int, code: int = KafkaError._TRANSPORT) -> tuple[LibrdkafkaCatalog, Clock]:
        clock = Clock()
        properties = {"bootstrap.servers": "127.0.0.1:1"}
        settings = ClientSettings.from_properties({**properties, "default.api.timeout.ms": "120000"})
        catalog = LibrdkafkaCatalog(settings, properties, monotonic=clock.monotonic, sleep=clock.sleep)
        catalog._admin = Admin(away, code)  # type: ignore[assignment]
        return catalog, clock

    @pytest.mark.parametrize("code", [KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, 5])
    def test_is_asked_again_while_its_cluster_is_away(self, code: int) -> None:
        catalog, clock = self.catalog(100, code)
        assert catalog.topics(frozenset({"t"}))["t"].topic_id == UUID(int=7)
        assert clock.now > 80
        catalog, clock = self.catalog(100, code)
        assert catalog.offsets({self.place: LATEST}, committed=True) == {self.place: 9}
        assert clock.now > 80

    def test_is_given_up_when_the_patience_is_over(self) -> None:
        catalog, clock = self.catalog(1000)
        for ask in (lambda: catalog.topics(None), lambda: catalog.offsets({self.place: LATEST}, committed=True)):
            clock.now = 0.0
            with pytest.raises(ClusterUnavailable, match=r"no answer .* tried for 120 s"):
                ask()
            assert 110 < clock.now <= 120

    def test_is_not_asked_again_where_that_would_not_help(self) -> None:
        catalog, clock = self.catalog(1, int(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
        with pytest.raises(SourceError, match="offsets of"):
            catalog.offsets({self.place: LATEST}, committed=True)
        assert clock.now == 0.0
