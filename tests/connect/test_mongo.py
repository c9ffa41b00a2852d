"""The MongoDB sink against a server that speaks MongoDB's protocol: mongo-java-server, its data in a file."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from bson import Decimal128, ObjectId
from confluent_kafka import Producer
from pymongo import MongoClient
from pymongo.collection import Collection
from pymongo.errors import AutoReconnect

from moldau.connect.connectors.mongo_sink import MongoSink
from moldau.connect.interface import RecordRefused, SinkRecord
from tests.support.connect import JSON, SECONDS, STRING, ThreadWorker
from tests.support.connect_settings import problems_of
from tests.support.data_servers import DocumentServer
from tests.support.deaths import Deaths
from tests.support.waiting import wait_until

BY_KEY = {"document.id.strategy": "com.mongodb.kafka.connect.sink.processor.id.strategy.FullKeyStrategy"}
DELETING = {**BY_KEY, "delete.on.null.values": "true"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentServer]:
    running = DocumentServer(tmp_path_factory.mktemp("mongo"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def database(topic: str) -> str:
    """MongoDB has no names of more than 63 characters."""
    return f"d{hashlib.sha256(topic.encode()).hexdigest()[:16]}"


def record(offset: int, value: Any, key: Any = None, topic: str = "t", partition: int = 0, **more: Any) -> SinkRecord:
    return SinkRecord(topic, partition, offset, 1_700_000_000_000, key, value, **more)


def sink_of(server: DocumentServer, database: str, **config: str) -> MongoSink:
    given = {"connection.uri": server.uri, "database": database, "max.num.retries": "0", **config}
    return MongoSink({**given, **MongoSink.CONFIG.checked(given)})


def write(server: DocumentServer, database: str, records: Sequence[SinkRecord], **config: str) -> list[str]:
    """As the worker does with errors.tolerance=all; what was refused."""
    sink = sink_of(server, database, **config)
    refused: list[str] = []
    sink.refuse = lambda record, problem: refused.append(str(problem))  # type: ignore[method-assign]
    try:
        sink.write(iter(records))
    finally:
        sink.close()
    return refused


def test_a_record_s_id_is_its_place_and_a_repetition_changes_nothing(server: DocumentServer, database: str) -> None:
    several = [record(0, {"n": 1}), record(1, '{"n": 2, "other": [1]}'), record(0, {"n": 3}, partition=1)]
    wanted = [{"_id": "t#0#0", "n": 1}, {"_id": "t#0#1", "n": 2, "other": [1]}, {"_id": "t#1#0", "n": 3}]
    for _ in range(2):
        assert write(server, database, several) == []
        assert server.documents(database, "t", places=True) == wanted


def test_ids_of_mongodb_s_kinds_are_the_same_each_time(server: DocumentServer, database: str) -> None:
    several = [record(0, {"n": 1}), record(1, {"n": 2})]
    for strategy in ("BsonOidStrategy", "UuidStrategy"):
        for _ in range(2):
            write(server, database, several, collection=strategy, **{"document.id.strategy": strategy})
        assert sorted(each["n"] for each in server.documents(database, strategy)) == [1, 2]
    first = server.documents(database, "BsonOidStrategy")[0]["_id"]
    assert isinstance(first, ObjectId)
    assert first.generation_time == dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)


def test_a_routed_record_keeps_the_id_of_where_it_was_read(server: DocumentServer, database: str) -> None:
    write(server, database, [record(0, {"n": 1}, topic="all", source_topic=each) for each in ("a", "b")])
    assert [each["_id"] for each in server.documents(database, "all")] == ["a#0#0", "b#0#0"]


def test_keys_replace_and_tombstones_delete(server: DocumentServer, database: str) -> None:
    several = [
        record(0, {"v": 1}, "a"), record(1, {"v": 2}, "b"), record(2, {"w": 3}, "a"), record(3, None, "b"),
        record(4, {"v": 4}, {"k": 1}), record(5, {"v": 5}, '{"k": 1}'), record(6, {"v": 6}, 7),
    ]  # fmt: skip
    assert write(server, database, several, **DELETING) == []
    assert server.documents(database, "t") == [{"_id": 7, "v": 6}, {"_id": "a", "w": 3}, {"_id": {"k": 1}, "v": 5}]
    assert server.documents(database, "t", places=True)[1]["_kafka"] == {"topic": "t", "partition": 0, "offset": 2}


@pytest.mark.parametrize("model", ["ReplaceOneDefaultStrategy", "UpdateOneDefaultStrategy"])
def test_an_older_record_never_replaces_a_newer_one(server: DocumentServer, database: str, model: str) -> None:
    """What a worker does that was paused while another took over, and what comes again after a crash."""
    config = {**BY_KEY, "writemodel.strategy": model}
    write(server, database, [record(5, {"v": 5}, "a"), record(6, {"v": 6}, "b")], **config)
    late = [record(4, {"v": 4}, "a"), record(5, {"v": 0}, "a"), record(7, {"v": 7}, "b"), record(8, {"v": 8}, "c")]
    assert write(server, database, late, **config) == []
    assert [each["v"] for each in server.documents(database, "t")] == [5, 7, 8]
    assert write(server, database, [record(0, {"v": 9}, "a", partition=1)], **config) == []
    assert server.documents(database, "t")[0]["v"] == 9, "of another partition no order is known"


def test_a_document_that_another_worker_makes_meanwhile_is_met(
    server: DocumentServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the server's look for the document and its insertion: the newer record wins, whichever comes first."""
    real = Collection.bulk_write
    met = False

    def late(self: Any, operations: Any, ordered: bool = True) -> Any:
        nonlocal met
        if not met:
            met = True
            self.insert_one({"_id": "a", "v": 1, "_kafka": {"topic": "t", "partition": 0, "offset": 1}})
            from pymongo import InsertOne

            return real(self, [InsertOne({"_id": "a"})], ordered=ordered)
        return real(self, operations, ordered=ordered)

    monkeypatch.setattr(Collection, "bulk_write", late)
    write(server, database, [record(2, {"v": 2}, "a")], **BY_KEY)
    assert server.documents(database, "t") == [{"_id": "a", "v": 2}]


def test_fields_are_set_and_times_are_kept(server: DocumentServer, database: str) -> None:
    several = [record(0, {"v": 1}, "a"), record(1, {"w": 2}, "a")]
    write(server, database, several, **BY_KEY, **{"writemodel.strategy": "UpdateOneTimestampsStrategy"})
    (found,) = server.documents(database, "t")
    assert (found["v"], found["w"]) == (1, 2)
    assert found["_insertedTS"] <= found["_modifiedTS"]


def test_insertion_leaves_what_is_there(server: DocumentServer, database: str) -> None:
    config = {"writemodel.strategy": "InsertOneDefaultStrategy"}
    write(server, database, [record(0, {"v": 1})], **config)
    with MongoClient[dict[str, Any]](server.uri) as client:
        client[database]["t"].update_one({"_id": "t#0#0"}, {"$set": {"v": "changed by somebody"}})
    assert len(write(server, database, [record(0, {"v": 1}), record(1, {"_id": 1})], **config)) == 1
    assert server.documents(database, "t") == [{"_id": "t#0#0", "v": "changed by somebody"}]


def test_sub_documents_are_embedded_or_kept_in_collections_of_their_own(server: DocumentServer, database: str) -> None:
    """Employees, as the slides on MongoDB lay them out; both can be asked."""
    address = {"id": 10, "city": "Prague"}
    people = [
        record(0, {"name": "Ann", "address": address, "skills": [{"id": 1, "of": "sql"}, {"id": 2, "of": "go"}]}, 1),
        record(1, {"name": "Bob", "address": {**address, "zip": 1}, "skills": [{"id": 1, "of": "sql"}]}, 2),
    ]
    write(server, database, people, collection="embedded", **BY_KEY)
    references = {"references": "address:addresses:id,skills:skills:id"}
    bad = record(2, {"name": "Eve", "skills": [{"of": "no id"}]}, 3)
    refused = write(server, database, [*people, bad], collection="referenced", **BY_KEY, **references)
    assert refused == ["t-0 at offset 2: skills holds no document with id"]
    with MongoClient[dict[str, Any]](server.uri) as client:
        found = client[database]
        assert [each["name"] for each in found["embedded"].find({"skills.of": "go"})] == ["Ann"]
        (go,) = found["skills"].find({"of": "go"})
        assert [each["name"] for each in found["referenced"].find({"skills": go["_id"]})] == ["Ann"]
    first = server.documents(database, "referenced")[0]
    assert first == {"_id": 1, "name": "Ann", "address": 10, "skills": [1, 2]}
    assert server.documents(database, "addresses") == [{"_id": 10, "id": 10, "city": "Prague", "zip": 1}]


def test_types_come_through(server: DocumentServer, database: str) -> None:
    noon = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
    value = {
        "n": Decimal("1.50"), "at": noon, "day": noon.date(), "raw": b"\x00\xff", "long": 2**40, "none": None,
        "list": [{"x": 1.5}], "yes": True,
    }  # fmt: skip
    extended = '{"at": {"$date": "2024-02-29T12:00:00Z"}, "id": {"$oid": "65e0a1b2c3d4e5f60718293a"}}'
    assert write(server, database, [record(0, value), record(1, extended)]) == []
    first, second = server.documents(database, "t")
    assert first == {
        **value, "_id": "t#0#0", "n": Decimal128("1.50"), "day": dt.datetime(2024, 2, 29, tzinfo=dt.UTC),
    }  # fmt: skip
    assert second == {"_id": "t#0#1", "at": noon, "id": ObjectId("65e0a1b2c3d4e5f60718293a")}


def test_what_is_no_document_is_refused_alone(server: DocumentServer, database: str) -> None:
    several = [
        record(0, {"v": 1}, "a"), record(1, "no JSON", "b"), record(2, [1], "c"), record(3, {"v": 2**70}, "d"),
        record(4, {"v": "x" * (17 << 20)}, "e"), record(5, {"v": Decimal("1." + "1" * 37)}, "f"),
        record(6, {"v": 1}, None), record(7, None, "a"), record(8, {"v": 8}, "h"),
    ]  # fmt: skip
    refused = write(server, database, several, **BY_KEY)
    assert [each.split(":")[0].split(" is ")[0] for each in refused] == [
        f"t-0 at offset {offset}" for offset in range(1, 8)
    ]
    assert [each["v"] for each in server.documents(database, "t")] == [1, 8]
    sink = sink_of(server, database)
    with pytest.raises(RecordRefused, match="t-0 at offset 1: the value is no document"):
        sink.write(iter([record(1, "no JSON")]))
    sink.close()


def test_what_another_unique_index_refuses_is_told(server: DocumentServer, database: str) -> None:
    with MongoClient[dict[str, Any]](server.uri) as client:
        client[database]["t"].create_index("mail", unique=True)
    several = [record(0, {"mail": "a"}, 1), record(1, {"mail": "a"}, 2), record(2, {"mail": "b"}, 3)]
    for _ in range(2):
        (refused,) = write(server, database, several, **BY_KEY)
        assert refused.startswith("t-0 at offset 1: t refuses it: E11000 duplicate key")
        assert [each["_id"] for each in server.documents(database, "t")] == [1, 3]


def test_what_cannot_be_exact_or_is_not_known_is_refused(server: DocumentServer) -> None:
    for config, told in (
        ({"delete.on.null.values": "true"}, "needs a document.id.strategy of keys"),
        ({**BY_KEY, "writemodel.strategy": "InsertOneDefaultStrategy"}, "a repetition could not be told"),
        ({"writemodel.strategy": "ReplaceOneBusinessKeyStrategy"}, "is not known here"),
        ({"document.id.strategy": "MyStrategy"}, "MyStrategy is not known here; known are Kafka"),
        ({"document.id.strategy": "PartialKeyStrategy"}, "projection.type has to be allowlist or blocklist"),
        ({"change.data.capture.handler": "com.example.Handler"}, "change.data.capture.handler=com.example.Handler is"),
        ({"topic.override.t.max.batch.size": "1"}, "only topic.override.TOPIC.collection"),
        ({"references": "a:b"}, "a:b is no field:collection:id"),
    ):
        assert told in problems_of(MongoSink, {"connection.uri": server.uri, "database": "d", **config})
    lossy = sink_of(server, "d", **{"connection.uri": f"{server.uri}&w=0"})
    with pytest.raises(ValueError, match="w=0 loses them"):
        lossy.write(iter([record(0, {"v": 1})]))


class Died(Exception):
    """In the place of a kill."""


@pytest.mark.parametrize("moment", range(6))
@pytest.mark.parametrize("after", [False, True])
def test_a_crash_at_any_write_neither_loses_nor_doubles(
    server: DocumentServer, database: str, monkeypatch: pytest.MonkeyPatch, moment: int, after: bool
) -> None:
    """Dies before the n-th write, or behind it, before anybody hears of it."""
    several = [
        record(offset, None if offset % 5 == 4 else {"v": offset, "part": {"id": offset % 2, "v": offset}}, offset % 4)
        for offset in range(24)
    ]
    config = {**DELETING, "references": "part:parts:id", "max.batch.size": "8"}
    real: Callable[..., Any] = Collection.bulk_write
    steps = 0

    def dying(self: Any, operations: Any, ordered: bool = True) -> Any:
        nonlocal steps
        steps += 1
        if steps == moment + 1:
            if after:
                real(self, operations, ordered=ordered)
            raise Died
        return real(self, operations, ordered=ordered)

    with monkeypatch.context() as patched:
        patched.setattr(Collection, "bulk_write", dying)
        with pytest.raises(Died):
            write(server, database, several, **config)
    assert write(server, database, several, **config) == []
    last = {each.key: each for each in several}
    wanted = [{"_id": key, "v": each.offset, "part": each.offset % 2} for key, each in last.items() if each.value]
    assert server.documents(database, "t") == sorted(wanted, key=lambda each: each["_id"])
    assert [each["v"] for each in server.documents(database, "parts")] == [22, 23]


def test_twenty_deaths_in_a_row_neither_lose_nor_double(
    server: DocumentServer, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    deaths, config = Deaths(most=10), {**DELETING, "references": "part:parts:id", "max.batch.size": "3"}
    monkeypatch.setattr(Collection, "bulk_write", deaths.around(Collection.bulk_write))

    def several(first: int, last: int) -> list[SinkRecord]:
        numbers = range(first, last)
        return [
            record(at, None if at % 5 == 4 else {"v": at, "part": {"id": at % 2, "v": at}}, at % 7) for at in numbers
        ]

    end = deaths.survived(lambda first, last: write(server, database, several(first, last), **config))
    newest = {each.key: each for each in several(0, end)}
    wanted = [{"_id": key, "v": each.offset, "part": each.offset % 2} for key, each in newest.items() if each.value]
    assert server.documents(database, "t") == sorted(wanted, key=lambda each: each["_id"])


def test_documents_come_through_a_worker_while_the_server_goes_and_returns(
    worker: ThreadWorker, server: DocumentServer, address: str, topic: str, database: str
) -> None:
    config = {
        "connector.class": "com.mongodb.kafka.connect.MongoSinkConnector",
        "connection.uri": server.uri,
        "database": database,
        "topics": topic,
        "key.converter": STRING,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "max.num.retries": "0",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dead",
        **DELETING,
    }
    producer = Producer({"bootstrap.servers": address})
    send(producer, topic, {"a": {"v": 1, "sub": {"x": [1, 2]}}, "b": {"v": 2, "sub": None}})
    server.stop()
    assert worker.ask("POST", "/connectors", {"name": topic, "config": config})[0] == 201
    wait_until(lambda: "FAILED" in worker.states(topic) and worker.task_trace(topic), "it cannot write", SECONDS)
    server.start()
    wait_until(lambda: len(server.documents(database, topic)) == 2, "both documents", SECONDS)
    send(producer, topic, {"a": None, "c": {"v": 3, "sub": {"x": []}}})
    wait_until(lambda: [each["_id"] for each in server.documents(database, topic)] == ["b", "c"], "changes", SECONDS)
    assert server.documents(database, topic)[1] == {"_id": "c", "v": 3, "sub": {"x": []}}
    worker.delete(topic)


def send(producer: Producer, topic: str, values: dict[str, Any]) -> None:
    for key, value in values.items():
        producer.produce(topic, None if value is None else json.dumps(value), key, 0)
    assert producer.flush(60) == 0


def test_a_server_that_is_away_is_told(tmp_path: Path) -> None:
    absent = DocumentServer(tmp_path / "absent")
    with pytest.raises(AutoReconnect, match="Connection refused"):
        write(absent, "d", [record(0, {"v": 1})])


def test_records_of_a_topic_that_was_made_anew_are_newer(server: DocumentServer, database: str) -> None:
    write(server, database, [record(5, {"v": 5}, "a")], **BY_KEY)
    write(server, database, [record(0, {"v": 0}, "a", generation=1)], **BY_KEY)
    write(server, database, [record(6, {"v": 6}, "a")], **BY_KEY)
    assert [each["v"] for each in server.documents(database, "t")] == [0]
    inserted = {"collection": "p", "writemodel.strategy": "InsertOneDefaultStrategy"}
    for generation in (0, 1):
        write(server, database, [record(0, {"n": generation}, generation=generation)], **inserted)
    assert [each["n"] for each in server.documents(database, "p")] == [0, 1]
