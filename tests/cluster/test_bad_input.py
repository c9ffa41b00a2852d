"""What a cluster refuses: with Kafka's error, or with a line that says what to do; never by losing something."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewTopic

from moldau.cli.cluster.local_cluster import LocalCluster, free_ports
from tests.cluster.load import Load
from tests.cluster.looking import admin, create, partitions_of, wait_until_whole
from tests.support.names import own_name
from tests.support.waiting import wait_until

SECONDS = 120


def start_broker(folder: Path, zookeeper: str, number: int, **settings: str) -> subprocess.CompletedProcess[str]:
    """A broker that is expected to refuse to run."""
    (port,) = free_ports(1)
    wanted = {
        "node.id": str(number),
        "listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "log.dirs": str(folder),
        "zookeeper.connect": zookeeper,
        "zookeeper.connection.timeout.ms": "3000",
    }
    command = [sys.executable, "-m", "moldau", "broker", "start"]
    for name, value in {**wanted, **settings}.items():
        command += ["--set", f"{name}={value}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)


def refused(cluster: LocalCluster, topic: NewTopic) -> KafkaError:
    client = admin(cluster)
    with pytest.raises(KafkaException) as raised:
        client.create_topics([topic])[topic.topic].result(30)
    found: KafkaError = raised.value.args[0]
    return found


def test_more_replicas_than_brokers(cluster: LocalCluster) -> None:
    error = refused(cluster, NewTopic(own_name("four"), 1, 4))
    assert error.code() == KafkaError.INVALID_REPLICATION_FACTOR
    assert "replication factor of 4 cannot be reached because only 3 broker(s) are registered" in str(error.str())


def test_a_broker_that_nobody_knows_in_an_assignment(cluster: LocalCluster) -> None:
    error = refused(cluster, NewTopic(own_name("unknown"), 1, replica_assignment=[[1, 9]]))
    assert error.code() == KafkaError.INVALID_REPLICA_ASSIGNMENT
    assert "9" in str(error.str())


def test_a_second_broker_with_an_id_that_lives(cluster: LocalCluster, tmp_path: Path) -> None:
    done = start_broker(tmp_path / "second", cluster.zookeeper_connect, 2)
    assert done.returncode != 0
    told = done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr, done.stderr
    assert "another broker is alive under this id: " in told and "/brokers/ids/2 in ZooKeeper" in told, told
    assert f"127.0.0.1:{cluster.broker(2).port}" in told, "who holds it"
    assert "Give this broker another broker.id, or stop the other." in told, "what to do"
    assert cluster.broker(2).runs
    wait_until_whole(cluster)


def test_the_data_of_another_cluster(cluster: LocalCluster, tmp_path: Path) -> None:
    folder = tmp_path / "foreign"
    shutil.copytree(cluster.folder(cluster.broker(1)) / "data", folder, ignore=shutil.ignore_patterns(".lock"))
    meta = folder / "meta.properties"
    meta.write_text(re.sub(r"cluster\.id=.*", "cluster.id=AAAAAAAAAAAAAAAAAAAAAA", meta.read_text()))
    before = sorted(path.name for path in folder.iterdir())
    done = start_broker(folder, cluster.zookeeper_connect, 1)
    assert done.returncode != 0
    assert "Invalid cluster.id" in done.stderr and "Traceback" not in done.stderr
    assert "zookeeper.connect" in done.stderr, "says which setting may be wrong"
    assert sorted(path.name for path in folder.iterdir() if path.name != ".lock") == [
        name for name in before if name != ".lock"
    ]


def test_a_chroot_that_does_not_exist_is_no_place_for_data_of_this_cluster(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    """A mistyped chroot is an empty cluster: what a broker has on disk is not given up for it."""
    folder = tmp_path / "data"
    shutil.copytree(cluster.folder(cluster.broker(1)) / "data", folder, ignore=shutil.ignore_patterns(".lock"))
    before = sorted(path.name for path in folder.iterdir())
    done = start_broker(folder, f"{cluster.zookeeper_connect}/mistyped/place", 1)
    assert done.returncode != 0
    assert "Invalid cluster.id" in done.stderr and "zookeeper.connect" in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in folder.iterdir() if path.name != ".lock") == before


def test_a_wiped_folder_is_filled_again_and_never_leads_before(cluster: LocalCluster) -> None:
    topic = own_name("wiped")
    create(cluster, topic, min_insync_replicas="2")
    with Load(cluster, topic) as load:
        load.goes_on(200)
        victim = cluster.broker(3)
        cluster.kill_member(victim)
        shutil.rmtree(cluster.folder(victim) / "data")
        load.goes_on(100)
        cluster.start_member(victim)
        wait_until_whole(cluster)
        load.goes_on(50)
    load.assert_nothing_lost_or_doubled()


def test_zookeeper_is_away_at_the_start(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    done = start_broker(tmp_path / "data", f"127.0.0.1:{port}", 1)
    assert done.returncode != 0
    assert f"127.0.0.1:{port}" in done.stderr and "Traceback" not in done.stderr, done.stderr
    assert "Start them, or correct zookeeper.connect;" in done.stderr, "says what to do"
    assert "zookeeper.connection.timeout.ms" in done.stderr, "and which one lets it wait longer"


def test_zookeeper_goes_away_and_comes_back(cluster: LocalCluster) -> None:
    """Leaders stay and serve; what has to be decided waits, and is decided when it is back."""
    topic = own_name("away")
    create(cluster, topic, min_insync_replicas="2")
    (server,) = cluster.zookeepers
    with Load(cluster, topic) as load:
        cluster.kill_member(server)
        load.goes_on(200)
        cluster.start_member(server)
        load.goes_on(100)
    wait_until_whole(cluster)
    wait_until(lambda: created(cluster, own_name("later")), "topics can be made again", 60.0)
    load.assert_nothing_lost_or_doubled()


def created(cluster: LocalCluster, topic: str, factor: int = 3) -> bool:
    try:
        create(cluster, topic, partitions=1, factor=factor)
    except KafkaException:
        return topic in admin(cluster).list_topics(timeout=20).topics
    return True


@pytest.mark.timeout(300)
def test_an_ensemble_without_a_majority(tmp_path: Path) -> None:
    home = tmp_path / "cluster"
    with LocalCluster.make(
        home, brokers=1, zookeepers=3, settings={"offsets.topic.replication.factor": "1"}
    ) as cluster:
        create(cluster, "kept", partitions=1, factor=1)
        (broker,) = cluster.brokers
        one, two, _ = cluster.zookeepers
        cluster.kill_member(one)
        create(cluster, "with-two", partitions=1, factor=1)
        cluster.kill_member(two)
        assert partitions_of(cluster, "kept")[0][0] == broker.number, "what leads goes on"
        done = start_broker(tmp_path / "second", f"{cluster.zookeeper_connect}/new/place", 7)
        assert done.returncode != 0 and "Traceback" not in done.stderr
        assert cluster.zookeeper_connect.split(",")[0] in done.stderr, done.stderr
        cluster.start_member(one)
        wait_until(lambda: created(cluster, "again", factor=1), "a majority decides again", 60.0)
