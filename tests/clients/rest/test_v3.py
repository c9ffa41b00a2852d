"""v3 over HTTP: the cluster, its topics, settings, partitions, groups and access rules."""

from __future__ import annotations

import pytest

from tests.support.rest import V2, Proxy, make_instance, produce, read_until
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("rest")


def test_the_cluster_and_its_brokers_are_linked(proxy: Proxy) -> None:
    cluster = proxy.ask("GET", "/v3/clusters").body["data"][0]
    assert cluster["kind"] == "KafkaCluster"
    assert proxy.ask("GET", cluster["metadata"]["self"]).body == cluster
    assert cluster["metadata"]["resource_name"] == f"crn:///kafka={cluster['cluster_id']}"
    brokers = proxy.ask("GET", cluster["brokers"]["related"]).body
    assert brokers["kind"] == "KafkaBrokerList"
    broker = brokers["data"][0]
    assert proxy.ask("GET", cluster["controller"]["related"]).body == broker
    assert proxy.ask("GET", broker["configs"]["related"]).body["data"][0]["broker_id"] == broker["broker_id"]
    for link in ("acls", "broker_configs", "consumer_groups", "topics", "partition_reassignments"):
        assert proxy.ask("GET", cluster[link]["related"]).status == 200
    assert proxy.ask("GET", "/v3/clusters/other").code == 404
    assert proxy.ask("GET", f"{proxy.cluster}/brokers/99").code == 404


def test_topics_are_made_grown_and_deleted(proxy: Proxy, name: str) -> None:
    topics = f"{proxy.cluster}/topics"
    wish = {"topic_name": name, "partitions_count": 1, "replication_factor": 1}
    wish["configs"] = [{"name": "retention.ms", "value": "12345"}]
    dry = proxy.ask("POST", topics, {**wish, "validate_only": True})
    assert (dry.status, dry.body["topic_name"], dry.body["partitions_count"]) == (200, name, 1)
    assert proxy.ask("GET", f"{topics}/{name}").code == 40403
    made = proxy.ask("POST", topics, wish)
    assert made.status == 201 and made.headers["location"] == made.body["metadata"]["self"]
    assert proxy.ask("GET", made.body["metadata"]["self"]).body == made.body
    assert proxy.ask("POST", topics, wish).code == 40002
    assert proxy.ask("POST", topics).code == 42206
    assert proxy.ask("POST", topics, {"partitions_count": 1}).code == 400
    assert proxy.ask("POST", topics, {"topic_name": "a/b"}).code == 40002
    assert proxy.ask("PATCH", f"{topics}/{name}", {"partitions_count": 3}).body["partitions_count"] == 3
    assert proxy.ask("PATCH", f"{topics}/{name}", {"partitions_count": 2}).code == 40002
    assert proxy.ask("PATCH", f"{topics}/none", {"partitions_count": 2}).code == 40403
    allowed = proxy.ask("GET", f"{topics}/{name}?include_authorized_operations=true").body["authorized_operations"]
    assert "WRITE" in allowed
    assert proxy.ask("DELETE", f"{topics}/{name}").status == 204
    assert proxy.ask("DELETE", f"{topics}/{name}").code == 40403
    placed = {"topic_name": name, "replicas_assignments": [{"partition_id": 0, "broker_ids": [1]}]}
    assert proxy.ask("POST", topics, placed).body["partitions_count"] == 1


def test_settings_are_read_changed_and_reset(proxy: Proxy, topic: str) -> None:
    path = f"{proxy.cluster}/topics/{topic}/configs"
    one = f"{path}/retention.ms"
    assert proxy.ask("GET", one).body["is_default"] is True
    assert proxy.ask("PUT", one, {"value": "777000"}).status == 204
    found = proxy.ask("GET", one).body
    assert (found["value"], found["source"], found["is_default"]) == ("777000", "DYNAMIC_TOPIC_CONFIG", False)
    assert found["synonyms"][0] == {"name": "retention.ms", "value": "777000", "source": "DYNAMIC_TOPIC_CONFIG"}
    assert proxy.ask("DELETE", one).status == 204
    assert proxy.ask("GET", one).body["is_default"] is True
    changes = [{"name": "cleanup.policy", "value": "compact"}, {"name": "retention.ms", "operation": "DELETE"}]
    assert proxy.ask("POST", f"{path}:alter", {"data": changes, "validate_only": True}).status == 204
    assert proxy.ask("GET", f"{path}/cleanup.policy").body["value"] == "delete"
    assert proxy.ask("POST", f"{path}:alter", {"data": changes}).status == 204
    assert proxy.ask("GET", f"{path}/cleanup.policy").body["value"] == "compact"
    assert proxy.ask("PUT", f"{path}/nothing", {"value": "1"}).code == 404
    assert proxy.ask("PUT", one, {"value": "soon"}).code == 40002
    assert proxy.ask("POST", f"{path}:alter").code == 42206
    both = {"data": [{"topic_name": each, "configs": changes} for each in (topic, "none")]}
    failed = proxy.ask("POST", f"{proxy.cluster}/topics/-/configs:alter", both)
    assert failed.status == 207 and [each["topic_name"] for each in failed.body["failures"]] == ["none"]
    everywhere = proxy.ask("GET", f"{proxy.cluster}/topics/-/configs").body["data"]
    assert {"retention.ms"} <= {each["name"] for each in everywhere if each["topic_name"] == topic}


def test_settings_of_brokers(proxy: Proxy) -> None:
    path = f"{proxy.cluster}/brokers/1/configs/log.cleaner.threads"
    assert proxy.ask("PUT", path, {"value": "2"}).status == 204
    # Apache Kafka's controller answers before its brokers know.
    wait_until(lambda: proxy.ask("GET", path).body["source"] == "DYNAMIC_BROKER_CONFIG", "the setting is there")
    assert proxy.ask("DELETE", path).status == 204
    for method in ("GET", "PUT", "DELETE"):
        body = {"value": "1"} if method == "PUT" else None
        assert proxy.ask(method, path.replace("/brokers/1/", "/brokers/9/"), body).code == 404
    everybody = f"{proxy.cluster}/broker-configs/log.cleaner.threads"
    assert proxy.ask("PUT", everybody, {"value": "2"}).status == 204
    wait_until(lambda: proxy.ask("GET", everybody).status == 200, "the common setting is there")
    assert proxy.ask("GET", everybody).body["config_type"] == "BROKER"
    assert (
        proxy.ask(
            "POST",
            f"{proxy.cluster}/broker-configs:alter",
            {"data": [{"name": "log.cleaner.threads", "operation": "DELETE"}]},
        ).status
        == 204
    )
    wait_until(lambda: proxy.ask("GET", everybody).status == 404, "the common setting is gone")
    assert proxy.ask("GET", f"{proxy.cluster}/brokers/-/configs").status == 200


def test_partitions_replicas_and_moves(proxy: Proxy, topic: str) -> None:
    partitions = proxy.ask("GET", f"{proxy.cluster}/topics/{topic}/partitions").body["data"]
    assert [each["partition_id"] for each in partitions] == [0, 1]
    first = partitions[0]
    assert proxy.ask("GET", first["metadata"]["self"]).body == first
    leader = proxy.ask("GET", first["leader"]["related"]).body
    assert leader["is_leader"] and leader["is_in_sync"]
    assert proxy.ask("GET", first["replicas"]["related"]).body["data"] == [leader]
    assert proxy.ask("GET", first["reassignment"]["related"]).code == 404
    assert proxy.ask("GET", f"{proxy.cluster}/topics/{topic}/partitions/-/reassignment").body["data"] == []
    assert proxy.ask("GET", f"{proxy.cluster}/topics/{topic}/partitions/7").code == 40402
    assert leader in proxy.ask("GET", f"{proxy.cluster}/brokers/1/partition-replicas").body["data"]
    ends = proxy.ask("GET", f"{first['metadata']['self']}/offset").body
    assert (ends["earliest_offset"], ends["latest_offset"]) == (0, 0)
    assert proxy.ask("GET", f"{first['metadata']['self']}/offset?offset_type=latest").code == 400


def test_access_rules(proxy: Proxy, name: str) -> None:
    path = f"{proxy.cluster}/acls"
    rule = {"resource_type": "topic", "resource_name": name, "pattern_type": "PREFIXED", "principal": "User:alice"}
    rule |= {"host": "*", "operation": "READ", "permission": "ALLOW"}
    made = proxy.ask("POST", path, rule)
    assert made.status == 201
    (found,) = proxy.ask("GET", made.headers["location"]).body["data"]
    assert {key: found[key] for key in rule} == {**rule, "resource_type": "TOPIC"}
    more = [{**rule, "operation": "WRITE"}, {**rule, "operation": "DESCRIBE"}]
    assert proxy.ask("POST", f"{path}:batch", {"data": more}).status == 204
    assert len(proxy.ask("GET", f"{path}?principal=User:alice&resource_name={name}").body["data"]) == 3
    assert proxy.ask("DELETE", path).code == 400
    everything = f"{path}?resource_type=TOPIC&resource_name={name}&pattern_type=ANY&operation=ANY&permission=ANY"
    assert len(proxy.ask("DELETE", everything).body["data"]) == 3
    assert proxy.ask("GET", f"{path}?resource_name={name}").body["data"] == []
    assert proxy.ask("POST", path, {**rule, "operation": "ANY"}).code == 400
    assert proxy.ask("POST", path).code == 42206


def test_groups_members_and_lags(proxy: Proxy, topic: str) -> None:
    produce(proxy, topic, list(range(10)), partition=0)
    instance = make_instance(proxy, topic, {"format": "json", "auto.offset.reset": "earliest"})
    proxy.ask("POST", f"{instance}/subscription", {"topics": [topic]}, V2)
    read_until(proxy, instance, "json", 4, "?max_bytes=4")
    proxy.ask("POST", f"{instance}/offsets", kind=V2)
    group = proxy.ask("GET", f"{proxy.cluster}/consumer-groups/{topic}").body
    assert (group["kind"], group["state"], group["partition_assignor"]) == ("KafkaConsumerGroup", "STABLE", "range")
    assert group in proxy.ask("GET", f"{proxy.cluster}/consumer-groups").body["data"]
    (member,) = proxy.ask("GET", group["consumers"]["related"]).body["data"]
    assert proxy.ask("GET", member["metadata"]["self"]).body == member
    assignments = proxy.ask("GET", member["assignments"]["related"]).body["data"]
    assert [each["partition_id"] for each in assignments] == [0, 1]
    assert proxy.ask("GET", assignments[0]["metadata"]["self"]).body == assignments[0]
    lag = proxy.ask("GET", assignments[0]["lag"]["related"]).body
    assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (4, 10, 6)
    assert lag["consumer_id"] == member["consumer_id"]
    assert lag in proxy.ask("GET", f"{proxy.cluster}/consumer-groups/{topic}/lags").body["data"]
    summary = proxy.ask("GET", group["lag_summary"]["related"]).body
    assert (summary["max_lag"], summary["total_lag"], summary["max_lag_topic_name"]) == (6, 6, topic)
    assert proxy.ask("GET", f"{proxy.cluster}/consumer-groups/none").code == 404
    assert proxy.ask("GET", f"{group['metadata']['self']}/consumers/none").code == 404
    proxy.ask("DELETE", instance)
