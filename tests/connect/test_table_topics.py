"""Topics that keep a state: what reading them does while brokers are away, others write, or its thread has died."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.connect.interface import Stream
from moldau.connect.source_reading import compact, position_key
from moldau.connect.worker.positions import PositionTable, PositionTables
from moldau.connect.worker.topics import TopicTable, TopicUnavailable, prepare_topic
from tests.support.broker import Broker
from tests.support.waiting import wait_until

SECONDS = 60.0
PARTITIONS = 25


@pytest.fixture
def tables(address: str) -> Iterator[PositionTables]:
    made = PositionTables({"bootstrap.servers": address}, PARTITIONS, 1)
    yield made
    made.close()


def task(address: str, **settings: Any) -> Producer:
    """Writes positions as the tasks of a source do."""
    return Producer({"bootstrap.servers": address, "partitioner": "murmur2_random", **settings})


def test_what_is_committed_is_found_behind_a_transaction_that_stays_open(
    address: str, topic: str, tables: PositionTables
) -> None:
    """A worker died in the midst of it; its connector may stay away for long."""
    tables.table(topic).set("a", [({"n": 1}, {"at": 100})])
    gone = task(address, **{"transactional.id": f"{topic}-gone"})
    gone.init_transactions(SECONDS)
    gone.begin_transaction()
    mine = task(address, **{"transactional.id": f"{topic}-mine"})
    mine.init_transactions(SECONDS)
    mine.begin_transaction()
    for number in range(PARTITIONS):
        gone.produce(topic, b'{"at":0}', position_key("b", {"n": 1}), partition=number)
    gone.flush(SECONDS)
    mine.produce(topic, b'{"at":101}', position_key("a", {"n": 1}))
    mine.commit_transaction(SECONDS)
    assert tables.table(topic).of_streams("a", [Stream({"n": 1}, "t")]) == [{"at": 101}]
    assert tables.table(topic).of_connector("b") == []
    gone.commit_transaction(SECONDS)
    assert tables.table(topic).of_connector("b") == [({"n": 1}, {"at": 0})]


def test_what_a_transaction_took_back_is_not_found(address: str, topic: str, tables: PositionTables) -> None:
    tables.table(topic).set("a", [({"n": 1}, {"at": 100})])
    producer = task(address, **{"transactional.id": f"{topic}-mine"})
    producer.init_transactions(SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b'{"at":101}', position_key("a", {"n": 1}))
    producer.abort_transaction(SECONDS)
    assert tables.table(topic).of_connector("a") == [({"n": 1}, {"at": 100})]


def test_positions_that_are_set_lie_where_tasks_write_theirs(address: str, topic: str, tables: PositionTables) -> None:
    """Else nobody knew after a restart which of the two is newer."""
    partitions = [{"n": number} for number in range(2 * PARTITIONS)]
    tables.table(topic).set("a", [(partition, {"at": 1}) for partition in partitions])
    producer = task(address)
    for partition in partitions:
        producer.produce(topic, compact({"at": 2}), position_key("a", partition))
    producer.flush(SECONDS)
    made = PositionTable({"bootstrap.servers": address}, topic)
    try:
        assert sorted(made.of_connector("a"), key=str) == sorted([(each, {"at": 2}) for each in partitions], key=str)
        lying = {(number, record.key) for number, record in all_of(made)}
        assert len(lying) == len(partitions), "each key is in one partition alone"
    finally:
        made.close()


def all_of(table: PositionTable) -> list[Any]:
    table._reader._positions.clear()
    return list(table._reader.placed())


def test_of_records_in_two_partitions_the_younger_one_counts(address: str, topic: str, tables: PositionTables) -> None:
    tables.table(topic)
    producer = Producer({"bootstrap.servers": address})
    key = position_key("a", {"n": 1})
    producer.produce(topic, b'{"at":7}', key, partition=3, timestamp=2_000)
    producer.produce(topic, b'{"at":1}', key, partition=9, timestamp=1_000)
    producer.produce(topic, b"no JSON", b"nor this", partition=9)
    producer.flush(SECONDS)
    assert tables.table(topic).of_connector("a") == [({"n": 1}, {"at": 7})]


def test_states_in_two_partitions_count_by_their_age_too(address: str, topic: str) -> None:
    prepare_topic({"bootstrap.servers": address}, topic, 2, 1, SECONDS)
    producer = Producer({"bootstrap.servers": address})
    producer.produce(topic, b"new", b"k", partition=0, timestamp=2_000)
    producer.flush(SECONDS)
    seen: list[bytes | None] = []
    table = TopicTable({"bootstrap.servers": address}, topic, lambda _, value: seen.append(value))
    table.start()
    try:
        table.catch_up()
        producer.produce(topic, b"old", b"k", partition=1, timestamp=1_000)
        producer.flush(SECONDS)
        table.catch_up()
        assert seen == [b"new"]
    finally:
        table.close()


def test_a_table_is_read_once_the_brokers_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They go away between the look at the topic and the reading."""
    with Broker(tmp_path / "broker") as broker:
        assert isinstance(broker, Broker)
        monkeypatch.setattr("moldau.connect.worker.topics.AGAIN_SECONDS", 0.1)
        seen: list[bytes | None] = []
        table = TopicTable({"bootstrap.servers": broker.address}, "states", lambda _, value: seen.append(value))
        table.prepare(1, 1)
        producer = task(broker.address)
        producer.produce("states", b"one", b"k")
        producer.flush(SECONDS)
        broker.kill()
        table._seconds = 1.0
        table.start()
        try:
            wait_until(lambda: "states cannot be looked at yet" in caplog.text, "it looks in vain", SECONDS)
            with pytest.raises(TopicUnavailable):
                table.catch_up()
            broker.start()
            table._seconds = 30.0
            table.catch_up()
            assert (seen, table.is_dead) == ([b"one"], False)
        finally:
            table.close()


def test_positions_are_read_once_the_brokers_answer(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        assert isinstance(broker, Broker)
        made = PositionTable({"bootstrap.servers": broker.address}, "positions", 2.0)
        made.prepare(1, 1)
        made.set("a", [({"n": 1}, {"at": 1})])
        broker.kill()
        with pytest.raises(TopicUnavailable):
            made.of_connector("a")
        with pytest.raises(TopicUnavailable):
            made.set("a", [({"n": 1}, {"at": 2})])
        broker.start()
        assert made.of_connector("a") == [({"n": 1}, {"at": 1})]
        made.close()


def test_a_table_whose_reading_has_ended_says_so(address: str, topic: str) -> None:
    def fail(key: bytes | None, value: bytes | None) -> None:
        raise MemoryError("no room for it")

    table = TopicTable({"bootstrap.servers": address}, topic, fail)
    table.prepare(1, 1)
    table.start()
    try:
        with pytest.raises(TopicUnavailable, match="no room for it"):
            table.write([(b"k", b"v")])
        assert table.is_dead
    finally:
        table.close()
