"""Producer ids, the cluster's identity and its brokers."""

from __future__ import annotations

import pytest

from moldau.metadata import codec, paths
from moldau.metadata.controller.brokers import form_cluster
from moldau.metadata.controller.features import FEATURES_OF_A_NEW_CLUSTER, SUPPORTED_FEATURES
from moldau.metadata.controller.fencing import fence
from moldau.metadata.controller.producer_ids import LAST_ID, ProducerIdBlock, next_block
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.controller.unregistration import unregister_broker
from moldau.metadata.image import EMPTY_IMAGE, NO_LEADER
from moldau.metadata.image_changes import apply
from moldau.metadata.store import Change, Changes, Versioned
from moldau.types.errors import ErrorCode, KafkaError
from tests.support.metadata import Cluster


def test_no_block_of_producer_ids_is_given_twice() -> None:
    cluster = Cluster()
    blocks = [cluster.decide(next_block) for _ in range(3)]
    assert blocks == [ProducerIdBlock(0, 1000), ProducerIdBlock(1000, 1000), ProducerIdBlock(2000, 1000)]
    assert cluster.image.producer_ids.next_id == 3000


def test_producer_ids_end_before_they_overflow() -> None:
    value = codec.encode_producer_ids(LAST_ID - 999)
    image, _ = apply(EMPTY_IMAGE, Changes(1, (Change(paths.PRODUCER_IDS, Versioned(value, 0, 1, 1)),)))
    with pytest.raises(KafkaError, match="Exhausted"):
        next_block(image)


def test_a_cluster_is_formed_once() -> None:
    cluster = Cluster()
    assert cluster.image.cluster_id == "the-cluster"
    before = cluster.image
    assert cluster.decide(lambda image: form_cluster(image, "another", {"x": 9})) == "the-cluster"
    assert cluster.image is before


def test_features_are_finalized_at_what_is_supported() -> None:
    levels = Cluster().image.features.levels
    assert levels == FEATURES_OF_A_NEW_CLUSTER
    assert all(SUPPORTED_FEATURES[name].highest == level for name, level in levels.items())
    assert (levels["transaction.version"], levels["group.version"], levels["metadata.version"]) == (2, 1, 30)


def test_a_registration_replaces_the_one_before() -> None:
    cluster = Cluster({1: "rack-a"})
    broker = cluster.image.brokers[1]
    assert (broker.rack, broker.fenced, broker.listeners["PLAINTEXT"].host) == ("rack-a", False, "host1")
    cluster.register(1, "rack-b", fenced=True)
    changed = cluster.image.brokers[1]
    assert (changed.rack, changed.fenced) == ("rack-b", True)
    assert broker.epoch < changed.epoch == cluster.image.version
    assert cluster.delta.brokers == {1}


def test_what_the_controller_said_of_an_earlier_registration_does_not_count() -> None:
    cluster = Cluster()
    state = cluster.image.brokers[1].state
    assert cluster.image.brokers[1].is_active
    cluster.register(1, fenced=True)
    returned = cluster.image.brokers[1]
    assert (returned.is_active, returned.fenced, returned.state) == (False, True, state)
    cluster.unfence(1)
    assert cluster.image.brokers[1].is_active


def test_a_broker_that_is_forgotten_has_no_claim_left() -> None:
    cluster = Cluster({1: None, 2: None})
    cluster.create(NewTopic("both", assignments=((0, (2, 1)),)), NewTopic("alone", assignments=((0, (2,)),)))
    cluster.decide(lambda image: fence(image, (2,), cluster.config))
    cluster.decide(lambda image: unregister_broker(image, 2, (1,), cluster.config))
    assert 2 not in cluster.image.brokers
    assert not cluster.image.broker_states.get(2)
    both, alone = (cluster.image.topics[name].partitions[0] for name in ("both", "alone"))
    assert (both.replicas, both.isr, both.leader) == ((2, 1), (1,), 1)
    assert (alone.isr, alone.elr, alone.leader, alone.last_known_leader) == ((), (), NO_LEADER, NO_LEADER)
    cluster.register(2)
    assert cluster.image.topics["alone"].partitions[0].leader == NO_LEADER
    with pytest.raises(KafkaError) as refused:
        cluster.decide(lambda image: unregister_broker(image, 7, (1,), cluster.config))
    assert refused.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


@pytest.mark.parametrize(("is_fenced", "alive"), [(False, (1,)), (True, (1, 2))])
def test_a_broker_that_is_there_is_not_forgotten(is_fenced: bool, alive: tuple[int, ...]) -> None:
    """Neither one that takes part nor one that is just starting: it would serve nothing, and not know why."""
    cluster = Cluster({1: None, 2: None})
    if is_fenced:
        cluster.decide(lambda image: fence(image, (2,), cluster.config))
    with pytest.raises(KafkaError, match="stop it first") as refused:
        cluster.decide(lambda image: unregister_broker(image, 2, alive, cluster.config))
    assert refused.value.code is ErrorCode.INVALID_REQUEST
    assert 2 in cluster.image.brokers
