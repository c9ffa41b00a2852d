"""What is ours beside v3: reading without a consumer, following a topic; and the service itself."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Producer
from google.protobuf.wrappers_pb2 import Int64Value

import moldau
from moldau.clients.protobuf import Protobuf
from moldau.clients.registered import Avro, JsonSchema
from moldau.clients.registry_serde import RegistrySerde
from tests.support.process import BrokerProcess
from tests.support.rest import V2, Proxy, b64, make_instance, produce, read_until

pytestmark = pytest.mark.xdist_group("rest")


def test_reading_without_a_consumer(proxy: Proxy, broker: BrokerProcess, topic: str) -> None:
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(5):
        producer.produce(topic, f'{{"n":{number}}}'.encode(), b"k", 0, timestamp=1_700_000_000_000 + number)
    producer.produce(topic, b"\xff\0", b"plain", 0, timestamp=1_700_000_001_000)
    producer.flush()
    path = f"{proxy.cluster}/topics/{topic}/partitions/0/records"
    page = proxy.ask("GET", f"{path}?limit=2").body
    assert [each["value"]["data"] for each in page["data"]] == [{"n": 0}, {"n": 1}]
    assert (page["beginning_offset"], page["end_offset"], page["next_offset"]) == (0, 6, 2)
    page = proxy.ask("GET", page["metadata"]["next"]).body
    assert [each["offset"] for each in page["data"]] == [2, 3]
    rest = proxy.ask("GET", page["metadata"]["next"].replace("limit=2", "limit=9")).body
    assert rest["data"][-1]["value"] == {"type": "BINARY", "data": b64(b"\xff\0"), "size": 2}
    assert rest["data"][-1]["key"] == {"type": "STRING", "data": "plain", "size": 5}
    assert proxy.ask("GET", rest["metadata"]["next"]).body["data"] == []
    assert [each["offset"] for each in proxy.ask("GET", f"{path}?offset=-1").body["data"]] == [5]
    assert [each["offset"] for each in proxy.ask("GET", f"{path}?timestamp=1700000000003&limit=1").body["data"]] == [3]
    at = "2023-11-14T22:13:20.004Z"
    assert [each["offset"] for each in proxy.ask("GET", f"{path}?timestamp={at}&limit=1").body["data"]] == [4]
    forced = proxy.ask("GET", f"{path}?offset=5&value_format=json").body["data"][0]["value"]
    assert forced["type"] == "BINARY" and "not JSON" in forced["error"]
    assert proxy.ask("GET", f"{path}?offset=7").code == 40002
    assert proxy.ask("GET", f"{path}?limit=0").code == 400
    assert proxy.ask("GET", f"{path}?key_format=xml").code == 400
    assert proxy.ask("GET", f"{proxy.cluster}/topics/{topic}/partitions/9/records").code == 40402


@pytest.mark.parametrize(
    ("serde", "kind", "data"),
    [
        (Avro({"type": "record", "name": "Tea", "fields": [{"name": "leaves", "type": "int"}]}), "AVRO", {"leaves": 5}),
        (JsonSchema({"type": "object"}), "JSONSCHEMA", {"leaves": 5}),
        (Protobuf(), "PROTOBUF", {"value": "5"}),
    ],
)
def test_values_whose_schema_is_named_in_a_header(
    proxy: Proxy, broker: BrokerProcess, topic: str, serde: RegistrySerde, kind: str, data: Any
) -> None:
    settings = {"bootstrap.servers": broker.address, "schema.registry.url": proxy.urls[0]}
    with moldau.Producer(settings, value_serializer=serde, schema_id_serializer="header") as producer:
        producer.send(topic, Int64Value(value=5) if kind == "PROTOBUF" else data, partition=0)
        producer.send(topic, None, partition=0)
    read = proxy.ask("GET", f"{proxy.cluster}/topics/{topic}/partitions/0/records").body["data"]
    assert (read[0]["value"]["type"], read[0]["value"]["data"], read[1]["value"]) == (kind, data, None)
    assert len(read[0]["value"]["schema_guid"]) == 36
    name = kind.lower()
    instance = make_instance(proxy, topic, {"format": name, "auto.offset.reset": "earliest"})
    proxy.ask("POST", f"{instance}/subscription", {"topics": [topic]}, V2)
    assert [each["value"] for each in read_until(proxy, instance, name, 2)] == [data, None]
    assert proxy.ask("DELETE", instance, None, V2).status == 204


class Follower:
    def __init__(self, proxy: Proxy, path: str, **headers: str) -> None:
        self._connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
        given = {"Accept": "text/event-stream", **{name.replace("_", "-"): each for name, each in headers.items()}}
        self._connection.request("GET", path, headers=given)
        self.answer = self._connection.getresponse()

    def next(self, kind: str) -> tuple[str, Any]:
        """The id and the data of the next event of a kind."""
        while True:
            fields = {}
            while line := self.answer.readline().decode().strip():
                field, _, value = line.partition(": ")
                fields[field] = value
            if not fields:
                raise AssertionError("the stream ended")
            if fields.get("event") == kind:
                return fields.get("id", ""), json.loads(fields["data"])

    def close(self) -> None:
        self.answer.close()
        self._connection.close()


def test_following_a_topic_and_coming_again(proxy: Proxy, topic: str) -> None:
    produce(proxy, topic, [{"n": number} for number in range(3)], partition=0)
    path = f"{proxy.cluster}/topics/{topic}/records:tail"
    follower = Follower(proxy, f"{path}?from=beginning")
    assert follower.answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert [follower.next("record")[1]["value"]["data"]["n"] for _ in range(3)] == [0, 1, 2]
    produce(proxy, topic, [{"n": 3}], partition=1)
    last, record = follower.next("record")
    assert (record["value"]["data"], record["topic_name"], last) == ({"n": 3}, topic, "0:3,1:1")
    progress = follower.next("progress")[1]
    assert progress["partitions"][0] == {"partition_id": 0, "position": 3, "end_offset": 3}
    assert (progress["scanned"], progress["matched"]) == (4, 4)
    follower.close()
    produce(proxy, topic, [{"n": 4}, {"n": 5}], partition=0)
    again = Follower(proxy, f"{path}?filter=value.data.n%20%3E%20%604%60", Last_Event_ID=last)
    assert again.next("record")[1]["value"]["data"] == {"n": 5}
    again.close()
    ending = Follower(proxy, f"{path}?from=beginning&limit=2&partition=0")
    assert [ending.next("record")[1]["offset"] for _ in range(2)] == [0, 1]
    assert ending.next("end")[1] == {"reason": "limit"}
    ending.close()
    assert proxy.ask("GET", f"{path}?filter=%5B", Accept="text/event-stream").code == 400
    assert proxy.ask("GET", f"{path}?partition=9", Accept="text/event-stream").code == 40402
    assert proxy.ask("GET", f"{path}", Accept="text/event-stream", Last_Event_ID="x").code == 400
    assert proxy.ask("GET", path, Accept="application/json").status == 406


def test_the_service_describes_itself(proxy: Proxy) -> None:
    described = proxy.ask("GET", "/openapi.json").body
    assert "/v3/clusters/{cluster_id}/topics/{topic_name}/records" in described["paths"]
    assert "records:tail" in str(proxy.ask("GET", "/docs", Accept="text/html").body)
    assert proxy.ask("GET", "/ready").body == {"status": "UP"}
    assert "moldau_rest" in str(proxy.ask("GET", "/metrics", Accept="text/plain").body)


def test_endpoints_can_be_switched_off(broker: BrokerProcess, tmp_path: Path) -> None:
    settings = {"api.v2.enable": "false", "api.endpoints.blocklist": "api.v3.acls.*,api.v3.topics.delete"}
    with Proxy(tmp_path, broker.address, settings) as proxy:
        assert proxy.ask("GET", "/topics").status == 404
        assert proxy.ask("GET", f"{proxy.cluster}/acls").status == 404
        assert proxy.ask("DELETE", f"{proxy.cluster}/topics/none").status == 405
        assert proxy.ask("GET", f"{proxy.cluster}/topics").status == 200
        # Without a registry, schemas have a clear refusal.
        told = proxy.lines(f"{proxy.cluster}/topics/t/records", b'{"value":{"data":1}}')
        assert told[0]["error_code"] == 42207
