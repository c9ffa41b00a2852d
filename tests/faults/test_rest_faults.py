"""The REST proxy when brokers go away and come back, and when it is killed or stopped in the middle of streams."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer

from tests.support.broker import Broker
from tests.support.rest import V2, Proxy, produce
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("rest")

RECORDS = 3000


def test_without_brokers_everything_is_refused_soon_and_comes_back(tmp_path: Path) -> None:
    """Hanging is a failure too: a request is given up after a minute."""
    with Broker(tmp_path / "broker") as broker, Proxy(tmp_path, broker.address, {"client.timeout.ms": "2000"}) as proxy:
        topics = f"{proxy.cluster}/topics"
        assert proxy.ask("POST", topics, {"topic_name": "t", "partitions_count": 1}).status == 201
        assert produce(proxy, "t", [1]).status == 200
        instance = proxy.ask("POST", "/consumers/g", {"format": "json", "auto.offset.reset": "earliest"}, V2)
        base = instance.body["base_uri"]
        proxy.ask("POST", f"{base}/subscription", {"topics": ["t"]}, V2)
        broker.kill()
        asked = (
            proxy.ask("GET", topics),
            proxy.ask("GET", f"{topics}/t"),
            proxy.ask("POST", topics, {"topic_name": "u"}),
            proxy.ask("GET", f"{topics}/-/configs"),
            proxy.ask("GET", f"{topics}/-/partitions/-/reassignment"),
            proxy.ask("GET", f"{proxy.cluster}/consumer-groups"),
            proxy.ask("GET", f"{topics}/t/partitions/0/records"),
            proxy.ask("GET", "/brokers"),
            proxy.ask("GET", "/topics"),
            produce(proxy, "new", [1]),
        )
        assert [answer.status >= 500 for answer in asked] == [True] * len(asked), asked
        assert proxy.lines(f"{topics}/t/records", b'{"value":{"type":"STRING","data":"x"}}')[0]["error_code"] == 50003
        told = produce(proxy, "t", [2])
        assert told.body["offsets"][0]["error_code"] == 50003
        wait_until(lambda: proxy.ask("GET", "/ready").status == 503, "it says that it is not ready")
        assert proxy.ask("GET", "/health").status == 200
        broker.start()
        wait_until(lambda: proxy.ask("GET", "/ready").status == 200, "the brokers are there again")
        wait_until(lambda: produce(proxy, "t", [3]).body["offsets"][0]["error_code"] is None, "records are stored")
        assert proxy.ask("GET", f"{topics}/t").status == 200
        read: list[Any] = []
        accept = "application/vnd.kafka.json.v2+json"
        wait_until(lambda: bool(read.extend(proxy.ask("GET", f"{base}/records", Accept=accept).body) or 3 in [
            each["value"] for each in read]), "the consumer reads again")  # fmt: skip


class Streaming:
    """Sends records on one connection and hears of them while it sends."""

    def __init__(self, proxy: Proxy, topic: str) -> None:
        self.answers: list[dict[str, Any]] = []
        self.path = f"{proxy.cluster}/topics/{topic}/records"
        self._connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
        self._connection.putrequest("POST", self.path)
        self._connection.putheader("Content-Type", "application/json")
        self._connection.putheader("Transfer-Encoding", "chunked")
        self._connection.endheaders()
        self._threads = [threading.Thread(target=self._send), threading.Thread(target=self._hear)]
        for thread in self._threads:
            thread.start()

    def _send(self) -> None:
        try:
            for number in range(RECORDS):
                text = json.dumps({"value": {"type": "STRING", "data": str(number)}}).encode()
                self._connection.send(b"%x\r\n%s\r\n" % (len(text), text))
            self._connection.send(b"0\r\n\r\n")
        except OSError:
            return

    def _hear(self) -> None:
        try:
            reader = self._connection.sock.makefile("rb")
            while line := reader.readline():
                if line.startswith(b"{") and line.endswith(b"\n"):
                    self.answers.append(json.loads(line))
        except (OSError, ValueError):
            return
        finally:
            reader.close()

    def end(self) -> None:
        for thread in self._threads:
            thread.join(60)
        self._connection.close()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path / "broker") as found:
        yield found


def values(broker: Broker, topic: str, through: int) -> dict[int, str]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": "check", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: dict[int, str] = {}
    while not found or max(found) < through:
        message = consumer.poll(30)
        assert message is not None, f"{topic} ends at {max(found, default=-1)}, before {through}"
        found[message.offset()] = message.value().decode()
    consumer.close()
    return found


def make(proxy: Proxy, topic: str) -> None:
    assert proxy.ask("POST", f"{proxy.cluster}/topics", {"topic_name": topic, "partitions_count": 1}).status == 201


def test_what_was_answered_is_stored_when_the_proxy_is_killed(tmp_path: Path, broker: Broker) -> None:
    with Proxy(tmp_path, broker.address) as proxy:
        for kill in range(3):
            topic = f"t{kill}"
            make(proxy, topic)
            streaming = Streaming(proxy, topic)
            wait_until(lambda streaming=streaming, kill=kill: len(streaming.answers) > 200 * (kill + 1), "answers come")  # type: ignore[misc]
            proxy.kill()
            streaming.end()
            proxy.start()
            assert {each["error_code"] for each in streaming.answers} == {200}
            offsets = [each["offset"] for each in streaming.answers]
            found = values(broker, topic, max(offsets))
            # One partition, one sender: records are answered in the order in which they were sent.
            assert [found[offset] for offset in offsets] == [str(number) for number in range(len(offsets))]


def test_a_stream_is_told_when_the_proxy_stops(tmp_path: Path, broker: Broker) -> None:
    with Proxy(tmp_path, broker.address) as proxy:
        make(proxy, "t")
        # It sends nothing more, and would wait for ever.
        connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
        connection.putrequest("POST", f"{proxy.cluster}/topics/t/records")
        connection.putheader("Content-Type", "application/json")
        connection.putheader("Transfer-Encoding", "chunked")
        connection.endheaders()
        text = b'{"value":{"type":"STRING","data":"x"}}'
        connection.send(b"%x\r\n%s\r\n" % (len(text), text))
        answer = connection.getresponse()
        assert json.loads(answer.readline())["error_code"] == 200
        following = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
        following.request("GET", f"{proxy.cluster}/topics/t/records:tail", headers={"Accept": "text/event-stream"})
        events = following.getresponse()
        assert events.readline() == b"retry: 2000\n"
        assert proxy.stop() == 0
        assert json.loads(answer.read().strip())["error_code"] == 503
        assert b"event: end" in events.read()
        for each in (answer, events, connection, following):
            each.close()
        proxy.start()
