"""The Elasticsearch sink in a worker; and the same questions to the judge of our own and to a real OpenSearch."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer

from moldau.connect.connectors.elasticsearch_sink import ElasticsearchSink
from moldau.connect.interface import SinkRecord
from tests.peers.java_programs import SEARCH, can_run
from tests.support.bulk_server import BulkServer, Fault, busy
from tests.support.connect import JSON, SECONDS, STRING, ThreadWorker, records
from tests.support.data_servers import SearchServer
from tests.support.waiting import wait_until

NO_MAVEN = pytest.mark.skipif(not can_run(SEARCH), reason="no Maven to fetch OpenSearch")
Documents = dict[str, dict[str, Any]]


class Judge:
    def __init__(self) -> None:
        self.server = BulkServer()
        self.server.start(0)
        self.url = self.server.url

    def documents(self, index: str) -> Documents:
        return self.server.documents(index)

    def stop(self) -> None:
        self.server.stop()
        assert self.server.broken_rules == []


class OpenSearch:
    def __init__(self, server: SearchServer) -> None:
        server.start()
        self.server = server
        self.url = server.url

    def documents(self, index: str) -> Documents:
        self._ask("POST", f"/{index}/_refresh")
        hits = self._ask("GET", f"/{index}/_search?size=1000")["hits"]["hits"]
        return {each["_id"]: each["_source"] for each in sorted(hits, key=lambda hit: hit["_id"])}

    def _ask(self, method: str, path: str) -> Any:
        with urllib.request.urlopen(urllib.request.Request(self.url + path, method=method), timeout=60) as answer:
            return json.loads(answer.read())

    def stop(self) -> None:
        self.server.stop()


@pytest.fixture(scope="module", params=["judge", pytest.param("opensearch", marks=[pytest.mark.live, NO_MAVEN])])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge | OpenSearch]:
    made = Judge() if request.param == "judge" else OpenSearch(SearchServer(tmp_path_factory.mktemp("opensearch")))
    yield made
    made.stop()


def record(offset: int, value: Any, key: Any = "a", topic: str = "t") -> SinkRecord:
    return SinkRecord(topic, 0, offset, None, key, value)


def write(target: Judge | OpenSearch, several: Sequence[SinkRecord], **config: str) -> list[str]:
    given = {"connection.url": target.url, "read.timeout.ms": "60000", **config}
    sink = ElasticsearchSink({**given, **ElasticsearchSink.CONFIG.checked(given)})
    refused: list[str] = []
    sink.refuse = lambda record, problem: refused.append(str(problem))  # type: ignore[method-assign]
    try:
        sink.write(iter(several))
    finally:
        sink.close()
    return refused


def test_both_servers_keep_the_newest_whatever_comes_again(target: Judge | OpenSearch, topic: str) -> None:
    deleting = {"behavior.on.null.values": "delete"}
    several = [
        record(offset, None if offset % 7 == 6 else {"v": offset}, f"k{offset % 5}", topic) for offset in range(35)
    ]
    write(target, several, **deleting)
    newest = {f"k{offset % 5}": {"v": offset} for offset in range(30, 34)}
    assert target.documents(topic) == newest
    write(target, several[20:], **deleting, **{"batch.size": "3", "connection.compression": "true"})
    assert target.documents(topic) == newest
    write(target, [record(3, {"v": "of a worker that was paused"}, "k3", topic)])
    assert target.documents(topic) == newest


def test_both_servers_give_places_one_document(target: Judge | OpenSearch, topic: str) -> None:
    several = [record(offset, {"v": offset}, None, topic) for offset in range(5)]
    for _ in range(2):
        assert write(target, several, **{"key.ignore": "true"}) == []
        assert target.documents(topic) == {f"{topic}+0+{offset}": {"v": offset} for offset in range(5)}


def test_both_servers_add_fields(target: Judge | OpenSearch, topic: str) -> None:
    several = [record(0, {"v": 1, "w": 1}, topic=topic), record(1, {"v": 2}, topic=topic)]
    for _ in range(2):
        write(target, several, **{"write.method": "upsert"})
        assert target.documents(topic) == {"a": {"v": 2, "w": 1}}


def test_both_servers_refuse_what_fits_no_mapping_alone(target: Judge | OpenSearch, topic: str) -> None:
    several = [record(0, {"v": 1}, "a", topic), record(1, {"v": "text"}, "b", topic), record(2, {"v": 3}, "c", topic)]
    (told,) = write(target, several)
    assert told.startswith(f"{topic}-0 at offset 1, document b of {topic}: mapper_parsing_exception: failed to parse")
    assert list(target.documents(topic)) == ["a", "c"]


def test_documents_come_through_a_worker_and_those_that_fit_not_become_dead_letters(
    worker: ThreadWorker, address: str, topic: str
) -> None:
    config = {
        "connector.class": "io.confluent.connect.elasticsearch.ElasticsearchSinkConnector",
        "topics": topic,
        "key.converter": STRING,
        "value.converter": JSON,
        "value.converter.schemas.enable": "false",
        "behavior.on.null.values": "delete",
        "retry.backoff.ms": "10",
        "errors.tolerance": "all",
        "errors.deadletterqueue.topic.name": f"{topic}-dead",
    }
    producer = Producer({"bootstrap.servers": address})
    for key, value in (("a", {"v": 1}), ("b", {"v": 2, "w": 5}), ("a", None), ("c", {"v": 3})):
        producer.produce(topic, None if value is None else json.dumps(value), key, 0)
    assert producer.flush(60) == 0
    with BulkServer([busy(503, "0"), Fault(cut="after")]) as server:
        server.kinds[(topic, "w")] = int
        whole = {**config, "connection.url": server.url}
        assert worker.ask("POST", "/connectors", {"name": topic, "config": whole})[0] == 201
        wait_until(lambda: list(server.documents(topic)) == ["b", "c"], "what was not deleted", SECONDS)
        producer.produce(topic, json.dumps({"v": "text"}), "d", 0)
        producer.produce(topic, json.dumps({"v": "6"}), "b", 0)
        assert producer.flush(60) == 0
        found = records(address, f"{topic}-dead", lambda found: len(found) >= 2)
        assert [key for key, _ in found] == [b"d", b"b"]
        assert list(server.documents(topic)) == ["b", "c"]
        worker.delete(topic)
