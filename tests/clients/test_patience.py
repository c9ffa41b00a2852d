"""A broker that is away for less than the patience of a query fails none of its requests, whichever it meets.

Every request of source and sink is tried, lost before it is sent and with its answer on the way.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from moldau.client import transactions as transactions_module
from moldau.client.cluster import Cluster
from moldau.spark.errors import ClusterUnavailable
from moldau.spark.fetching.partition_fetcher import PartitionFetcher
from moldau.spark.fetching.task import ReadTask
from moldau.spark.option_table import Use
from moldau.spark.planning import catalog as catalog_module
from moldau.spark.planning.catalog import WireCatalog
from moldau.spark.planning.options import parse_read_options
from moldau.spark.planning.reader import BatchReader
from moldau.spark.planning.stream_reader import StreamReader
from moldau.spark.writing.driver import commit_batch
from moldau.spark.writing.identity import Attempt
from moldau.spark.writing.links import Links
from moldau.spark.writing.options import parse_write_options
from moldau.spark.writing.rows import Layout
from moldau.spark.writing.task import Clock, PlainWriter
from tests.support.admin import create_topic
from tests.support.outage import Outage
from tests.support.sink import Sink, read_committed, rows_of

AWAY_SECONDS = 100.0
RECORDS = 30
Scenario = Callable[[str], object]
"""Gets a name that nobody else uses."""


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Outage:
    made = Outage(AWAY_SECONDS)
    made.install(monkeypatch)
    return made


def at_every_request(outage: Outage, prepare: Scenario, scenario: Scenario) -> int:
    """Runs the scenario with an outage at its first request, its second, and so on until there are no more."""
    tried = 0
    for loses_answer in (False, True):
        begins_at, met = 1, True
        while met:
            name = f"{begins_at}-{loses_answer}"
            outage.arm(None)
            prepare(name)
            outage.arm(begins_at, loses_answer=loses_answer)
            try:
                scenario(name)
            except Exception as error:
                lost = "the answer to" if loses_answer else ""
                raise AssertionError(f"away at {lost} request {begins_at} of {outage.requests}: {error!r}") from error
            met = outage.outages > 0
            tried += met
            begins_at += 1
    outage.arm(None)
    return tried


def nothing(name: str) -> None: ...


class TestSink:
    def clock(self, outage: Outage) -> Clock:
        return Clock(monotonic=outage.monotonic, sleep=outage.sleep)

    def links(self, sink: Sink, outage: Outage) -> Any:
        """Those of a worker that has just been started, as Spark does in the middle of a query too."""
        return closing(Links(sink.write_options.client, monotonic=outage.monotonic, sleep=outage.sleep))

    def write(self, sink: Sink, outage: Outage, run: str, batch: int, tasks: list[list[str]]) -> None:
        with self.links(sink, outage) as links:
            reports = [
                sink.task(links, Attempt(run, f"{run}/{batch}", batch, task), iter([rows_of(rows)]), self.clock(outage))
                for task, rows in enumerate(tasks)
            ]
        with self.links(sink, outage) as links:
            commit_batch(sink.write_options, reports, links, monotonic=outage.monotonic, sleep=outage.sleep)

    def rows(self, name: str, batch: int, tasks: int = 2) -> list[list[str]]:
        return [[f"{name}/{batch}/{task}/{row}" for row in range(3)] for task in range(tasks)]

    @pytest.mark.parametrize("version", ["1", "2"])
    def test_first_batch_and_next_ones(
        self,
        address: str,
        admin: AdminClient,
        topic: str,
        outage: Outage,
        version: str,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        create_topic(admin, topic, 2)
        if version == "1":
            monkeypatch.setattr(transactions_module, "VERSION_2", 3)
        expected: Counter[str] = Counter()

        def scenario(name: str) -> None:
            sink = Sink(address, topic, query=f"{topic}-{name}")
            for batch in range(2):
                self.write(sink, outage, "run", batch, [*self.rows(name, batch, tasks=1), []])
                expected.update(self.rows(name, batch)[0])

        assert at_every_request(outage, nothing, scenario) > 60
        assert read_committed(address, topic) == expected

    def test_a_topic_that_is_made_by_being_written_to(self, address: str, topic: str, outage: Outage) -> None:
        sink = Sink(address, topic, query=topic)

        def scenario(name: str) -> None:
            with self.links(sink, outage) as links:
                assert links.partition_count(f"{topic}-{name}") == 1

        assert at_every_request(outage, nothing, scenario) >= 4

    def test_a_batch_that_another_run_has_begun(
        self, address: str, admin: AdminClient, topic: str, outage: Outage
    ) -> None:
        """Its tasks prepare, and the driver commits."""
        create_topic(admin, topic, 2)
        expected: Counter[str] = Counter()

        def begin(name: str) -> None:
            sink = Sink(address, topic, query=f"{topic}-{name}")
            self.write(sink, outage, "run-0", 0, self.rows(name, 0))
            with self.links(sink, outage) as links:
                sink.task(links, Attempt("run-0", "w", 1, 1), iter([rows_of(self.rows(name, 1)[1])]))

        def complete(name: str) -> None:
            self.write(Sink(address, topic, query=f"{topic}-{name}"), outage, "run-1", 1, self.rows(name, 1))
            expected.update(row for batch in range(2) for rows in self.rows(name, batch) for row in rows)

        assert at_every_request(outage, begin, complete) > 60
        assert read_committed(address, topic) == expected

    @pytest.mark.parametrize("acks", ["all", "1"])
    def test_at_least_once(self, address: str, admin: AdminClient, topic: str, outage: Outage, acks: str) -> None:
        create_topic(admin, topic, 2)
        given = {"kafka.bootstrap.servers": address, "topic": topic, "kafka.acks": acks}
        options = parse_write_options(given, Use.BATCH_WRITE)
        written: Counter[str] = Counter()

        def scenario(name: str) -> None:
            rows = self.rows(name, 0)[0]
            with closing(Links(options.client, monotonic=outage.monotonic, sleep=outage.sleep)) as links:
                layout = Layout({"value": 0, "key": 0}, topic)
                PlainWriter(options, layout, links, Attempt("r", "w", 0, 0), self.clock(outage)).run(
                    iter([rows_of(rows)])
                )
            written.update(rows)

        assert at_every_request(outage, nothing, scenario) > 6
        found = read_committed(address, topic)
        assert found == written if acks == "all" else set(found) == set(written)

    def test_what_is_told_when_the_patience_is_over(self, address: str, topic: str, outage: Outage) -> None:
        outage.seconds = 121.0
        sink = Sink(address, topic, query=topic)
        for begins_at in (1, 2, 12):
            outage.arm(begins_at)
            with pytest.raises(ClusterUnavailable, match=r"no answer .*tried for 120 s.*kafka\.default\.api\.timeout"):
                self.write(sink, outage, f"run-{begins_at}", 0, self.rows("a", 0))
            outage.sleep(121)


class TestSource:
    @pytest.fixture
    def filled(self, address: str, admin: AdminClient, topic: str) -> str:
        create_topic(admin, topic, 2)
        producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0, "batch.num.messages": 10})
        for number in range(RECORDS):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(30) == 0
        return topic

    def reader(self, address: str, outage: Outage, use: Use, **options: str) -> tuple[Any, WireCatalog]:
        parsed = parse_read_options({"kafka.bootstrap.servers": address, **options}, use)
        task = ReadTask(parsed.client, parsed.properties, parsed.reading, ("value",))
        catalog = WireCatalog(parsed.client, monotonic=outage.monotonic, sleep=outage.sleep)
        if use is Use.BATCH_READ:
            return BatchReader(parsed, task), catalog
        return (
            StreamReader(parsed, task, open_cluster=lambda *_: catalog, monotonic=outage.monotonic, sleep=outage.sleep),
            catalog,
        )

    @pytest.mark.parametrize("selected", ["subscribe", "subscribePattern"])
    def test_planning_a_stream(self, address: str, filled: str, outage: Outage, selected: str) -> None:
        def scenario(name: str) -> None:
            options = {selected: filled, "startingOffsets": "earliest", "kafka.group.id": f"{filled}-{name}"}
            reader, catalog = self.reader(address, outage, Use.STREAM_READ, **options)
            with closing(catalog):
                start = reader.initialOffset()
                end = reader.latestOffset(start, reader.getDefaultReadLimit())
                assert sum(split.value.size for split in reader.partitions(start, end)) == RECORDS
                assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end
                reader.prepareForTriggerAvailableNow()
                assert reader.latestOffset(end, reader.getDefaultReadLimit()) == end

        assert at_every_request(outage, nothing, scenario) > 14

    def test_a_topic_that_is_not_there_yet(
        self, address: str, topic: str, outage: Outage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its name is looked up once more after a moment, and the broker can be away then too."""
        monkeypatch.setattr(catalog_module, "NEW_TOPIC_SECONDS", 0.2)

        def scenario(name: str) -> None:
            _, catalog = self.reader(address, outage, Use.STREAM_READ, subscribe=topic)
            with closing(catalog):
                assert catalog.topics(frozenset({topic})) == {}

        assert at_every_request(outage, nothing, scenario) > 4

    def test_planning_a_batch(self, address: str, filled: str, outage: Outage) -> None:
        def scenario(name: str) -> None:
            times = {"startingTimestamp": "1", "startingOffsetsByTimestampStrategy": "latest"}
            reader, catalog = self.reader(address, outage, Use.BATCH_READ, subscribe=filled, **times)
            with closing(catalog):
                assert sum(split.size for split in reader._plan(catalog)) == RECORDS

        assert at_every_request(outage, nothing, scenario) > 6

    @pytest.mark.parametrize("given", [{}, {"kafkaConsumer.pollTimeoutMs": "2000"}])
    def test_reading(self, address: str, filled: str, outage: Outage, given: dict[str, str]) -> None:
        options = {"subscribe": filled, "kafka.max.partition.fetch.bytes": "300", **given}
        reader, catalog = self.reader(address, outage, Use.BATCH_READ, **options)
        with closing(catalog):
            (split,) = reader._plan(catalog)
        client, settings = reader._task.client, reader._task.settings

        def scenario(name: str) -> None:
            with Cluster(client, monotonic=outage.monotonic, sleep=outage.sleep) as cluster:
                fetcher = PartitionFetcher(cluster, split, settings, monotonic=outage.monotonic, sleep=outage.sleep)
                position = split.start
                while position < split.end:
                    answer = fetcher.fetch(position)
                    assert answer is not None
                    position = answer.next_offset

        assert at_every_request(outage, nothing, scenario) >= 8
