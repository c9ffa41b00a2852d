"""The mirror's commands: as the books print them, as MirrorMaker 2 has them, and our own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer

from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings
from moldau.clients.admin import Admin
from moldau.mirror.copying import Copier
from moldau.mirror.settings import read_settings
from moldau.mirror.watching import positions, store
from tests.support.broker import Broker
from tests.support.command import run
from tests.support.mirroring import contents, flow, mirroring, producer, properties, wait_until_equal
from tests.support.process import BrokerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("mirror-tools")


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    folder = tmp_path_factory.mktemp("clusters")
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
    with Broker(folder / "a", settings) as source, Broker(folder / "b", settings) as target:
        yield source, target


def fill(broker: BrokerProcess, topic: str, count: int, partitions: int = 2) -> None:
    with Admin({"bootstrap.servers": broker.address}) as admin:
        admin.create_topic(topic, partitions)
    sender = producer(broker.address)
    for number in range(count):
        sender.produce(topic, b"v%d" % number, b"k", number % partitions)
    assert sender.flush(30) == 0


def tool(name: str, *arguments: object, folder: Path) -> subprocess.Popen[str]:
    code = f"import sys; from moldau.cli.kafka.entry import run; sys.exit(run({name!r}, sys.argv[1:]))"
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def config(folder: Path, settings: dict[str, str]) -> Path:
    path = folder / "mm2.properties"
    path.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()))
    return path


def test_mirror_maker_as_the_book_prints_it(clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path) -> None:
    source, target = clusters
    fill(source, "test-topic", 300)
    fill(source, "other-topic", 10)
    (tmp_path / "source.properties").write_text(f"bootstrap.servers={source.address}\ngroup.id=mirror\n")
    (tmp_path / "target.properties").write_text(f"bootstrap.servers={target.address}\n")
    running = tool(
        "kafka-mirror-maker.sh", "--consumer.config", "source.properties", "--producer.config", "target.properties",
        "--whitelist", "test-topic", folder=tmp_path,
    )  # fmt: skip
    try:
        wait_until_equal(source.address, "test-topic", target.address, "test-topic", 2)
    finally:
        running.send_signal(signal.SIGTERM)
        assert running.wait(30) == 0, running.stderr.read() if running.stderr else ""
        running.communicate()
    with Admin({"bootstrap.servers": target.address}) as admin:
        assert admin.list_topics() == ["mm2-offsets.source.internal", "test-topic"]


@contextmanager
def mirror_maker(folder: Path, source: str, target: str, group: str, topics: str) -> Iterator[None]:
    folder.mkdir(exist_ok=True)
    (folder / "source.properties").write_text(f"bootstrap.servers={source}\ngroup.id={group}\n")
    (folder / "target.properties").write_text(f"bootstrap.servers={target}\n")
    running = tool(
        "kafka-mirror-maker", "--consumer.config", "source.properties", "--producer.config", "target.properties",
        "--whitelist", topics, folder=folder,
    )  # fmt: skip
    try:
        yield
    finally:
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=60)
    assert running.returncode == 0, said


def values(address: str, topic: str, partitions: int) -> list[bytes]:
    return sorted(value or b"" for part in contents(address, topic, partitions) for _, value, *_ in part)


def test_mirror_makers_of_different_groups_know_nothing_of_each_other(
    clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path
) -> None:
    source, target = (each.address for each in clusters)
    fill(clusters[0], "fruit", 160, 16)
    fill(clusters[0], "fish", 160, 16)
    with (
        mirror_maker(tmp_path / "1", source, target, "of fruit", "fruit"),
        mirror_maker(tmp_path / "2", source, target, "of fish", "fish"),
    ):
        for topic in ("fruit", "fish"):
            wait_until_equal(source, topic, target, topic, 16)


def test_mirror_makers_of_one_group_share_the_work(
    clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path
) -> None:
    source, target = (each.address for each in clusters)
    fill(clusters[0], "shared", 160, 16)
    with (
        mirror_maker(tmp_path / "1", source, target, "one group", "shared"),
        mirror_maker(tmp_path / "2", source, target, "one group", "shared"),
    ):
        wait_until_equal(source, "shared", target, "shared", 16)


def test_mirror_makers_may_bring_two_clusters_together(
    clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path
) -> None:
    """The same names everywhere; what is copied is not copied again when they are started again."""
    target = clusters[1].address
    with Broker(tmp_path / "another") as another:
        for broker in (clusters[0], another):
            fill(broker, "together", 20)
        wanted = sorted(2 * values(another.address, "together", 2))

        def copy() -> list[bytes]:
            with (
                mirror_maker(tmp_path / "1", clusters[0].address, target, "mirror", "together"),
                mirror_maker(tmp_path / "2", another.address, target, "mirror", "together"),
            ):
                wait_until(lambda: len(values(target, "together", 2)) >= len(wanted), "all are there", 60)
            return values(target, "together", 2)

        assert copy() == wanted
        sender = producer(another.address)
        sender.produce("together", b"more", partition=0)
        assert sender.flush(30) == 0
        wanted.insert(0, b"more")
        assert copy() == wanted


def test_a_mirror_maker_goes_on_where_one_without_a_name_stopped(
    clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path
) -> None:
    """Every source was called `source` once."""
    source, target = (each.address for each in clusters)
    fill(clusters[0], "long-ago", 20)
    nameless = properties({"source": source, "target": target}, source_to_target__enabled="true", topics="long-ago")
    with mirroring(
        nameless | {"replication.policy.class": "IdentityReplicationPolicy", "emit.heartbeats.enabled": "false"}
    ):
        wait_until_equal(source, "long-ago", target, "long-ago", 2)
    sender = producer(source)
    sender.produce("long-ago", b"new", partition=0)
    assert sender.flush(30) == 0
    with mirror_maker(tmp_path, source, target, "mirror", "long-ago"):
        wait_until_equal(source, "long-ago", target, "long-ago", 2)


def test_a_worker_that_chooses_other_topics_is_told_so(clusters: tuple[BrokerProcess, BrokerProcess]) -> None:
    source, target = (each.address for each in clusters)
    fill(clusters[0], "chosen-1", 20)

    def choosing(topic: str) -> dict[str, str]:
        return properties({"x": source, "y": target}, x_to_y__enabled="true", topics=topic)

    with mirroring(choosing("chosen-1")) as first:
        wait_until_equal(source, "chosen-1", target, "x.chosen-1", 2)
        with mirroring(choosing("chosen-2")) as second:
            shared = [flow(each, "x->y").shared for each in (first, second)]
            wait_until(lambda: any(each.refused for each in shared), "one is told", 60)
            assert sum(len(each.lanes) for each in shared) == 16
            told = next(each for each in shared if each.refused).as_json("x->y")
            assert told["state"] == "FAILED" and "choose the same topics" in told["error"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "This tool helps to continuously copy data"),
        (["--consumer.config", "c", "--producer.config", "p", "--include", "t"], "c: [Errno 2] No such file"),
        (["--consumer.config", "old", "--producer.config", "p", "--include", "t"], "zookeeper.connect led there"),
        (
            ["--consumer.config", "c", "--producer.config", "p", "--include", "t", "--message.handler", "x"],
            "Java class",
        ),
        (["--consumer.config", "c", "--producer.config", "p"], 'Missing required argument "[include]"'),
    ],
)
def test_mirror_maker_tells_what_is_wrong(tmp_path: Path, arguments: list[str], message: str) -> None:
    (tmp_path / "old").write_text("zookeeper.connect=localhost:2181\n")
    running = tool("kafka-mirror-maker", *arguments, folder=tmp_path)
    _, said = running.communicate(timeout=30)
    assert running.returncode == 1 and message in said


def test_connect_mirror_maker(clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path) -> None:
    source, target = clusters
    fill(source, "orders", 100)
    file = config(
        tmp_path, properties({"a": source.address, "b": target.address}, a_to_b__enabled="true", topics="orders")
    )
    running = tool("connect-mirror-maker.sh", file, "--clusters", "b", folder=tmp_path)
    try:
        wait_until_equal(source.address, "orders", target.address, "a.orders", 2)
    finally:
        running.send_signal(signal.SIGTERM)
        _, said = running.communicate(timeout=30)
    assert running.returncode == 0, said


def test_connect_mirror_maker_tells_what_is_wrong(tmp_path: Path) -> None:
    for arguments, message in (([], "USAGE"), (["nowhere.properties"], "nowhere.properties: no such file")):
        running = tool("connect-mirror-maker", *arguments, folder=tmp_path)
        assert message in running.communicate(timeout=30)[1] and running.returncode == 1
    file = config(tmp_path, {"clusters": "a, b", "a.bootstrap.servers": "h:1", "topics": "("})
    running = tool("connect-mirror-maker", file, folder=tmp_path)
    said = running.communicate(timeout=30)[1]
    assert "b.bootstrap.servers: is missing" in said and "is no regular expression" in said


def test_a_worker_tells_of_itself_over_http(clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path) -> None:
    source, target = clusters
    fill(source, "told", 40)
    given = properties({"a": source.address, "b": target.address}, a_to_b__enabled="true", topics="told")
    command = [sys.executable, "-m", "moldau", "mirror", "start", str(config(tmp_path, given))]
    with (tmp_path / "log").open("w") as log:
        running = subprocess.Popen(
            [*command, "--listen", "http://127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert running.stdout is not None
    try:
        url = running.stdout.readline().split(" at ")[1].strip()
        wait_until_equal(source.address, "told", target.address, "a.told", 2)

        def asked(path: str) -> str:
            with urllib.request.urlopen(url + path, timeout=10) as answer:
                return str(answer.read().decode())

        wait_until(lambda: json.loads(asked("/flows/a/b"))["records"] >= 40, "it has counted them")
        labels = 'source="a",target="b",topic="a.told",partition="1"'
        assert f"kafka_connect_mirror_mirrorsourceconnector_record_count{{{labels}}} 20" in asked("/metrics")
        assert f"kafka_connect_mirror_mirrorsourceconnector_lag{{{labels}}} 0" in asked("/metrics")
        assert json.loads(asked("/ready"))["status"] == "UP"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            asked("/flows/b/a")
    finally:
        running.terminate()
        assert running.wait(30) == 0
        running.stdout.close()
    told = run("mirror", "start", str(config(tmp_path, given)), "--listen", "http://nowhere:nothing")
    assert told.code == 2 and "listeners" in told.complaint


def test_check_start_status_and_reset(clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path) -> None:
    source, target = clusters
    fill(source, "sales", 50)
    given = properties({"a": source.address, "b": target.address}, a_to_b__enabled="true", topics="sales")
    file = str(config(tmp_path, given | {"heartbeats.replication.enabled": "false"}))
    (checked,) = run("mirror", "check", file, "-o", "json").document
    assert checked["problems"] == {"sales": "topic a.sales does not exist in b yet"}
    done = subprocess.run(
        [sys.executable, "-m", "moldau", "mirror", "start", file, "--until-current", "-o", "json"],
        capture_output=True, text=True, timeout=60, check=True, env={**os.environ},
    )  # fmt: skip
    told = json.loads(done.stdout.splitlines()[-1])
    assert (told["flow"], told["lag"], told["state"]) == ("a->b", 0, "RUNNING")
    assert sum(each["records"] for each in told["partitions"] if each["topic"] == "sales") == 50
    (standing,) = run("mirror", "status", file, "-o", "json").document
    rows = [each for each in standing["partitions"] if each["topic"] == "sales"]
    assert [(row["position"], row["end"], row["state"]) for row in rows] == [(25, 25, "CURRENT"), (25, 25, "CURRENT")]
    assert ["a->b", "sales", "0", "a.sales", "25", "25", "0", "CURRENT"] in run("mirror", "status", file).rows
    assert "there is no flow a->c" in run("mirror", "status", file, "--flow", "a->c").complaint
    assert "2 positions taken away" in run("mirror", "reset", file, "a->b", "--topic", "sales", "--yes").out
    (standing,) = run("mirror", "status", file, "-o", "json").document
    assert {each["state"] for each in standing["partitions"] if each["topic"] == "sales"} == {"NEW"}
    wait_until(lambda: sum(map(len, contents(target.address, "a.sales", 2))) == 50, "they are there once")


def test_going_back_by_the_command(clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path) -> None:
    source, target = clusters
    fill(source, "returns", 20)
    given = properties({"a": source.address, "b": target.address}, topics="returns") | {
        "replication.policy.class": "IdentityReplicationPolicy",
        "emit.heartbeats.enabled": "false",
    }
    forth = str(config(tmp_path, given | {"a->b.enabled": "true"}))
    assert run("mirror", "start", forth, "--until-current").code == 0
    with (tmp_path / "back.properties").open("w") as file:
        file.writelines(f"{key} = {value}\n" for key, value in (given | {"b->a.enabled": "true"}).items())
    sender = producer(target.address)
    sender.produce("returns", b"written in the standby", partition=1)
    assert sender.flush(30) == 0
    back = tmp_path / "back.properties"
    told = run("mirror", "go-back", back, "b->a", "--yes", "-o", "json").document
    assert [(each["topic"], each["partition"], each["own"], each["left_behind"]) for each in told] == [
        ("returns", 0, 1, 0), ("returns", 1, 2, 0),
    ]  # fmt: skip
    assert run("mirror", "start", back, "--until-current").code == 0
    home = contents(source.address, "returns", 2)
    assert [len(part) for part in home] == [10, 11] and home[1][-1][1] == b"written in the standby"


def both_ways(source: str, target: str, topic: str) -> tuple[dict[str, str], dict[str, str]]:
    given = properties({"a": source, "b": target}, topics=topic) | {
        "replication.policy.class": "IdentityReplicationPolicy",
        "emit.heartbeats.enabled": "false",
    }
    return given | {"a->b.enabled": "true"}, given | {"b->a.enabled": "true"}


def copy_and_die_before_syncs(forth: dict[str, str], source: str, target: str, topic: str) -> None:
    """What a worker leaves that is killed, or whose source dies, between its commit and the offset syncs."""
    with pytest.MonkeyPatch.context() as patch, mirroring(forth):
        patch.setattr(Copier, "_tell_source", lambda *_: None)
        wait_until_equal(source, topic, target, topic, 2)


def test_going_back_though_the_last_offset_syncs_were_lost(
    clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path
) -> None:
    source, target = (each.address for each in clusters)
    fill(clusters[0], "failed-over", 20)
    forth, back = both_ways(source, target, "failed-over")
    with mirroring(forth):
        wait_until_equal(source, "failed-over", target, "failed-over", 2)
    sender = producer(source)
    for number in range(10):
        sender.produce("failed-over", b"late %d" % number, partition=number % 2)
    assert sender.flush(30) == 0
    copy_and_die_before_syncs(forth, source, target, "failed-over")
    fill_more = producer(target)
    fill_more.produce("failed-over", b"written in the standby", partition=1)
    assert fill_more.flush(30) == 0
    file = config(tmp_path, back)
    assert run("mirror", "go-back", file, "b->a", "--yes").code == 0
    assert run("mirror", "start", file, "--until-current").code == 0
    home = [[value for _, value, *_ in part] for part in contents(source, "failed-over", 2)]
    assert [len(part) for part in home] == [15, 16] and home[1][-1] == b"written in the standby"


@pytest.mark.parametrize("lost", [True, False])
def test_going_back_by_offset_syncs_where_positions_do_not_tell(
    clusters: tuple[BrokerProcess, BrokerProcess], tmp_path: Path, lost: bool
) -> None:
    """As with positions of MirrorMaker 2. What a transaction leaves behind its records is nothing that was copied."""
    source, target = (each.address for each in clusters)
    topic = f"syncs-lost-{lost}".lower()
    fill(clusters[0], topic, 20)
    forth, back = both_ways(source, target, topic)
    with mirroring(forth):
        wait_until_equal(source, topic, target, topic, 2)
        if not lost:
            send_in_transaction(source, topic, [b"one", b"two"])
            wait_until_equal(source, topic, target, topic, 2)
    if lost:
        send_in_transaction(source, topic, [b"one", b"two"])
        copy_and_die_before_syncs(forth, source, target, topic)
    flowing = read_settings(forth).flow("a->b")
    with Cluster(ClientSettings.from_properties(flowing.writing)) as cluster:
        found = positions(flowing, cluster).values()
    store(flowing, [replace(each, target_end=None) for each in found])
    told = run("mirror", "go-back", config(tmp_path, back), "b->a", "--yes")
    assert (told.code != 0) is lost, told.complaint
    assert not lost or f"{topic}-1 was copied up to offset 13, but the offset syncs reach to 10 only" in told.complaint


def send_in_transaction(address: str, topic: str, found: list[bytes]) -> None:
    sender = Producer({"bootstrap.servers": address, "transactional.id": topic})
    sender.init_transactions(30)
    sender.begin_transaction()
    for value in found:
        sender.produce(topic, value, partition=1)
    sender.commit_transaction(30)
