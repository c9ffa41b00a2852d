"""Topics that go, come again and grow while a broker is down: what it finds on its disks when it is back."""

from __future__ import annotations

from pathlib import Path

from moldau.cli.cluster.local_cluster import LocalCluster
from tests.cluster.looking import admin, create, digests, partitions_of, read_all, wait_until_whole
from tests.cluster.test_seen_from_outside import delete
from tests.cluster.test_too_few import write
from tests.support.admin import add_partitions
from tests.support.names import own_name
from tests.support.waiting import wait_until

AWAY = 3


def folders(cluster: LocalCluster, topic: str) -> list[str]:
    """Of the broker that was away, with what is set aside or waits to be deleted."""
    data = cluster.folder(cluster.broker(AWAY)) / "data"
    return sorted(path.name for path in data.iterdir() if path.name.startswith(f"{topic}-"))


def id_in(folder: Path) -> str:
    lines = (folder / "partition.metadata").read_text().splitlines()
    return next(line for line in lines if line.startswith("topic_id"))


def test_a_topic_that_was_deleted_meanwhile_is_set_aside(cluster: LocalCluster) -> None:
    topic = own_name("gone")
    create(cluster, topic, partitions=2)
    write(cluster, topic, "a")
    cluster.kill_member(cluster.broker(AWAY))
    delete(cluster, topic)
    assert folders(cluster, topic) == [f"{topic}-0", f"{topic}-1"], "nobody there to remove them"
    cluster.start_member(cluster.broker(AWAY))
    found = folders(cluster, topic)
    assert not {f"{topic}-0", f"{topic}-1"} & set(found)
    assert all(name.endswith("-stray") for name in found) and len(found) in (0, 2), found
    assert topic not in admin(cluster).list_topics(timeout=20).topics


def test_a_topic_that_was_made_again_meanwhile_has_nothing_of_the_old_one(cluster: LocalCluster) -> None:
    topic = own_name("again")
    create(cluster, topic, partitions=1)
    write(cluster, topic, *(f"old {number}" for number in range(50)))
    data = cluster.folder(cluster.broker(AWAY)) / "data"
    before = id_in(data / f"{topic}-0")
    cluster.kill_member(cluster.broker(AWAY))
    delete(cluster, topic)
    assignment = {0: [1, 2, AWAY]}
    create_again(cluster, topic, assignment)
    write(cluster, topic, "new")
    cluster.start_member(cluster.broker(AWAY))
    wait_until_whole(cluster)
    assert AWAY in partitions_of(cluster, topic)[0][2]
    assert id_in(data / f"{topic}-0") != before
    assert [name for name in folders(cluster, topic) if not name.endswith("-stray")] == [f"{topic}-0"]
    assert read_all(cluster, topic)[0] == [(0, "new")]
    wait_until(lambda: len(digests(cluster, topic, 0)) == 1, "the same bytes everywhere")
    delete(cluster, topic)


def create_again(cluster: LocalCluster, topic: str, assignment: dict[int, list[int]]) -> None:
    """With a replica on the broker that is away, as whoever restores a topic wants it."""
    from confluent_kafka.admin import NewTopic

    client = admin(cluster)
    wanted = NewTopic(topic, len(assignment), replica_assignment=list(assignment.values()))
    client.create_topics([wanted])[topic].result(30)


def test_partitions_that_a_topic_got_meanwhile_are_made(cluster: LocalCluster) -> None:
    topic = own_name("grown")
    create(cluster, topic, partitions=1)
    write(cluster, topic, "a")
    cluster.kill_member(cluster.broker(AWAY))
    add_partitions(admin(cluster), topic, 4)
    cluster.start_member(cluster.broker(AWAY))
    wait_until_whole(cluster)
    held = {index for index, (_, replicas, _) in partitions_of(cluster, topic).items() if AWAY in replicas}
    assert folders(cluster, topic) == sorted(f"{topic}-{index}" for index in held)
    assert read_all(cluster, topic)[0] == [(0, "a")]
    delete(cluster, topic)
