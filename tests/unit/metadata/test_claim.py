"""Who may take a cluster over, and in which order they try."""

from __future__ import annotations

import pytest

from moldau.metadata.controller.claim import claim, is_active_controller, may_claim, rank, step_down
from moldau.metadata.controller.fencing import fence
from moldau.metadata.controller.shutdown import may_close
from moldau.metadata.image import NO_CONTROLLER
from tests.support.metadata import Cluster

ALL = (1, 2, 3)


@pytest.fixture
def cluster() -> Cluster:
    return Cluster(dict.fromkeys(ALL))


def test_epochs_rise_from_claim_to_claim(cluster: Cluster) -> None:
    assert cluster.image.controller is None
    assert may_claim(cluster.image, 2, ALL, ())
    assert cluster.decide(lambda image: claim(image, 2)) == 1
    assert is_active_controller(cluster.image, 2)
    assert cluster.delta.controller
    assert cluster.image.controller is not None
    assert (cluster.image.controller.id, cluster.image.controller.epoch) == (2, 1)
    assert cluster.decide(lambda image: claim(image, 3)) == 2
    assert cluster.image.controller.epoch == 2
    assert not is_active_controller(cluster.image, 2)


def test_a_living_controller_is_left_alone(cluster: Cluster) -> None:
    cluster.decide(lambda image: claim(image, 2))
    incarnation = cluster.image.brokers[2].incarnation
    assert not may_claim(cluster.image, 1, ALL, ())
    assert may_claim(cluster.image, 1, (1, 3), ())
    assert may_claim(cluster.image, 1, ALL, {incarnation})
    assert not may_claim(cluster.image, 9, (1, 3), ())


def test_a_controller_that_started_anew_is_none_until_it_claims_again(cluster: Cluster) -> None:
    cluster.decide(lambda image: claim(image, 2))
    cluster.register(2)
    assert not is_active_controller(cluster.image, 2)
    assert may_claim(cluster.image, 1, ALL, ())
    assert may_claim(cluster.image, 2, ALL, ())


def test_who_steps_down_leaves_the_epoch(cluster: Cluster) -> None:
    cluster.decide(lambda image: claim(image, 2))
    assert not cluster.decide(lambda image: step_down(image, 1))
    assert cluster.decide(lambda image: step_down(image, 2))
    assert cluster.image.controller is not None
    assert cluster.image.controller.id == NO_CONTROLLER
    assert may_claim(cluster.image, 3, ALL, ())
    assert cluster.decide(lambda image: claim(image, 3)) == 3


def test_candidates_wait_their_turn(cluster: Cluster) -> None:
    cluster.decide(lambda image: claim(image, 1))
    assert [rank(cluster.image, broker, ALL) for broker in (2, 3)] == [0, 1]
    assert rank(cluster.image, 3, (3,)) == 0
    cluster.decide(lambda image: fence(image, [2], cluster.config))
    assert [rank(cluster.image, broker, ALL) for broker in (2, 3)] == [1, 0]


def test_a_broker_closes_when_all_others_know_that_it_leads_nothing(cluster: Cluster) -> None:
    now = cluster.image.version
    assert not may_close(cluster.image, 2, {1: now})
    assert not may_close(cluster.image, 2, {1: now, 3: now - 1})
    assert may_close(cluster.image, 2, {1: now, 3: now})
