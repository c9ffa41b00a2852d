"""The MongoDB source against a server with change streams: mongo-java-server with an oplog.

Of an update that server says no more than that there was one; MongoDB itself was not there.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.collection import Collection

from moldau.connect.connectors.mongo_source import IDLE_SECONDS, MongoSource, plain_uri
from moldau.connect.interface import Position, SourceRecord
from tests.support.connect import SECONDS, STRING, ThreadWorker, records
from tests.support.connect_settings import problems_of
from tests.support.data_servers import DocumentServer
from tests.support.waiting import wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocumentServer]:
    running = DocumentServer(tmp_path_factory.mktemp("mongo-changes"), changes=True)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def people(server: DocumentServer, topic: str) -> Iterator[Collection[Any]]:
    """Of a database of its own."""
    with MongoClient[Any](server.uri) as client:
        yield client[f"d{hashlib.sha256(topic.encode()).hexdigest()[:16]}"]["people"]


def source_of(uri: str, people: Collection[Any], clock: Any = None, **config: str) -> MongoSource:
    given = {"connection.uri": uri, "database": people.database.name, "collection": people.name, "topic.prefix": "x"}
    given |= {name.replace("_", "."): value for name, value in config.items()}
    more = () if clock is None else (clock,)
    return MongoSource({**given, **MongoSource.CONFIG.checked(given)}, *more)


class Reader:
    """As the worker reads; every batch a second time, as after a crash before its commit."""

    def __init__(self, server: DocumentServer, people: Collection[Any], **config: str) -> None:
        self.made: Callable[[], MongoSource] = lambda: source_of(server.uri, people, **config)
        self.source = self.made()
        (self.stream,) = self.source.streams()
        self.position: Position | None = None
        self.batches = 0

    def records(self, count: int = 0) -> list[SourceRecord]:
        found: list[SourceRecord] = []

        def look() -> bool:
            end = json.loads(json.dumps(self.source.latest(self.stream, self.position)))
            if end == self.position:
                return len(found) >= count
            batch = list(self.source.read(self.stream, self.position, end))
            other = self.made()
            assert list(other.read(self.stream, self.position, end)) == batch
            other.close()
            found.extend(batch)  # type: ignore[arg-type]
            self.position, self.batches = end, self.batches + 1
            return False

        wait_until(look, f"{count} records", SECONDS, 0)
        return found

    def restart(self) -> None:
        self.source.close()
        self.source = self.made()


def told(found: SourceRecord) -> tuple[Any, ...]:
    event = json.loads(found.value)
    return event["operationType"], event.get("documentKey"), event.get("fullDocument")


def test_each_event_comes_once_and_reading_goes_on_after_a_restart_of_either(
    server: DocumentServer, people: Collection[Any]
) -> None:
    people.insert_one({"_id": "before"})
    reader = Reader(server, people, poll_max_batch_size="3")
    assert reader.stream.topic == f"x.{people.database.name}.people"
    reader.records()
    people.insert_many([{"_id": number, "n": number} for number in range(7)])
    people.delete_one({"_id": 3})
    found = [told(each) for each in reader.records(8)]
    # The server tells the time to the second: what was written in that second comes too.
    assert [each for each in found if each[2] != {"_id": "before"}] == [
        *(("insert", {"_id": number}, {"_id": number, "n": number}) for number in range(7)),
        ("delete", {"_id": 3}, None),
    ]
    assert reader.batches >= 4
    reader.restart()
    people.insert_one({"_id": 8})
    assert [told(each) for each in reader.records(1)] == [("insert", {"_id": 8}, {"_id": 8})]
    people.insert_one({"_id": 9})
    server.stop()
    server.start()
    reader.restart()
    (last,) = reader.records(1)
    assert told(last) == ("insert", {"_id": 9}, {"_id": 9})
    token = json.loads(last.key)["_id"]
    assert reader.position == {"_id": token, "events": 1}
    assert last.timestamp_ms is not None and last.timestamp_ms > 1_700_000_000_000
    reader.source.close()


def test_documents_that_are_there_come_first_and_then_what_changes(
    server: DocumentServer, people: Collection[Any]
) -> None:
    people.insert_many([{"_id": number} for number in range(10)])
    reader = Reader(server, people, startup_mode="copy_existing", poll_max_batch_size="4")
    first = reader.source.latest(reader.stream, None)
    second = reader.source.latest(reader.stream, first)
    assert [told(each)[1] for each in reader.source.read(reader.stream, first, second or {})] == [
        {"_id": number} for number in range(4)
    ]
    people.insert_one({"_id": 10})
    found = [told(each) for each in reader.records(12)]
    assert found[:11] == [("insert", {"_id": number}, {"_id": number}) for number in range(11)]
    # Changes since the copy began come as changes too, whether it has shown them or not.
    assert ("insert", {"_id": 10}, {"_id": 10}) in found[11:]
    reader.source.close()
    people.insert_one({"_id": "a text"})
    mixed = source_of(server.uri, people, startup_mode="copy_existing")
    with pytest.raises(ValueError, match="_ids of the types int, str, and cannot be copied"):
        mixed.latest(reader.stream, mixed.latest(reader.stream, None))
    mixed.close()


MATCHING = {"pipeline": '[{"$match": {"fullDocument.ok": true}}]', "change_stream_full_document": "updateLookup"}


def test_a_stretch_ends_where_it_did_though_less_of_it_matches_now(
    server: DocumentServer, people: Collection[Any]
) -> None:
    """A document that is looked up is as it is now."""
    reader = Reader(server, people, **MATCHING)
    reader.records()
    people.insert_one({"_id": 1, "ok": True})
    people.update_one({"_id": 1}, {"$set": {"v": 1}})
    end = reader.source.latest(reader.stream, reader.position)
    assert end is not None and end["events"] == 2
    people.update_one({"_id": 1}, {"$set": {"ok": False}})
    people.insert_one({"_id": 2, "ok": True})
    assert [told(each)[:2] for each in reader.source.read(reader.stream, reader.position, end)] == [
        ("insert", {"_id": 1})
    ]
    reader.position = end
    assert [told(each)[:2] for each in reader.records(1)] == [("insert", {"_id": 2})]
    reader.source.close()


def test_a_stretch_ends_where_it_did_though_more_of_it_matches_now(
    server: DocumentServer, people: Collection[Any]
) -> None:
    reader = Reader(server, people, **MATCHING)
    reader.records()
    people.insert_one({"_id": 1, "ok": True})
    people.update_one({"_id": 1}, {"$set": {"ok": False}})
    people.insert_one({"_id": 2, "ok": True})
    end = reader.source.latest(reader.stream, reader.position)
    assert end is not None and end["events"] == 2
    people.update_one({"_id": 1}, {"$set": {"ok": True}})
    found = [told(each) for each in reader.source.read(reader.stream, reader.position, end)]
    assert [(kind, document["_id"]) for kind, _, document in found] == [("insert", 1), ("update", 1), ("insert", 2)]
    reader.source.close()


def test_documents_alone_with_tombstones_for_deletes(server: DocumentServer, people: Collection[Any]) -> None:
    only = {"publish_full_document_only": "true", "output_json_formatter": "SimplifiedJson"}
    silent = Reader(server, people, **only)
    reader = Reader(server, people, **only, publish_full_document_only_tombstone_on_delete="true")
    for each in (silent, reader):
        each.records()
    people.insert_one({"_id": 1, "name": "Ada"})
    people.delete_one({"_id": 1})
    found = [(json.loads(each.key), each.value) for each in reader.records(2)]
    assert found == [({"_id": 1}, '{"_id": 1, "name": "Ada"}'), ({"_id": 1}, None)]
    assert [each.value for each in silent.records(1)] == ['{"_id": 1, "name": "Ada"}']
    for each in (silent, reader):
        each.source.close()


def test_a_position_moves_on_where_nothing_happens(server: DocumentServer, people: Collection[Any]) -> None:
    """With a server that tells where it is: the driver's own place is what counts."""
    now = 0.0
    source = source_of(server.uri, people, lambda: now)
    (stream,) = source.streams()
    begin = source.latest(stream, None)
    people.insert_one({"_id": 1})
    seen: list[Position] = []

    def moved() -> bool:
        found = source.latest(stream, begin)
        assert found is not None
        seen.append(found)
        return found != begin

    wait_until(moved, "the event", SECONDS, 0)
    token = seen[-1]
    assert source.latest(stream, token) == token
    now += IDLE_SECONDS
    assert source.latest(stream, token) == token, "nothing is newer"
    source.close()


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"pipeline": "{"}, "pipeline is no JSON"),
        ({"pipeline": "{}"}, "pipeline has to be a JSON list"),
        ({"startup_mode": "timestamp"}, "needs startup.mode.timestamp.start.at.operation.time"),
        ({"output_json_formatter": "Pretty"}, "known are DefaultJson"),
        ({"output_format_value": "bson"}, "output.format.value=bson is not known here"),
    ],
)
def test_what_is_wrong_is_told(config: dict[str, str], problem: str) -> None:
    given = {name.replace("_", "."): value for name, value in config.items()}
    assert problem in problems_of(MongoSource, {"database": "d", **given})


def test_partitions_have_no_passwords() -> None:
    assert plain_uri("mongodb://me:secret@a:1,b:2/admin?replicaSet=r") == "mongodb://a:1,b:2"


def test_changes_come_through_a_worker_while_the_server_goes_and_returns(
    worker: ThreadWorker, server: DocumentServer, people: Collection[Any], address: str, topic: str
) -> None:
    people.insert_one({"_id": 0})
    worker.create(
        topic,
        connector_class="com.mongodb.kafka.connect.MongoSourceConnector",
        connection_uri=server.uri,
        database=people.database.name,
        collection="people",
        topic_prefix=topic,
        startup_mode="copy_existing",
        publish_full_document_only="true",
        key_converter=STRING,
        value_converter=STRING,
        output_json_formatter="ExtendedJson",
    )
    out = f"{topic}.{people.database.name}.people"

    def ids(count: int) -> list[int]:
        found = records(address, out, lambda seen: len(unique(seen)) >= count)
        return unique(found)

    assert ids(1) == [0]
    server.stop()
    server.start()
    people.insert_one({"_id": 1})
    assert ids(2) == [0, 1]
    worker.stop_connector(topic)
    people.insert_one({"_id": 2})
    assert worker.ask("PUT", f"/connectors/{topic}/resume")[0] == 202
    assert ids(3) == [0, 1, 2]
    worker.delete(topic)


def unique(found: list[tuple[Any, Any]]) -> list[int]:
    """What was written in the second of the copy may come as a change too; nothing else may come twice."""
    ids = [int(json.loads(value)["_id"]["$numberInt"]) for _, value in found]
    assert ids.count(0) <= 2 and all(ids.count(each) == 1 for each in ids if each)
    return list(dict.fromkeys(ids))
