"""The cluster as it is seen from outside: Kafka's metric names, its nodes in ZooKeeper, `moldau cluster health`."""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from moldau.cli.cluster.local_cluster import LocalCluster, Process
from tests.cli.kafka_tools.player import our_tool
from tests.cluster.looking import QUIET, admin, create, partitions_of, wait_until_whole
from tests.support.command import run
from tests.support.names import own_name
from tests.support.waiting import wait_until

OFFLINE = "kafka_controller_kafkacontroller_offlinepartitionscount"
CONTROLLERS = "kafka_controller_kafkacontroller_activecontrollercount"
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
ELECTIONS = "kafka_controller_controllerstats_leaderelectionrateandtimems"
MAX_LAG = 'kafka_server_replicafetchermanager_maxlag{clientid="Replica"}'
SHRINKS = "kafka_server_replicamanager_isrshrinks_total"
LARGE, MISSED = 400_000, 30
EXPANDS = "kafka_server_replicamanager_isrexpands_total"


def figure(cluster: LocalCluster, name: str) -> float:
    """Summed over the brokers that run, as a dashboard would."""
    found = (samples(cluster, broker).get(name, 0.0) for broker in cluster.brokers if broker.runs)
    return sum(found)


def samples(cluster: LocalCluster, broker: Process) -> dict[str, float]:
    text = cluster.log_file(broker).read_text(errors="replace")
    address = re.findall(r"metrics at (http://\S+)", text)[-1]
    with urllib.request.urlopen(address, timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}


def test_the_four_figures_to_watch_move_as_the_books_say(cluster: LocalCluster, tmp_path: Path) -> None:
    """ME-03 to ME-06; and the in-sync sets that shrink and grow again."""
    many, alone = own_name("watched"), own_name("alone")
    create(cluster, many, min_insync_replicas="2")
    asked = f"--create --topic {alone} --replica-assignment 2"
    assert our_tool("kafka-topics", ["--bootstrap-server", cluster.bootstrap, *asked.split()], "", tmp_path).code == 0
    wait_until(lambda: figure(cluster, UNDER_REPLICATED) == 0, "nothing is under-replicated")
    assert (figure(cluster, OFFLINE), figure(cluster, CONTROLLERS)) == (0, 1)
    others = [broker for broker in cluster.brokers if broker.number != 2]

    def seen_by_others(name: str) -> float:
        return sum(samples(cluster, broker).get(name, 0.0) for broker in others)

    assert_traffic_and_lags_are_told(cluster, many)
    before = {name: seen_by_others(name) for name in (f"{ELECTIONS}_count", SHRINKS, EXPANDS)}
    cluster.kill_member(cluster.broker(2))
    wait_until(lambda: figure(cluster, OFFLINE) == 1, "the partition without a leader is counted", 60.0)
    wait_until(lambda: figure(cluster, UNDER_REPLICATED) >= 3, "those with a lost follower are counted", 60.0)
    wait_until(lambda: figure(cluster, CONTROLLERS) == 1, "there is one controller", 60.0)
    wait_until(lambda: seen_by_others(SHRINKS) > before[SHRINKS], "smaller in-sync sets are counted")
    wait_until(lambda: any(f"{ELECTIONS}_count" in samples(cluster, each) for each in others), "elections are timed")
    elected = seen_by_others(f"{ELECTIONS}_count")
    assert elected > 0 and seen_by_others(f"{ELECTIONS}_sum") > 0
    cluster.start_member(cluster.broker(2))
    wait_until_whole(cluster)
    wait_until(lambda: figure(cluster, OFFLINE) == figure(cluster, UNDER_REPLICATED) == 0, "all is well again", 60.0)
    wait_until(lambda: seen_by_others(EXPANDS) > before[EXPANDS], "larger in-sync sets are counted")
    delete(cluster, many, alone)


def test_what_brokers_depend_on_is_told(cluster: LocalCluster) -> None:
    """Their sessions with ZooKeeper, how long it takes to answer, commits, and how new what they know is."""
    connected = 'kafka_server_sessionexpirelistener_sessionstate{state="CONNECTED"}'
    commits = "moldau_server_metadatastore_committimems_count"
    assert figure(cluster, connected) == 3
    create(cluster, own_name("committed"))
    assert figure(cluster, commits) > 0
    for broker in cluster.brokers:
        told = samples(cluster, broker)
        assert told["kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count"] > 0
        assert told["kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_sum"] > 0
        assert 0 <= told["kafka_controller_kafkacontroller_lastappliedrecordlagms"] < 60_000
        assert told["kafka_network_requestchannel_requestqueuesize"] == 0
        assert told["kafka_network_requestchannel_responsequeuesize"] == 0
    gone = cluster.zookeepers[0]
    lost = "kafka_server_sessionexpirelistener_zookeeperdisconnects_total"
    before = figure(cluster, lost)
    cluster.kill_member(gone)
    wait_until(lambda: figure(cluster, lost) == before + 3, "all have lost it", 60.0)
    assert figure(cluster, connected) == 0
    expired = "kafka_server_sessionexpirelistener_zookeeperexpires_total"
    wait_until(lambda: figure(cluster, expired) >= 3, "they count their sessions as ended", 60.0)
    cluster.start_member(gone)
    wait_until(lambda: figure(cluster, connected) == 3, "they have sessions again", 60.0)


def assert_traffic_and_lags_are_told(cluster: LocalCluster, topic: str) -> None:
    """Whoever leads counts records once, followers count what they copy, and the coordinator of a group knows how far
    it is behind, wherever the partitions are led.
    """
    copied_in, copied_out = (f"kafka_server_brokertopicmetrics_replicationbytes{way}_total" for way in ("in", "out"))
    before = figure(cluster, copied_in), figure(cluster, copied_out)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all", **QUIET})
    for index in range(3):
        for _ in range(4):
            producer.produce(topic, bytes(1000), partition=index)
    assert producer.flush(60.0) == 0
    group = own_name("readers")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap, "group.id": group, **QUIET})
    consumer.commit(offsets=[TopicPartition(topic, index, 1) for index in range(3)], asynchronous=False)
    consumer.close()
    of_topic = f'{{topic="{topic}"}}'
    assert figure(cluster, f"kafka_server_brokertopicmetrics_messagesin_total{of_topic}") == 12
    assert 12_000 <= figure(cluster, f"kafka_server_brokertopicmetrics_bytesin_total{of_topic}") < 24_000
    wait_until(lambda: figure(cluster, copied_in) - before[0] >= 24_000, "followers count what they copy")
    wait_until(lambda: figure(cluster, copied_out) - before[1] >= 24_000, "leaders count what they send to followers")
    for index in range(3):
        place = f'{{topic="{topic}",partition="{index}"}}'
        wait_until(lambda of=place: figure(cluster, f"kafka_log_log_logendoffset{of}") == 12, "all replicas have it")
        assert figure(cluster, f"kafka_topic_partition_current_offset{place}") == 4, "told by the leader alone"
        of_group = f'{{consumergroup="{group}",topic="{topic}",partition="{index}"}}'
        assert figure(cluster, f"kafka_consumergroup_lag{of_group}") == 3
    assert figure(cluster, f'kafka_consumergroup_lag_sum{{consumergroup="{group}",topic="{topic}"}}') == 9
    assert figure(cluster, "kafka_brokers") == 3
    assert figure(cluster, "kafka_server_groupmetadatamanager_numgroups") >= 1
    assert figure(cluster, "kafka_server_groupmetadatamanager_numoffsets") >= 3
    times = "kafka_network_requestmetrics_totaltimems_count"
    assert figure(cluster, f'{times}{{request="FetchFollower"}}') > 0, "followers fetch as consumers do (REP-03)"
    waits = "kafka_network_requestmetrics_remotetimems_count"
    for request in ("Produce", "FetchFollower", "OffsetCommit"):
        assert figure(cluster, f'{waits}{{request="{request}"}}') > 0, f"{request} waits for others"
    idle = figure(cluster, "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent")
    assert 0 < idle <= 3, "a share of the time on each of three brokers"


def test_kafkas_nodes_in_zookeeper_follow(cluster: LocalCluster, tmp_path: Path) -> None:
    topic = own_name("shown")
    create(cluster, topic, partitions=1, min_insync_replicas="2")

    def shown(path: str) -> Any:
        printed = our_tool("zookeeper-shell", [cluster.zookeeper_connect, "get", path], "", tmp_path)
        lines = [line for line in printed.out.splitlines() if line.startswith("{") or line.isdigit()]
        return json.loads(lines[-1]) if lines else None

    def state() -> Any:
        return shown(f"/brokers/topics/{topic}/partitions/0/state")

    def controller() -> Any:
        return shown("/controller")

    wait_until(lambda: state() is not None, "the partition is shown", 60.0)
    leader, replicas, _ = partitions_of(cluster, topic)[0]
    assert state()["leader"] == leader and sorted(state()["isr"]) == [1, 2, 3]
    assert shown(f"/brokers/topics/{topic}")["partitions"] == {"0": replicas}
    assert shown(f"/config/topics/{topic}")["config"]["min.insync.replicas"] == "2"
    assert shown("/cluster/id")["id"]
    first = controller()
    assert first.keys() == {"version", "brokerid", "timestamp"}
    epoch = shown("/controller_epoch")
    before = state()["leader_epoch"]
    listed = our_tool("zookeeper-shell", [cluster.zookeeper_connect, "ls", "/brokers/topics"], "", tmp_path)
    assert topic in listed.out

    cluster.kill_member(cluster.broker(leader))
    wait_until(lambda: (state() or {}).get("leader") not in (None, leader), "the new leader is shown", 60.0)
    assert state()["leader_epoch"] > before and leader not in state()["isr"]
    cluster.start_member(cluster.broker(leader))
    wait_until_whole(cluster)
    control = controller()["brokerid"]
    cluster.kill_member(cluster.broker(control))
    wait_until(lambda: (controller() or {}).get("brokerid") not in (None, control), "another controller", 60.0)
    wait_until(lambda: shown("/controller_epoch") > epoch, "its epoch is higher")
    present = controller()
    our_tool("zookeeper-shell", [cluster.zookeeper_connect, "delete", "/controller"], "", tmp_path)
    wait_until(lambda: (controller() or present)["timestamp"] != present["timestamp"], "shown again", 60.0)
    assert controller()["brokerid"] == present["brokerid"]
    cluster.start_member(cluster.broker(control))
    wait_until_whole(cluster)
    delete(cluster, topic)
    wait_until(lambda: state() is None, "what is deleted is shown no longer", 60.0)


def test_health_names_what_is_not_well_and_where(cluster: LocalCluster) -> None:
    topic = own_name("health")
    create(cluster, topic, min_insync_replicas="3")

    def health() -> Any:
        told = run("cluster", "health", "-o", "json", environment={"MOLDAU_BOOTSTRAP_SERVERS": cluster.bootstrap})
        return json.loads(told.out)

    assert health()["healthy"]
    cluster.kill_member(cluster.broker(3))
    wait_until(lambda: any(each["problem"] == "under min.insync.replicas" for each in health()["problems"]), "told")
    assert health()["under_replicated_partitions"] >= 3 and health()["offline_partitions"] == 0
    named = {each["where"] for each in health()["problems"] if each["problem"] == "under min.insync.replicas"}
    assert named >= {f"{topic}-{index}" for index in range(3)}
    assert all("broker 3 does not answer" in each["detail"] for each in health()["problems"] if topic in each["where"])
    cluster.start_member(cluster.broker(3))
    wait_until_whole(cluster)
    wait_until(lambda: health()["healthy"], "all is well again", 60.0)
    delete(cluster, topic)


def test_how_far_each_broker_has_read_the_metadata_is_told_by_any(cluster: LocalCluster, tmp_path: Path) -> None:
    topic = own_name("read")
    create(cluster, topic, partitions=1)

    def lags(broker: Process) -> dict[int, int]:
        asked = ["--bootstrap-server", broker.address, "describe", "--replication"]
        printed = our_tool("kafka-metadata-quorum", asked, "", tmp_path)
        assert printed.code == 0, printed
        rows = [line.split() for line in printed.out.splitlines()[1:]]
        return {int(row[0]): int(row[3]) for row in rows}

    for broker in cluster.brokers:
        wait_until(lambda asked=broker: lags(asked) == {1: 0, 2: 0, 3: 0}, "nobody is behind")  # type: ignore[misc]
    delete(cluster, topic)


def test_the_lag_of_followers_is_told(cluster: LocalCluster) -> None:
    """A follower comes back to a lot that it has missed, and is held back to a byte a second."""
    topic = own_name("behind")
    create(cluster, topic, partitions=1, min_insync_replicas="2", follower_replication_throttled_replicas="*")

    def told(command: str) -> Any:
        environment = {"MOLDAU_BOOTSTRAP_SERVERS": cluster.bootstrap}
        return json.loads(run("cluster", command, "-o", "json", environment=environment).out)

    leader = partitions_of(cluster, topic)[0][0]
    follower = next(each for each in cluster.brokers if each.number != leader)
    assert told("health")["largest_lag"] == 0
    throttle(cluster, follower, "1")
    cluster.kill_member(follower)
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "message.max.bytes": LARGE * 2, **QUIET})
    for _ in range(MISSED):
        producer.produce(topic, bytes(LARGE))
    assert producer.flush(60.0) == 0
    cluster.start_member(follower)
    try:
        wait_until(lambda: told("health")["largest_lag"] > 0, "the lag is told", 60.0)
        (problem,) = [each for each in told("health")["problems"] if each["where"] == f"{topic}-0"]
        assert problem["problem"] == "under-replicated"
        assert re.search(rf"broker {follower.number} \d+ records? behind", problem["detail"]), problem
        described = {each["id"]: each for each in told("describe")["brokers"]}
        assert 0 < described[follower.number]["largest_lag"] <= MISSED
        assert described[follower.number]["follows"] > 0
        lag = f'{{clientid="ReplicaFetcherThread-0-{leader}",topic="{topic}",partition="0"}}'
        wait_until(lambda: samples(cluster, follower).get(MAX_LAG, 0.0) > 0, "the lag is a metric", 60.0)
        assert 0 < samples(cluster, follower)[f"kafka_server_fetcherlagmetrics_consumerlag{lag}"] <= MISSED
    finally:
        throttle(cluster, follower, None)
    wait_until_whole(cluster)
    assert told("health")["largest_lag"] == 0
    wait_until(lambda: figure(cluster, MAX_LAG) == 0, "no follower is behind")
    delete(cluster, topic)


def throttle(cluster: LocalCluster, broker: Process, rate: str | None) -> None:
    kind = AlterConfigOpType.DELETE if rate is None else AlterConfigOpType.SET
    entry = ConfigEntry("follower.replication.throttled.rate", rate or "", incremental_operation=kind)
    asked = ConfigResource(ConfigResource.Type.BROKER, str(broker.number), incremental_configs=[entry])
    client = admin(cluster)
    for future in client.incremental_alter_configs([asked]).values():
        future.result(30)


def delete(cluster: LocalCluster, *topics: str) -> None:
    client = admin(cluster)
    for future in client.delete_topics(list(topics)).values():
        future.result(30)
