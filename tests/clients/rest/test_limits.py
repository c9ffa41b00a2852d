"""What a proxy refuses because there is too much of it, over HTTP; and the line of each request in the access log.

Rates are so low, and what is taken so dear, that nothing depends on how fast the test is."""

from __future__ import annotations

import base64
import contextlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from moldau.web.passwords import hash_password
from tests.clients.rest.test_reading import Follower
from tests.support.process import BrokerProcess
from tests.support.rest import V2, Proxy, make_instance, under_way
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("rest")

SMALL = {
    "consumer.instances.max": "1",
    "tail.max": "1",
    "api.v3.produce.request.size.limit.max.bytes": "200",
    "tail.progress.ms": "200",
}


@pytest.fixture(scope="module")
def small(broker: BrokerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with Proxy(tmp_path_factory.mktemp("small"), broker.address, SMALL) as found:
        yield found


def made_topic(proxy: Proxy, name: str) -> str:
    assert proxy.ask("POST", f"{proxy.cluster}/topics", {"topic_name": name, "partitions_count": 1}).status == 201
    return f"{proxy.cluster}/topics/{name}"


def value(text: str) -> dict[str, Any]:
    return {"value": {"type": "STRING", "data": text}}


def stream(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(each).encode() for each in records)


def test_requests_beyond_the_rate_are_refused_in_each_version(broker: BrokerProcess, tmp_path: Path) -> None:
    settings = {
        "rate.limit.enable": "true",
        "rate.limit.permits.per.sec": "1",
        "rate.limit.default.cost": "1000000",
        "rate.limit.costs": "api.v3.clusters.*=0",
    }
    with Proxy(tmp_path, broker.address, settings) as proxy:
        assert proxy.ask("GET", "/topics", Accept=V2).status == 200
        for path in ("/topics", "/brokers", f"{proxy.cluster}/topics", f"{proxy.cluster}/consumer-groups"):
            refused = proxy.ask("GET", path)
            assert (refused.code, refused.headers["Retry-After"]) == (429, "1")
            assert "rate.limit.permits.per.sec" in refused.body["message"]
        for path in ("/v3/clusters", "/health", "/ready", "/metrics", "/openapi.json"):
            assert proxy.ask("GET", path, Accept="*/*").status == 200, "it costs nothing"


@pytest.mark.parametrize("limit", ["bytes", "requests"])
def test_records_beyond_the_rate_are_refused_one_by_one(
    broker: BrokerProcess, tmp_path: Path, name: str, limit: str
) -> None:
    produce = "api.v3.produce.rate.limit"
    settings = {f"{produce}.enabled": "true", f"{produce}.max.{limit}.per.sec": "1"}
    with Proxy(tmp_path, broker.address, settings) as proxy:
        path = f"{made_topic(proxy, name)}/records"
        codes = [each["error_code"] for each in proxy.lines(path, stream(*[value("x" * 1000)] * 500))]
        # Of the requests one comes in a second; those bytes last for a quarter of an hour.
        assert codes[0] == 200 and codes.count(429) >= (499 if limit == "bytes" else 1)
        assert set(codes) == {200, 429}


def test_a_record_beyond_its_limit_is_refused(small: Proxy, name: str) -> None:
    path = f"{made_topic(small, name)}/records"
    assert [each["error_code"] for each in small.lines(path, stream(value("x"), value("y" * 150)))] == [200, 200]
    told = small.lines(path, stream(value("x"), value("y" * 300)))
    assert [each["error_code"] for each in told] == [200, 400] and "larger than 200" in told[1]["message"]


@pytest.mark.parametrize("limit", ["streaming.answers.timeout.ms", "streaming.connection.max.duration.ms"])
def test_a_client_that_reads_no_answer_before_it_has_sent_all_does_not_stay(
    broker: BrokerProcess, tmp_path: Path, name: str, limit: str
) -> None:
    with Proxy(tmp_path, broker.address, {limit: "3000", "streaming.records.under.way": "1000"}) as proxy:
        url = urlsplit(f"{proxy.url}{made_topic(proxy, name)}/records")
        with socket.create_connection((url.hostname or "", url.port or 0), timeout=60) as client:
            head = f"POST {url.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
            records = stream(*[{"partition_id": 0, **value("x")}] * 1000)
            piece = b"%x\r\n%s\r\n" % (len(records), records)
            client.setblocking(False)
            unsent = piece

            def is_over_although_it_goes_on() -> bool:
                nonlocal unsent
                with contextlib.suppress(BlockingIOError, ConnectionError):
                    unsent = unsent[client.send(unsent) :] or piece
                return under_way(proxy) == 0

            wait_until(is_over_although_it_goes_on, "the stream is over", 60)


def test_a_stream_whose_time_is_over_is_told_so_and_closed(broker: BrokerProcess, tmp_path: Path, name: str) -> None:
    with Proxy(tmp_path, broker.address, {"streaming.connection.max.duration.ms": "500"}) as proxy:
        url = urlsplit(f"{proxy.url}{made_topic(proxy, name)}/records")
        with socket.create_connection((url.hostname or "", url.port or 0), timeout=60) as client:
            head = f"POST {url.path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            client.sendall(f"{head}Transfer-Encoding: chunked\r\n\r\n1\r\n{{\r\n".encode())
            with client.makefile("rb") as answer:
                assert b'"error_code":408' in answer.read()


def test_there_are_only_so_many_consumer_instances(small: Proxy, name: str) -> None:
    first = make_instance(small, name, {"name": "one"})
    refused = small.ask("POST", f"/consumers/{name}", {"name": "two"}, V2)
    assert (refused.code, refused.headers["Retry-After"]) == (429, "1")
    assert "consumer.instances.max" in refused.body["message"]
    assert small.ask("DELETE", first, None, V2).status == 204
    again = make_instance(small, name, {"name": "two"})
    assert small.ask("DELETE", again, None, V2).status == 204


def test_only_so_many_follow_a_topic(small: Proxy, name: str) -> None:
    path = f"{made_topic(small, name)}/records:tail"
    follower = Follower(small, path)
    follower.next("progress")
    refused = small.ask("GET", path, Accept="text/event-stream")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert "tail.max" in refused.body["message"]
    follower.close()
    wait_until(lambda: followed(small, path), "the place is free again")


def followed(proxy: Proxy, path: str) -> bool:
    follower = Follower(proxy, path)
    follower.close()
    return follower.answer.status == 200


def test_each_request_is_one_line_of_the_access_log(broker: BrokerProcess, tmp_path: Path) -> None:
    (tmp_path / "users").write_text(f"ann: {hash_password('secret', b'salt')},read\n")
    settings = {"authentication.method": "BASIC", "authentication.password.file": str(tmp_path / "users")}
    with Proxy(tmp_path, broker.address, settings) as proxy:
        login = {"Authorization": f"Basic {base64.b64encode(b'ann:secret').decode()}"}
        body = proxy.ask("GET", "/topics?x=%C3%BC", Accept=V2, **login).body
        assert proxy.ask("GET", "/topics").status == 401
        assert proxy.ask("GET", "/no/such", **login).status == 404
        assert (
            proxy.ask("POST", "/topics/t", {"records": []}, "application/vnd.kafka.json.v2+json", **login).status == 403
        )
    lines = [
        json.loads(line.partition(" moldau.access: ")[2]) for line in proxy.log().splitlines() if "access: " in line
    ]
    told = [(each["user"], each["method"], each["path"], each["query"], each["status"]) for each in lines]
    assert told == [
        ("ann", "GET", "/topics", "x=%C3%BC", 200),
        (None, "GET", "/topics", "", 401),
        (None, "GET", "/no/such", "", 404),
        ("ann", "POST", "/topics/t", "", 403),
    ]
    assert lines[0]["bytes"] == len(json.dumps(body, separators=(",", ":")))
    assert all(each["client"] == "127.0.0.1" and each["ms"] >= 0 and each["at"] > 1.7e9 for each in lines)
    assert "secret" not in proxy.log()
