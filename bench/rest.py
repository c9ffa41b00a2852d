"""Records per second through the REST proxy, as a share of librdkafka's on the same broker.

    python -m bench.rest [--seconds 8]

Broker and proxy are processes of their own. v2 is asked with 500 records a request on four connections; v3 gets one
stream on one connection; consuming is one instance of v2, and one reader without a consumer.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from confluent_kafka import Consumer, Producer

from moldau.testing import Broker

VALUE = b"v" * 100
BATCH = 500
CONNECTIONS = 4
JSON = {"Content-Type": "application/json"}
V2 = {"Content-Type": "application/vnd.kafka.v2+json"}
BINARY = "application/vnd.kafka.binary.v2+json"


class Client:
    def __init__(self, url: str) -> None:
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
        self.connection.request(method, path, body, headers or {})
        answer = self.connection.getresponse()
        content = answer.read()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
        return content


def rate(count: int, begun: float) -> float:
    return count / (time.perf_counter() - begun)


def bare_produce(address: str, topic: str, seconds: float) -> float:
    producer = Producer({"bootstrap.servers": address, "linger.ms": 5})
    count, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        for _ in range(BATCH):
            while True:
                try:
                    producer.produce(topic, VALUE)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
        count += BATCH
    producer.flush()
    return rate(count, begun)


def bare_consume(address: str, topic: str, wanted: int) -> float:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "bare", "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    count = len(consumer.consume(1, 30))
    begun = time.perf_counter()
    while count < wanted:
        count += len(consumer.consume(BATCH, 1))
    found = rate(count, begun)
    consumer.close()
    return found


def v2_produce(url: str, topic: str, seconds: float) -> float:
    body = json.dumps({"records": [{"value": base64.b64encode(VALUE).decode()}] * BATCH}).encode()
    counts = [0] * CONNECTIONS
    begun = time.perf_counter()

    def send(number: int) -> None:
        client = Client(url)
        while time.perf_counter() - begun < seconds:
            client.ask("POST", f"/topics/{topic}", body, {"Content-Type": BINARY})
            counts[number] += BATCH

    threads = [threading.Thread(target=send, args=(number,)) for number in range(CONNECTIONS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return rate(sum(counts), begun)


def v3_stream(url: str, cluster: str, topic: str, count: int) -> float:
    line = json.dumps({"value": {"type": "BINARY", "data": base64.b64encode(VALUE).decode()}}).encode()
    begun = time.perf_counter()
    answers = Client(url).ask("POST", f"/v3/clusters/{cluster}/topics/{topic}/records", line * count, JSON)
    if answers.count(b'"error_code":200') != count:
        raise RuntimeError("not every record was stored")
    return rate(count, begun)


def v2_consume(url: str, topic: str, wanted: int) -> float:
    client = Client(url)
    config = json.dumps({"format": "binary", "auto.offset.reset": "earliest", "fetch.min.bytes": 1}).encode()
    instance = urlsplit(json.loads(client.ask("POST", "/consumers/bench", config, V2))["base_uri"]).path
    client.ask("POST", f"{instance}/subscription", json.dumps({"topics": [topic]}).encode(), V2)
    count = 0
    while not count:
        count = len(json.loads(client.ask("GET", f"{instance}/records?max_bytes=1000", None, {"Accept": BINARY})))
    begun = time.perf_counter()
    while count < wanted:
        found = client.ask("GET", f"{instance}/records?max_bytes=1000000", None, {"Accept": BINARY})
        count += found.count(b'"offset"')
    found_rate = rate(count, begun)
    client.ask("DELETE", instance)
    return found_rate


def stateless_read(url: str, cluster: str, topic: str, wanted: int) -> float:
    client = Client(url)
    path = f"/v3/clusters/{cluster}/topics/{topic}/partitions/0/records"
    count, begun = 0, time.perf_counter()
    while count < wanted:
        query = f"?offset={count}&limit=10000&max_bytes=4000000&value_format=binary"
        count = json.loads(client.ask("GET", path + query))["next_offset"]
    return rate(count, begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each producing case")
    seconds = parser.parse_args().seconds
    with Broker() as kafka, tempfile.TemporaryFile() as log:
        command = [sys.executable, "-m", "moldau", "rest", "start", "--bootstrap-server", kafka.bootstrap]
        proxy = subprocess.Popen(
            [*command, "--listen", "http://127.0.0.1:0", "--set", "max.request.bytes=100000000"],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        try:
            assert proxy.stdout is not None
            url = proxy.stdout.readline().split()[-1]
            measure(kafka.bootstrap, url, kafka.topic("bench"), seconds)
        finally:
            proxy.terminate()
            proxy.wait()


def measure(address: str, url: str, topic: str, seconds: float) -> None:
    cluster = json.loads(Client(url).ask("GET", "/v3/clusters"))["data"][0]["cluster_id"]
    bare = bare_produce(address, topic, seconds)
    show("produce, librdkafka", bare, bare)
    show("produce, v2 binary, 4 connections", v2_produce(url, topic, seconds), bare)
    show("produce, v3, one stream", v3_stream(url, cluster, topic, int(seconds * 5000)), bare)
    read = bare_consume(address, topic, 200_000)
    show("consume, librdkafka", read, read)
    cases: dict[str, Callable[[], float]] = {
        "consume, v2 binary, one instance": lambda: v2_consume(url, topic, 100_000),
        "read without a consumer, binary": lambda: stateless_read(url, cluster, topic, 100_000),
    }
    for name, case in cases.items():
        show(name, case(), read)


def show(name: str, found: float, whole: float) -> None:
    print(f"{name:36} {found:12,.0f} records/s {found / whole:8.1%}", flush=True)


if __name__ == "__main__":
    main()
