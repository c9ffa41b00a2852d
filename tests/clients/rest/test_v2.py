"""v2 over HTTP: topics, producing, consumer instances; and v1 as the course prints it."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from tests.support.process import BrokerProcess
from tests.support.rest import V2, Proxy, b64, make_instance, produce, read_until
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("rest")
QUICK_EXPIRY = {"consumer.instance.timeout.ms": "500"}


def test_topics_of_v2(proxy: Proxy, topic: str) -> None:
    """AD-10, AD-11."""
    listed = proxy.ask("GET", "/topics", Accept="application/vnd.kafka.v2+json")
    assert topic in listed.body and listed.headers["content-type"] == "application/vnd.kafka.v2+json"
    assert proxy.ask("GET", "/topics", Accept="application/vnd.kafka.v3+json").status == 406
    found = proxy.ask("GET", f"/topics/{topic}").body
    assert found["configs"]["cleanup.policy"] == "delete"
    one = {"partition": 0, "leader": 1, "replicas": [{"broker": 1, "leader": True, "in_sync": True}]}
    assert found["partitions"][0] == one
    assert proxy.ask("GET", f"/topics/{topic}/partitions").body == found["partitions"]
    assert proxy.ask("GET", f"/topics/{topic}/partitions/0").body == one
    assert proxy.ask("GET", "/topics/none").code == 40401
    assert proxy.ask("GET", f"/topics/{topic}/partitions/7").code == 40402
    assert proxy.ask("GET", "/topics/none/partitions/0").code == 40401
    assert produce(proxy, topic, [1, 2], partition=1).body["offsets"][1] == {
        "partition": 1, "offset": 1, "error_code": None, "error": None,
    }  # fmt: skip
    assert proxy.ask("GET", f"/topics/{topic}/partitions/1/offsets").body == {"beginning_offset": 0, "end_offset": 2}
    assert 1 in proxy.ask("GET", "/brokers").body["brokers"]


def test_producing_of_v2_refuses_what_is_wrong(proxy: Proxy, topic: str) -> None:
    """RST-03: in base64."""
    binary = "application/vnd.kafka.binary.v2+json"
    assert proxy.ask("POST", f"/topics/{topic}", {"records": [{"value": "?"}]}, binary).code == 400
    assert proxy.ask("POST", f"/topics/{topic}", {"records": []}, binary).code == 422
    assert proxy.ask("POST", f"/topics/{topic}", {}, binary).code == 422
    assert proxy.ask("POST", f"/topics/{topic}", b"{", binary).code == 400
    assert proxy.ask("POST", f"/topics/{topic}", {"records": [{"value": ""}]}, "text/plain").code == 415
    assert proxy.ask("POST", f"/topics/{topic}", {"records": [{"value": "", "partition": 5}]}, binary).code == 40402
    assert proxy.ask("POST", f"/topics/{topic}/partitions/5", {"records": [{"value": ""}]}, binary).code == 40402
    assert proxy.ask("POST", "/topics/no%20name", {"records": [{"value": ""}]}, binary).code == 40401
    sent = proxy.ask("POST", f"/topics/{topic}/partitions/0", {"records": [{"key": None, "value": b64(b"v")}]}, binary)
    assert sent.body == {
        "offsets": [{"partition": 0, "offset": 0, "error_code": None, "error": None}],
        "key_schema_id": None,
        "value_schema_id": None,
    }


@pytest.mark.parametrize("field", ["name", "id"])
def test_half_a_character_names_nothing(proxy: Proxy, topic: str, field: str) -> None:
    before = instances(proxy)
    assert proxy.ask("POST", f"/consumers/{topic}", {field: "a\ud800"}, V2).code == 400
    assert instances(proxy) == before
    assert proxy.ask("POST", f"{proxy.cluster}/topics", {"topic_name": "a\ud800"}).code == 400


def instances(proxy: Proxy) -> list[str]:
    text = proxy.ask("GET", "/metrics", Accept="text/plain").body
    found = [line for line in text.splitlines() if "consumers" in line.lower() and "instances" in line.lower()]
    assert found
    return found


def test_an_instance_reads_seeks_and_commits(proxy: Proxy, topic: str) -> None:
    """RST-03: in JSON."""
    produce(proxy, topic, list(range(10)), partition=0, key="k")
    config = {"format": "json", "auto.offset.reset": "earliest", "auto.commit.enable": "false", "name": "one"}
    instance = make_instance(proxy, topic, config)
    assert instance.endswith(f"/consumers/{topic}/instances/one")
    assert proxy.ask("POST", f"/consumers/{topic}", config, V2).code == 40902
    assert proxy.ask("POST", f"{instance}/subscription", {"topics": [topic]}, V2).status == 204
    assert proxy.ask("GET", f"{instance}/subscription").body == {"topics": [topic]}
    first = read_until(proxy, instance, "json", 4, "?max_bytes=16")
    assert [each["value"] for each in first][:4] == [0, 1, 2, 3]
    assert first[0] == {"topic": topic, "key": "k", "value": 0, "partition": 0, "offset": 0}
    assigned = proxy.ask("GET", f"{instance}/assignments").body["partitions"]
    assert assigned == [{"topic": topic, "partition": number} for number in (0, 1)]
    # What was read ahead is not committed.
    assert proxy.ask("POST", f"{instance}/offsets", kind=V2).body == []
    place = {"topic": topic, "partition": 0}
    committed = proxy.ask("GET", f"{instance}/offsets", {"partitions": [place]}, V2)
    assert committed.body["offsets"] == [{**place, "offset": len(first), "metadata": ""}]
    given = {"offsets": [{**place, "offset": 2, "metadata": "note"}]}
    assert proxy.ask("POST", f"{instance}/offsets", given, V2).status == 200
    committed = proxy.ask("GET", f"{instance}/offsets", {"partitions": [place]}, V2)
    assert committed.body["offsets"] == [{**place, "offset": 3, "metadata": "note"}]
    assert proxy.ask("GET", f"{instance}/offsets").code == 40402
    assert proxy.ask("POST", f"{instance}/positions", {"offsets": [{**place, "offset": 7}]}, V2).status == 204
    assert [each["value"] for each in read_until(proxy, instance, "json", 3)] == [7, 8, 9]
    assert proxy.ask("POST", f"{instance}/positions/beginning", {"partitions": [place]}, V2).status == 204
    assert read_until(proxy, instance, "json", 10)[0]["value"] == 0
    assert proxy.ask("POST", f"{instance}/positions/end", {"partitions": [place]}, V2).status == 204
    assert proxy.ask("GET", f"{instance}/records?timeout=300", Accept="application/vnd.kafka.json.v2+json").body == []
    times = {"timestamps": [{**place, "timestamp": "2020-01-01T00:00:00Z"}]}
    assert proxy.ask("POST", f"{instance}/positions", times, V2).status == 204
    assert read_until(proxy, instance, "json", 10)[0]["value"] == 0
    other = {"topic": topic, "partition": 9}
    assert proxy.ask("POST", f"{instance}/positions/end", {"partitions": [other]}, V2).code == 40903
    assert proxy.ask("POST", f"{instance}/assignments", {"partitions": [place]}, V2).code == 40903
    assert proxy.ask("GET", f"{instance}/records", Accept="application/vnd.kafka.binary.v2+json").code == 40601
    assert proxy.ask("DELETE", f"{instance}/subscription").status == 204
    assert proxy.ask("POST", f"{instance}/assignments", {"partitions": [place]}, V2).status == 204
    assert proxy.ask("GET", f"{instance}/assignments").body == {"partitions": [place]}
    assert [each["value"] for each in read_until(proxy, instance, "json", 7)] == list(range(3, 10))
    assert proxy.ask("DELETE", instance).status == 204
    assert proxy.ask("GET", f"{instance}/records", Accept="application/vnd.kafka.json.v2+json").code == 40403


def test_automatic_commits_are_of_what_was_returned(proxy: Proxy, topic: str) -> None:
    """RST-06: what is deleted leaves the group: the next one reads on."""
    produce(proxy, topic, list(range(10)), partition=0)
    config = {"format": "json", "auto.offset.reset": "earliest"}
    for expected in (range(4), range(4, 8)):
        instance = make_instance(proxy, topic, config)
        proxy.ask("POST", f"{instance}/subscription", {"topic_pattern": f"{topic}.*"}, V2)
        assert [each["value"] for each in read_until(proxy, instance, "json", 4, "?max_bytes=4")] == list(expected)
        assert proxy.ask("DELETE", instance).status == 204


def test_a_record_that_its_format_cannot_read_is_told_after_those_before_it(proxy: Proxy, topic: str) -> None:
    produce(proxy, topic, [1], partition=0)
    binary = {"records": [{"value": b64(b"no json"), "partition": 0}]}
    proxy.ask("POST", f"/topics/{topic}", binary, "application/vnd.kafka.binary.v2+json")
    instance = make_instance(proxy, topic, {"format": "json", "auto.offset.reset": "earliest"})
    proxy.ask("POST", f"{instance}/subscription", {"topics": [topic]}, V2)
    assert [each["value"] for each in read_until(proxy, instance, "json", 1)] == [1]
    told = proxy.ask("GET", f"{instance}/records", Accept="application/vnd.kafka.json.v2+json")
    assert told.code == 40801 and f"{topic}-0 at offset 1" in told.body["message"]
    # What was told before it is committed, and nothing else.
    assert proxy.ask("DELETE", instance).status == 204
    instance = make_instance(proxy, topic, {"format": "json", "auto.offset.reset": "earliest"})
    proxy.ask("POST", f"{instance}/assignments", {"partitions": [{"topic": topic, "partition": 0}]}, V2)
    told = proxy.ask("GET", f"{instance}/records", Accept="application/vnd.kafka.json.v2+json")
    assert told.code == 40801 and f"{topic}-0 at offset 1" in told.body["message"]
    past = {"offsets": [{"topic": topic, "partition": 0, "offset": 2}]}
    assert proxy.ask("POST", f"{instance}/positions", past, V2).status == 204
    assert proxy.ask("GET", f"{instance}/records", Accept="application/vnd.kafka.json.v2+json").body == []


def test_instances_refuse_what_is_wrong(proxy: Proxy, name: str) -> None:
    assert proxy.ask("POST", f"/consumers/{name}", {"format": "xml"}, V2).code == 422
    assert proxy.ask("POST", f"/consumers/{name}", {"auto.offset.reset": "bad-config"}, V2).code == 42204
    least = proxy.ask("POST", f"/consumers/{name}", {"fetch.min.bytes": 0}, V2)
    assert (least.status, least.body["error_code"]) == (422, 40001)
    assert proxy.ask("POST", f"/consumers/{name}/instances/none/subscription", {"topics": ["t"]}, V2).code == 40403
    assert proxy.ask("DELETE", f"/consumers/{name}/instances/none").code == 40403


def test_the_course_s_producer_and_consumer(proxy: Proxy, name: str) -> None:
    """RST-02, RST-04, RST-05, RST-06."""
    payload = {"records": [{"key": b64(b"firstkey"), "value": b64(b"firstvalue")}]}
    sent = proxy.ask("POST", f"/topics/{name}", payload, "application/vnd.kafka.binary.v1+json")
    assert sent.status == 200
    v1 = "application/vnd.kafka.v1+json"
    made = proxy.ask("POST", "/consumers/group1-" + name, {"format": "binary", "auto.offset.reset": "smallest"}, v1)
    assert made.status == 200
    base_uri = made.body["base_uri"]
    read = proxy.ask("GET", f"{base_uri}/topics/{name}", Accept="application/vnd.kafka.binary.v1+json")
    assert read.status == 200
    (message,) = read.body
    assert base64.b64decode(message["key"]) == b"firstkey" and base64.b64decode(message["value"]) == b"firstvalue"
    assert message["partition"] == 0 and message["offset"] == 0
    (done,) = proxy.ask("POST", f"{base_uri}/offsets", kind=v1, Accept=v1).body
    assert done == {"topic": name, "partition": 0, "consumed": 1, "committed": 1}
    assert proxy.ask("GET", f"{base_uri}/topics/other", Accept="application/vnd.kafka.binary.v1+json").code == 40901
    assert proxy.ask("DELETE", base_uri).status == 204
    assert proxy.ask("GET", f"{base_uri}/topics/{name}", Accept="application/vnd.kafka.binary.v1+json").code == 40403


def test_an_instance_that_nobody_uses_expires(broker: BrokerProcess, topic: str, tmp_path: Path) -> None:
    with Proxy(tmp_path, broker.address, QUICK_EXPIRY) as quick:
        config = {"format": "json", "name": "idle"}
        instance = make_instance(quick, topic, config)
        assert quick.ask("POST", f"/consumers/{topic}", config, V2).code == 40902
        wait_until(lambda: quick.ask("POST", f"/consumers/{topic}", config, V2).status == 200, "its name is free", 60)
        wait_until(lambda: "was not used for long" in quick.log(), "the log tells it")
        assert instance.endswith("/instances/idle")
