"""What stands in the store: entries of earlier releases, and of later ones."""

from __future__ import annotations

import json
from dataclasses import replace
from uuid import UUID

import pytest

from moldau.metadata import codec, paths
from moldau.metadata.controller.config_changes import ResourceChanges, incremental_alter_configs
from moldau.metadata.controller.config_operations import AlterOperation, SettingChange
from moldau.metadata.controller.config_resources import ResourceType
from moldau.metadata.controller.partition_changes import put_partition
from moldau.metadata.controller.partitions import MorePartitions, create_partitions
from moldau.metadata.controller.producer_ids import next_block
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.image import NO_LEADER, PartitionImage
from moldau.metadata.image_changes import build
from moldau.metadata.store import Listing, Versioned
from tests.support.metadata import Cluster

OF_ONE_BROKER = {
    "/cluster": '{"v":1,"id":"abc"}',
    "/topics/t": '{"v":1,"id":"00000000-0000-0000-0000-0000000000ff","partitions":1}',
    "/topics/t/partitions/0": '{"v":1,"replicas":[1],"isr":[1],"leader":1,"leader_epoch":4}',
    "/configs/topics/t": '{"v":1,"settings":{"retention.ms":"5"}}',
    "/features": '{"v":1,"levels":{"group.version":1}}',
    "/producer-ids": '{"v":1,"next":1000}',
}


def test_the_data_of_one_broker_loads_as_it_was() -> None:
    entries = {path: Versioned(text.encode(), 7, 1, 9) for path, text in OF_ONE_BROKER.items()}
    image = build(Listing(9, entries))
    assert image.partition("t", 0) == PartitionImage((1,), (1,), 1, 4, partition_epoch=7, version=7)
    assert image.topics["t"].configs == {"retention.ms": "5"}
    assert (image.controller, image.brokers, image.producer_ids.next_id) == (None, {}, 1000)


def test_a_stored_partition_epoch_counts_more_than_the_version_of_the_entry() -> None:
    value = codec.encode_partition_entry(codec.PartitionEntry((1,), (1,), 1, 0, partition_epoch=3))
    topic = codec.encode_topic(UUID(int=255), 1)
    entries = {"/topics/t": Versioned(topic, 0, 1, 1), "/topics/t/partitions/0": Versioned(value, 9, 1, 1)}
    partition = build(Listing(1, entries)).topics["t"].partitions[0]
    assert (partition.partition_epoch, partition.version) == (3, 9)


PARTITIONS = [
    codec.PartitionEntry((1, 2, 3), (1,), 1, 5, 9),
    codec.PartitionEntry(
        (1, 2), (), NO_LEADER, 5, 9, (2,), (1,), (1, 2), 2, True, (UUID(int=3), None), '{"later":[1,{"x":2}]}'
    ),
]


@pytest.mark.parametrize("entry", PARTITIONS)
def test_a_partition_is_read_as_it_was_written(entry: codec.PartitionEntry) -> None:
    assert codec.decode_partition("/p", codec.encode_partition_entry(entry)) == entry


def test_what_there_is_not_takes_no_room() -> None:
    members = json.loads(codec.encode_partition([1], [1], 1, 0))
    assert set(members) == {"v", "replicas", "isr", "leader", "leader_epoch", "partition_epoch"}


@pytest.mark.parametrize(
    "entry",
    [
        codec.BrokerStateEntry(3, True),
        codec.BrokerStateEntry(3, False, True, "boot", (UUID(int=1),), (UUID(int=1),), '{"later":1}'),
    ],
)
def test_a_state_is_read_as_it_was_written(entry: codec.BrokerStateEntry) -> None:
    assert codec.decode_broker_state("/s", codec.encode_broker_state(entry)) == entry


def test_a_registration_is_read_as_it_was_written() -> None:
    listeners = (codec.Listener("PLAINTEXT", "host", 9092, "PLAINTEXT"),)
    entry = codec.BrokerEntry(UUID(int=1), listeners, "r", "boot", (UUID(int=2),), {"x.version": (0, 3)}, True, 17)
    assert codec.decode_broker("/b", codec.encode_broker(entry)) == entry


def later_release(cluster: Cluster, path: str) -> None:
    """A release that knows one member more has written this entry."""
    entry = cluster.entries[path]
    value = json.dumps({**json.loads(entry.value), "later": [1, {"x": None}]}).encode()
    cluster.replace_entry(path, value)


def test_members_of_a_later_release_are_kept_when_an_entry_is_written_again() -> None:
    cluster = Cluster()
    cluster.create(NewTopic("t", 1, 1, configs=(("retention.ms", "5"),)))
    cluster.decide(next_block)
    kept = [
        paths.topic("t"), paths.partition("t", 0), paths.topic_config("t"), paths.PRODUCER_IDS, paths.broker_state(1),
    ]  # fmt: skip
    for path in kept:
        later_release(cluster, path)
    before = {path: cluster.entries[path].version for path in kept}
    cluster.decide(next_block)
    cluster.decide(lambda image: create_partitions(image, [MorePartitions("t", 2)], cluster.rng))
    change = ResourceChanges(ResourceType.TOPIC, "t", [SettingChange("retention.ms", int(AlterOperation.SET), "6")])
    cluster.decide(lambda image: incremental_alter_configs(image, [change], cluster.config))
    cluster.put_partition("t", 0, leader_epoch=8)
    cluster.register(1)
    for path in kept:
        assert json.loads(cluster.entries[path].value)["later"] == [1, {"x": None}], path
        assert cluster.entries[path].version > before[path]


def test_a_change_of_a_partition_raises_its_epoch_and_expects_the_version() -> None:
    old = PartitionImage((1, 2), (1, 2), 1, 3, partition_epoch=6, version=2)
    put = put_partition("t", 0, old, replace(old, isr=(1,)))
    assert put.expected_version == 2
    entry = codec.decode_partition(put.path, put.value)
    assert (entry.isr, entry.leader_epoch, entry.partition_epoch) == ((1,), 3, 7)
