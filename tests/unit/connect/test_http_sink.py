"""The HTTP sink: addresses, bodies, batches, repetitions, answers that say no."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from moldau.connect.connectors.http_calls import Caller, CallRefused, ServerAway, basic
from moldau.connect.connectors.http_sink import HttpSink
from moldau.connect.interface import SinkRecord
from tests.support.bulk_server import BulkServer, Fault, busy
from tests.support.connect_settings import problems_of
from tests.support.deaths import Deaths

BY_KEY = {"request.method": "PUT", "http.api.url": "/things/${topic}/${key}"}


@pytest.fixture
def server() -> Iterator[BulkServer]:
    with BulkServer() as running:
        yield running


def record(offset: int, value: Any, key: Any = "a", topic: str = "t", partition: int = 0) -> SinkRecord:
    return SinkRecord(topic, partition, offset, None, key, value)


def write(
    server: BulkServer, records: Sequence[SinkRecord], pauses: list[float] | None = None, **config: str
) -> list[tuple[int, str]]:
    """What was refused, as the worker has it with errors.tolerance=all; nobody waits."""
    given = {"retry.backoff.ms": "1000", **config, "http.api.url": server.url + config.get("http.api.url", "/in")}
    sink = HttpSink({**given, **HttpSink.CONFIG.checked(given)})
    refused: list[tuple[int, str]] = []
    sink.refuse = lambda record, problem: refused.append((record.offset, str(problem)))  # type: ignore[method-assign]
    caller = sink._open()
    caller.sleep, caller.chance = (pauses if pauses is not None else []).append, lambda: 0.0
    try:
        sink.write(iter(records))
    finally:
        sink.close()
    return refused


def test_twenty_deaths_in_a_row_leave_the_last_of_each_key(server: BulkServer, monkeypatch: pytest.MonkeyPatch) -> None:
    deaths = Deaths(most=16)
    monkeypatch.setattr(Caller, "call", deaths.around(Caller.call))

    def several(first: int, last: int) -> list[SinkRecord]:
        return [record(at, {"v": at}, f"k{at % 5}") for at in range(first, last)]

    end = deaths.survived(lambda first, last: write(server, several(first, last), **BY_KEY))
    wanted = {f"PUT /things/t/{each.key}": b'{"v":%d}' % each.offset for each in several(0, end)}
    assert server.received == wanted


def bodies(server: BulkServer) -> list[str]:
    return [each.body.decode() for each in server.requests]


def test_a_record_is_a_request_that_says_which_one_it_is(server: BulkServer) -> None:
    write(server, [record(0, "one"), record(1, {"v": 1, "at": dt.date(2024, 2, 29)}), record(2, b"raw")])
    assert bodies(server) == ["one", '{"v":1,"at":"2024-02-29"}', "raw"]
    assert [each.headers["idempotency-key"] for each in server.requests] == ["t+0+0", "t+0+1", "t+0+2"]
    assert {(each.method, each.path) for each in server.requests} == {("POST", "/in")}


def test_records_of_keys_are_put_and_deleted_and_a_repetition_changes_nothing(server: BulkServer) -> None:
    several = [
        record(0, {"v": 1}),
        record(1, {"v": 2}, "b/ä ?${offset}"),
        record(2, {"v": 3}),
        record(3, None, "c"),
        record(4, {"v": 4}, 5),
    ]
    several += [record(5, None, 5), record(6, {"v": 6}, None)]
    wanted = {"PUT /things/t/a": b'{"v":3}', "PUT /things/t/b%2F%C3%A4%20%3F%24%7Boffset%7D": b'{"v":2}'}
    for _ in range(2):
        ((offset, told),) = write(server, several, **BY_KEY, **{"behavior.on.null.values": "delete"})
        assert offset == 6
        assert "the key is null" in told
        assert server.received == wanted


def test_batches_have_records_of_one_address_and_partition(server: BulkServer) -> None:
    config = {"batch.max.size": "3", "batch.json.as.array": "true", "request.body.format": "json"}
    several = [record(offset, offset) for offset in range(4)] + [record(0, "x", partition=1), record(1, [1], topic="u")]
    write(server, several, **config)
    assert bodies(server) == ["[0,1,2]", "[3]", '["x"]', "[[1]]"]
    assert [each.headers["idempotency-key"] for each in server.requests] == ["t+0+0-2", "t+0+3", "t+1+0", "u+0+1"]
    assert server.requests[0].headers["content-type"] == "application/json"
    server.requests.clear()
    lines = {"batch.max.size": "9", "batch.prefix": "<", "batch.suffix": ">", "batch.separator": r"\n"}
    write(
        server,
        [record(0, "a", "k"), record(1, "b", "k"), record(2, "c", "l")],
        **lines,
        **{"batch.key.pattern": "${key}"},
    )
    assert bodies(server) == ["<a\nb>", "<c>"]


def test_patterns_headers_and_login(server: BulkServer) -> None:
    config = {
        "regex.patterns": r"(\d+)~secret", "regex.replacements": r"<$1>~***", "headers": "X-One: 1|X-Two:b:c",
        "auth.type": "basic", "connection.user": "me", "connection.password": "pass",
    }  # fmt: skip
    write(server, [record(0, "12 secret")], **config)
    (request,) = server.requests
    assert request.body == b"<12> ***"
    assert (request.headers["x-one"], request.headers["x-two"]) == ("1", "b:c")
    assert request.headers["authorization"] == basic("me", "pass")["Authorization"]


def test_what_is_temporary_is_tried_again(server: BulkServer) -> None:
    pauses: list[float] = []
    server.faults = [busy(429, "3"), busy(503), Fault(cut="before"), Fault(cut="after"), Fault((500, {}, b"oops"))]
    write(server, [record(0, "one")], pauses)
    assert pauses == [3, 2, 4, 8, 16]
    assert server.received == {"POST /in": b"one"}
    server.faults = [busy(503)] * 3
    with pytest.raises(ServerAway, match="after 3 attempts"):
        write(server, [record(0, "one")], **{"max.retries": "2"})
    server.faults = [busy(503)] * 3
    with pytest.raises(ServerAway, match="after 3 attempts"):
        write(server, [record(0, "one")], **{"max.retries": "2", "behavior.on.error": "ignore"})


def test_a_no_to_records_refuses_them_and_any_other_no_ends_the_task(server: BulkServer) -> None:
    server.faults = [Fault((422, {}, b"no colour")), Fault(), Fault((413, {}, b"large"))]
    refused = write(server, [record(offset, "x") for offset in range(6)], **{"batch.max.size": "2"})
    assert [offset for offset, _ in refused] == [0, 1, 4, 5]
    assert refused[0][1] == f"t-0 at offset 0: POST {server.url}/in: 422 no colour"
    server.login = "somebody"
    with pytest.raises(CallRefused, match=r"401 .*check the name and the password"):
        write(server, [record(0, "one")])
    before = len(server.requests)
    assert write(server, [record(0, "one"), record(1, "two")], **{"behavior.on.error": "log"}) == []
    assert len(server.requests) - before == 2


def test_tombstones_are_ignored_or_refused(server: BulkServer) -> None:
    assert write(server, [record(0, None, None)]) == []
    assert [offset for offset, _ in write(server, [record(0, None)], **{"behavior.on.null.values": "fail"})] == [0]
    assert server.requests == []


def test_settings_that_make_no_sense_are_refused() -> None:
    for config, told in (
        ({"behavior.on.null.values": "delete"}, r"needs \$\{key\} in http.api.url"),
        ({"headers": "no colon"}, "no colon is no name:value"),
        ({"retry.on.status.codes": "many"}, "many is no range of statuses"),
        ({"regex.patterns": "a~b", "regex.replacements": "c"}, "regex.replacements has 1 parts, and regex.patterns 2"),
        ({"regex.patterns": "("}, "regex.replacements|regex.patterns"),
        ({"http.proxy.host": "proxy"}, "http.proxy.host is not known here"),
        ({"auth.type": "oauth2"}, "String must be one of: none, basic"),
    ):
        assert re.search(told, problems_of(HttpSink, {"http.api.url": "http://x", **config}))
    assert "begins with http:// or https://" in problems_of(HttpSink, {"http.api.url": "ftp://x"})
