"""v3 over HTTP: producing one record, streams and batches, with and without schemas."""

from __future__ import annotations

import http.client
import json
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.support.process import BrokerProcess
from tests.support.rest import V2, Proxy, b64, make_instance, read_until, stored

pytestmark = pytest.mark.xdist_group("rest")

USER = '{"type":"record","name":"User","fields":[{"name":"name","type":"string"},{"name":"age","type":["null","int"]}]}'


def test_one_record_arrives_as_it_was_sent(proxy: Proxy, broker: BrokerProcess, topic: str) -> None:
    record = {
        "partition_id": 1,
        "headers": [{"name": "h", "value": b64(b"\0x")}, {"name": "h", "value": None}],
        "key": {"type": "STRING", "data": "ключ"},
        "value": {"type": "JSON", "data": {"a": [1, None]}},
        "timestamp": "2026-01-31T12:00:00.123Z",
    }
    answer = proxy.ask("POST", f"{proxy.cluster}/topics/{topic}/records", record)
    assert answer.status == 200 and answer.body["error_code"] == 200
    assert (answer.body["partition_id"], answer.body["offset"]) == (1, 0)
    assert answer.body["timestamp"] == record["timestamp"]
    assert answer.body["value"] == {"type": "JSON", "size": 14}
    (message,) = stored(broker, topic, 1)
    assert (message.key(), message.value()) == ("ключ".encode(), b'{"a":[1,null]}')
    assert message.headers() == [("h", b"\0x"), ("h", None)]
    assert message.timestamp()[1] == 1769860800123


def test_a_stream_is_answered_in_order_and_errors_stand_alone(proxy: Proxy, broker: BrokerProcess, topic: str) -> None:
    path = f"{proxy.cluster}/topics/{topic}/records"
    good = [{"partition_id": 0, "value": {"type": "STRING", "data": f"{number}"}} for number in range(500)]
    bad = {"value": {"type": "BINARY", "data": "?"}}
    body = b" ".join(json.dumps(each).encode() for each in [*good[:250], bad, *good[250:], {"partition_id": 9}])
    answers = proxy.lines(path, body)
    codes = [each["error_code"] for each in answers]
    assert codes == [200] * 250 + [400] + [200] * 250 + [40402]
    assert [each["offset"] for each in answers if each["error_code"] == 200] == list(range(500))
    assert [message.value() for message in stored(broker, topic, 500)] == [f"{n}".encode() for n in range(500)]
    broken = proxy.lines(path, b'{"value":{"type":"STRING","data":"x"}}{"value":nonsense}{"value":{}}')
    assert [each["error_code"] for each in broken] == [200, 400]
    assert proxy.lines(path, b"[1]")[0]["error_code"] == 400
    assert proxy.lines(path, b'{"a')[0]["error_code"] == 400
    assert proxy.ask("POST", path, b"").code == 42206
    assert proxy.lines(f"{proxy.cluster}/topics/no%20name/records", b"{}")[0]["error_code"] == 40002


def test_answers_come_while_the_request_goes_on(proxy: Proxy, topic: str) -> None:
    """Each record is sent after the answer to the one before."""
    connection = http.client.HTTPConnection(urlsplit(proxy.url).netloc, timeout=60)
    connection.putrequest("POST", f"{proxy.cluster}/topics/{topic}/records")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Transfer-Encoding", "chunked")
    connection.endheaders()
    reader = connection.sock.makefile("rb")
    seen = []
    for number in range(20):
        text = json.dumps(
            {"partition_id": 0, "value": {"type": "JSON", "data": "ä" * number * 1000}}, ensure_ascii=False
        )
        half = len(text.encode()) // 2
        for piece in (text.encode()[:half], text.encode()[half:]):
            connection.send(b"%x\r\n%s\r\n" % (len(piece), piece))
        while (line := reader.readline()) and not line.startswith(b"{"):
            pass
        seen.append(json.loads(line)["offset"])
    connection.send(b"0\r\n\r\n")
    assert seen == list(range(20))
    connection.close()


def test_batches_say_what_became_of_each(proxy: Proxy, topic: str) -> None:
    path = f"{proxy.cluster}/topics/{topic}/records:batch"
    entries = [{"id": "a", "value": {"type": "STRING", "data": "x"}}, {"id": "b", "partition_id": 9}]
    answer = proxy.ask("POST", path, {"entries": entries})
    assert answer.status == 207
    assert [each["id"] for each in answer.body["successes"]] == ["a"]
    assert [(each["id"], each["error_code"]) for each in answer.body["failures"]] == [("b", 40402)]
    for wrong in ([], [{"id": "a"}, {"id": "a"}], [{"id": ""}], [{"id": str(n)} for n in range(11)], [{}]):
        assert proxy.ask("POST", path, {"entries": wrong}).code == 42208


@pytest.mark.parametrize(
    ("kind", "schema", "data"),
    [
        ("AVRO", USER, {"name": "ann", "age": {"int": 3}}),
        ("JSONSCHEMA", '{"type":"object","properties":{"n":{"type":"integer"}}}', {"n": 5}),
        (
            "PROTOBUF",
            'syntax = "proto3"; message M { string first_name = 1; int32 n = 2; }',
            {"firstName": "a", "n": 2},
        ),
    ],
)
def test_records_with_schemas(proxy: Proxy, topic: str, kind: str, schema: str, data: dict[str, Any]) -> None:
    """RST-03: in Avro, and in the others that have schemas."""
    path = f"{proxy.cluster}/topics/{topic}/records"
    by_text = proxy.ask("POST", path, {"partition_id": 0, "value": {"type": kind, "schema": schema, "data": data}})
    assert by_text.body["error_code"] == 200, by_text
    about = by_text.body["value"]
    assert (about["type"], about["subject"], about["schema_version"]) == (kind, f"{topic}-value", 1)
    for named in ({}, {"schema_id": about["schema_id"]}, {"schema_version": 1}, {"subject": f"{topic}-value"}):
        again = proxy.ask("POST", path, {"partition_id": 0, "value": {**named, "data": data}})
        assert again.body["value"] == about, named
    wrong = proxy.ask("POST", path, {"value": {"data": {"n": "text", "name": 7}}})
    assert wrong.body["error_code"] == 400, wrong
    assert proxy.ask("POST", path, {"value": {"schema_id": 99999, "data": 1}}).body["error_code"] == 42207
    read = proxy.ask("GET", f"{proxy.cluster}/topics/{topic}/partitions/0/records").body["data"]
    assert [each["value"]["data"] for each in read] == [data] * 5
    assert read[0]["value"]["type"] == kind
    # v2 sees the same.
    name = kind.lower()
    instance = make_instance(proxy, topic, {"format": name, "auto.offset.reset": "earliest"})
    proxy.ask("POST", f"{instance}/subscription", {"topics": [topic]}, V2)
    assert [each["value"] for each in read_until(proxy, instance, name, 5)] == [data] * 5
    body = {"value_schema": schema, "records": [{"value": data, "partition": 1}]}
    sent = proxy.ask("POST", f"/topics/{topic}", body, f"application/vnd.kafka.{name}.v2+json")
    assert (sent.status, sent.body["value_schema_id"]) == (200, about["schema_id"])
    by_id = {"value_schema_id": about["schema_id"], "records": [{"value": data, "partition": 1}]}
    assert proxy.ask("POST", f"/topics/{topic}", by_id, f"application/vnd.kafka.{name}.v2+json").status == 200
    without = {"records": [{"value": data}]}
    assert proxy.ask("POST", f"/topics/{topic}", without, f"application/vnd.kafka.{name}.v2+json").code == 42202
    keyed = {"value_schema": schema, "records": [{"key": data, "value": data}]}
    assert proxy.ask("POST", f"/topics/{topic}", keyed, f"application/vnd.kafka.{name}.v2+json").code == 42201
    unfit = {"value_schema": schema, "records": [{"value": {"n": "text", "name": 7}}]}
    assert proxy.ask("POST", f"/topics/{topic}", unfit, f"application/vnd.kafka.{name}.v2+json").code == 42203
    other = "jsonschema" if name == "avro" else "avro"
    assert proxy.ask("POST", f"/topics/{topic}", by_id, f"application/vnd.kafka.{other}.v2+json").code == 42205


def test_a_pattern_that_would_not_end_costs_its_own_record_alone(broker: BrokerProcess, tmp_path: Path) -> None:
    settings = {
        "registry.listeners": "http://127.0.0.1:0",
        "rest.listeners": "http://127.0.0.1:0",
        "kafkastore.topic": "of-patterns",
        "schema.registry.group.id": "of-patterns",
        "schema.timeout.ms": "2000",
    }
    dialect = "https://json-schema.org/draft/2020-12/schema"
    slow = {"$schema": dialect, "patternProperties": {"^(a+)+$": True}, "unevaluatedProperties": False}
    with Proxy(tmp_path, broker.address, settings, ("services", "start")) as proxy:
        path = f"{proxy.cluster}/topics"
        assert proxy.ask("POST", path, {"topic_name": "patterns"}).status == 201
        value = {"type": "JSONSCHEMA", "schema": json.dumps(slow), "data": {"a" * 40 + "!": 1}}
        told = proxy.ask("POST", f"{path}/patterns/records", {"value": value}).body
        assert told["error_code"] == 400 and "took longer than 2 seconds" in told["message"]
        good = proxy.ask("POST", f"{path}/patterns/records", {"value": {**value, "data": {"aa": 1}}}).body
        assert good["error_code"] == 200
