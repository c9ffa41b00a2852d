"""The Elasticsearch sink against a server that judges its requests and fails on request."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from moldau.connect.connectors.elasticsearch_sink import ElasticsearchSink
from moldau.connect.connectors.http_calls import CallRefused, ServerAway, basic
from moldau.connect.interface import RecordRefused, SinkRecord
from tests.support.bulk_server import BulkServer, Fault, busy
from tests.support.connect_settings import problems_of
from tests.support.deaths import Deaths

DELETING = {"behavior.on.null.values": "DELETE"}


@pytest.fixture
def server() -> Iterator[BulkServer]:
    with BulkServer() as running:
        yield running


def record(offset: int, value: Any, key: Any = "a", topic: str = "t", partition: int = 0, **more: Any) -> SinkRecord:
    return SinkRecord(topic, partition, offset, None, key, value, **more)


class Writer:
    """As the worker does with errors.tolerance=all; pauses are noted, nobody waits."""

    def __init__(self, server: BulkServer, **config: str) -> None:
        given = {"connection.url": server.url, "retry.backoff.ms": "1000", "read.timeout.ms": "20000", **config}
        self.sink = ElasticsearchSink({**given, **ElasticsearchSink.CONFIG.checked(given)})
        self.sink.refuse = lambda record, problem: self.refused.append((record.offset, str(problem)))  # type: ignore[method-assign]
        self.refused: list[tuple[int, str]] = []
        self.pauses: list[float] = []
        caller = self.sink._open()
        caller.sleep, caller.chance = self.pauses.append, lambda: 0.0
        caller.now = lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

    def write(self, records: Sequence[SinkRecord]) -> list[tuple[int, str]]:
        try:
            self.sink.write(iter(records))
        finally:
            self.sink.close()
        return self.refused


def test_documents_are_named_by_keys_and_the_newest_stays(server: BulkServer) -> None:
    several = [
        record(0, {"v": 1}),
        record(1, {"v": 2}, "b"),
        record(2, {"v": 3}),
        record(3, None, "b"),
        record(4, {"v": 4}, 7),
    ]
    for _ in range(2):
        assert Writer(server, **DELETING).write(several) == []
        assert server.documents("t") == {"7": {"v": 4}, "a": {"v": 3}}
    Writer(server).write([record(1, {"v": "of a worker that was paused"})])
    assert server.documents("t")["a"] == {"v": 3}


def test_records_of_a_topic_that_was_made_anew_are_newer(server: BulkServer) -> None:
    Writer(server).write([record(7, {"v": 1})])
    Writer(server).write([record(0, {"v": 2}, generation=1)])
    Writer(server).write([record(8, {"v": "of a worker that was paused"})])
    assert server.documents("t") == {"a": {"v": 2}}
    for generation in (0, 1):
        Writer(server, **{"key.ignore": "true"}).write([record(0, {"v": 3}, topic="p", generation=generation)])
    assert list(server.documents("p")) == ["p+0+0", f"p+0+{1 << 48}"]


def test_places_are_ids_where_keys_are_ignored(server: BulkServer) -> None:
    several = [
        record(0, {"v": 1}, None),
        record(1, {"v": 2}, None, topic="Out", source_topic="in"),
        record(0, {"v": 3}, None, partition=1),
    ]
    for _ in range(2):
        Writer(server, **{"key.ignore": "true"}).write(several)
    assert server.documents("t") == {"t+0+0": {"v": 1}, "t+1+0": {"v": 3}}
    assert server.documents("out") == {"in+0+1": {"v": 2}}, "indices have small letters"
    config = {"topic.key.ignore": "u", "topic.to.external.resource.mapping": "u:other"}
    Writer(server, **config).write([record(3, {"v": 1}, topic="u")])
    assert server.documents("other") == {"u+0+3": {"v": 1}}


def test_fields_are_added_with_upsert_and_an_older_one_never_comes_later(server: BulkServer) -> None:
    """A document that was busy is sent again before the next change of it."""
    server.faults = [Fault(busy_items=1)]
    Writer(server, **{"write.method": "UPSERT"}).write(
        [record(0, {"v": 1, "w": 1}), record(1, {"v": 2}), record(2, {"x": 1}, "b")]
    )
    assert server.documents("t") == {"a": {"v": 2, "w": 1}, "b": {"x": 1}}


def test_busy_servers_are_asked_again_when_they_say(server: BulkServer) -> None:
    late = "Thu, 01 Jan 2026 00:00:30 GMT"
    server.faults = [busy(429, "7"), busy(503), busy(503, late), busy(429, "100000"), busy(429, "soon"), Fault()]
    writer = Writer(server)
    writer.write([record(0, {"v": 1})])
    assert writer.pauses == [7, 2, 30, 300, 16]
    assert server.documents("t") == {"a": {"v": 1}}


def test_only_documents_that_were_busy_are_sent_again(server: BulkServer) -> None:
    server.faults = [Fault(busy_items=2), Fault(busy_items=1)]
    writer = Writer(server)
    writer.write([record(offset, {"v": offset}, f"k{offset}") for offset in range(4)])
    assert [each.body.count(b"\n") // 2 for each in server.requests] == [4, 2, 1]
    assert writer.pauses == [1, 2]
    assert list(server.documents("t")) == ["k0", "k1", "k2", "k3"]


def test_a_server_that_stays_busy_or_away_ends_the_task(server: BulkServer) -> None:
    server.faults = [busy(503)] * 3
    with pytest.raises(ServerAway, match=r"503 busy \(after 3 attempts\)"):
        Writer(server, **{"max.retries": "2"}).write([record(0, {"v": 1})])
    server.faults = [Fault(busy_items=1)] * 3
    with pytest.raises(ServerAway, match="1 documents were not taken within 3 attempts"):
        Writer(server, **{"max.retries": "2"}).write([record(0, {"v": 1})])
    server.stop()
    writer = Writer(server, **{"max.retries": "2"})
    with pytest.raises(ServerAway, match="Connection refused"):
        writer.write([record(0, {"v": 1})])
    assert writer.pauses == [1, 2]
    server.start(server.port)


@pytest.mark.parametrize("moment", range(5))
@pytest.mark.parametrize("cut", ["before", "after"])
def test_a_torn_connection_neither_loses_nor_doubles(server: BulkServer, cut: str, moment: int) -> None:
    several = [record(offset, {"v": offset}, f"k{offset % 5}") for offset in range(20)]
    server.faults = [*([Fault()] * moment), Fault(cut=cut)]
    Writer(server, **{"batch.size": "4"}).write(several)
    assert server.documents("t") == {f"k{offset % 5}": {"v": offset} for offset in range(15, 20)}
    assert len(server.requests) == 6


class Died(Exception):
    """In the place of a kill."""


@pytest.mark.parametrize("moment", range(5))
@pytest.mark.parametrize("config", [{}, {"key.ignore": "true"}, {"write.method": "upsert"}])
def test_a_crash_at_any_request_neither_loses_nor_doubles(
    server: BulkServer, config: dict[str, str], moment: int
) -> None:
    config = {**config, "batch.size": "4"}
    several = [record(offset, {"v": offset, f"f{offset % 2}": offset}, f"k{offset % 5}") for offset in range(20)]
    clean = BulkServer()
    with clean:
        Writer(clean, **config).write(several)
    writer = Writer(server, **config)
    caller = writer.sink._open()
    real, steps = caller.call, 0

    def dying(*given: Any) -> Any:
        nonlocal steps
        steps += 1
        answer = real(*given)
        if steps > moment:
            raise Died
        return answer

    writer.sink._caller = Dying(dying)  # type: ignore[assignment]
    with pytest.raises(Died):
        writer.write(several)
    caller.close()
    Writer(server, **config).write(several)
    assert server.documents("t") == clean.documents("t")


@pytest.mark.parametrize("config", [{}, {"key.ignore": "true"}, {"write.method": "upsert"}])
def test_twenty_deaths_in_a_row_neither_lose_nor_double(server: BulkServer, config: dict[str, str]) -> None:
    config, deaths = {**config, "batch.size": "3"}, Deaths(most=9)

    def several(first: int, last: int) -> list[SinkRecord]:
        return [record(at, {"v": at, f"f{at % 2}": at}, f"k{at % 5}") for at in range(first, last)]

    def write(first: int, last: int) -> None:
        writer = Writer(server, **config)
        caller = writer.sink._open()
        writer.sink._caller = Dying(deaths.around(caller.call))  # type: ignore[assignment]
        try:
            writer.write(several(first, last))
        finally:
            caller.close()

    end = deaths.survived(write)
    with BulkServer() as clean:
        Writer(clean, **config).write(several(0, end))
        assert server.documents("t") == clean.documents("t")


class Dying:
    def __init__(self, call: Any) -> None:
        self.call = call

    def close(self) -> None:
        pass


def test_documents_that_fit_no_mapping_are_refused_alone(server: BulkServer) -> None:
    several = [record(0, {"v": 1}), record(1, {"v": "text"}, "b"), record(2, {"v": 3}, "c")]
    ((offset, told),) = Writer(server).write(several)
    assert (offset, told) == (
        1, "t-0 at offset 1, document b of t: mapper_parsing_exception: failed to parse field [v] of type [long]"
    )  # fmt: skip
    assert list(server.documents("t")) == ["a", "c"]
    assert Writer(server, **{"behavior.on.malformed.documents": "warn"}).write(several) == []


def test_what_is_no_document_is_refused_before_it_is_sent(server: BulkServer) -> None:
    several = [
        record(0, "text"), record(1, None), record(2, {"v": 1}, None), record(3, {"v": 1}, {"k": 1}),
        record(4, {"v": math.nan}), record(5, {"v": 1}, "x" * 513), record(6, {"v": 1}, b"\xff"),
        record(7, b'{"v": 1}'),
    ]  # fmt: skip
    refused = Writer(server).write(several)
    assert [offset for offset, _ in refused] == [0, 1, 2, 3, 4, 5, 6]
    assert "take a field of a struct with the transform ExtractField$Key" in refused[3][1]
    assert server.documents("t") == {"a": {"v": 1}}
    assert Writer(server, **{"drop.invalid.message": "true"}).write(several[:1]) == []


def test_types_are_written_as_mappings_understand_them(server: BulkServer) -> None:
    noon = dt.datetime(2024, 2, 29, 13, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    value = {
        "at": noon,
        "day": noon.date(),
        "raw": b"\x00",
        "n": Decimal("1.5"),
        "m": Decimal("1.000000000000000000001"),
    }
    Writer(server).write([record(0, {**value, "sub": [{"x": None}], "text": "š"})])
    assert server.documents("t")["a"] == {
        "at": "2024-02-29T12:00:00.000Z", "day": "2024-02-29", "raw": "AA==", "n": 1.5,
        "m": "1.000000000000000000001", "sub": [{"x": None}], "text": "š",
    }  # fmt: skip


def test_a_bulk_that_is_too_large_is_cut_and_one_document_that_is_is_refused(server: BulkServer) -> None:
    server.most_bytes = 400
    several = [record(offset, {"v": "x" * (500 if offset == 2 else 50)}, f"k{offset}") for offset in range(6)]
    ((offset, told),) = Writer(server).write(several)
    assert offset == 2
    assert "bytes are too large for the server" in told
    assert list(server.documents("t")) == ["k0", "k1", "k3", "k4", "k5"]
    before = len(server.requests)
    Writer(server, **{"bulk.size.bytes": "300", "connection.compression": "true"}).write(several[3:])
    assert len(server.requests) - before == 2


def test_a_login_is_sent_and_a_wrong_one_told(server: BulkServer) -> None:
    server.login = basic("elastic", "secret")["Authorization"]
    with pytest.raises(CallRefused, match=r"the bulk was refused: 401 .* \(check the name and the password"):
        Writer(server).write([record(0, {"v": 1})])
    Writer(server, **{"connection.username": "elastic", "connection.password": "secret"}).write([record(0, {"v": 1})])
    assert list(server.documents("t")) == ["a"]


def test_what_is_not_a_document_s_fault_ends_the_task(server: BulkServer) -> None:
    mapping = {"topic.to.external.resource.mapping": "t:Capital"}
    with pytest.raises(CallRefused, match="Invalid index name"):
        Writer(server, **mapping).write([record(0, {"v": 1})])
    server.faults = [Fault((200, {}, b"<html>a portal</html>"))]
    with pytest.raises(CallRefused, match="is this the right address"):
        Writer(server).write([record(0, {"v": 1})])
    server.faults = [Fault((200, {}, b'{"items": []}'))]
    with pytest.raises(CallRefused, match="a bulk of 1 documents tells of 0"):
        Writer(server).write([record(0, {"v": 1})])


def test_versions_can_come_from_a_header(server: BulkServer) -> None:
    config = {"external.version.header": "v"}
    Writer(server, **config).write([record(9, {"v": 1}, headers=[("v", b"20")])])
    Writer(server, **config).write([record(10, {"v": 2}, headers=[("v", b"19")])])
    assert server.documents("t") == {"a": {"v": 1}}
    assert [offset for offset, _ in Writer(server, **config).write([record(11, {"v": 3})])] == [11]


def test_the_next_address_is_tried(server: BulkServer) -> None:
    writer = Writer(server, **{"connection.url": f"127.0.0.1:1,{server.url}"})
    writer.write([record(0, {"v": 1})])
    assert list(server.documents("t")) == ["a"]


def test_settings_that_cannot_be_exact_are_refused() -> None:
    for config, told in (
        ({"use.autogenerated.ids": "true"}, "repetitions after a crash would double"),
        ({**DELETING, "key.ignore": "true"}, "documents are found by their keys"),
        ({"write.method": "upsert", "key.ignore": "true"}, "no two records have one document"),
        ({"write.method": "append"}, "String must be one of: insert, upsert"),
        ({"topic.to.external.resource.mapping": "t"}, "t is no topic:index"),
    ):
        assert told in problems_of(ElasticsearchSink, {"connection.url": "http://x", **config})


def test_a_refused_record_ends_the_task_where_nothing_is_tolerated(server: BulkServer) -> None:
    given = {"connection.url": server.url}
    sink = ElasticsearchSink({**given, **ElasticsearchSink.CONFIG.checked(given)})
    with pytest.raises(RecordRefused, match="is a tombstone"):
        sink.write(iter([record(0, None)]))
