"""Until when a leader answers what no follower confirms."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.replication.leader import Neighbours
from moldau.replication.leases import FOR_EVER, NEVER, Lease
from moldau.replication.partition import Partition
from moldau.types.errors import ErrorCode, KafkaError
from tests.support.logs import TOPIC_PARTITION
from tests.support.terms import term
from tests.unit.replication.test_leader import Log

SECONDS = 4.0


class Around:
    def __init__(self) -> None:
        self.now, self.heard = 100.0, 100.0
        self.lease = Lease(SECONDS, lambda: self.now, lambda: self.heard)

    def led(self, isr: tuple[int, ...], elr: tuple[int, ...] = ()) -> Partition:
        neighbours = Neighbours(lambda: 0.0, lambda _: 5, lambda _: True, lambda: 1000, self.lease)
        one = Partition(TOPIC_PARTITION, UUID(int=1), 1, neighbours)
        one.log = cast(Any, Log(10, 1))
        one.lead(replace(term(1, epoch=5, replicas=(1, 2, 3), isr=isr), elr=elr))
        return one


@pytest.mark.parametrize(
    ("heard_ago", "proven_ago", "holds"),
    [
        (4.0, (), True),
        (4.1, (), False),
        (4.1, (4.0, 1.0), True),
        (4.1, (4.1, 1.0), False),
        (0.0, (100.0,), True),
    ],
)
def test_one_of_store_and_all_followers_has_to_be_recent(
    heard_ago: float, proven_ago: tuple[float, ...], holds: bool
) -> None:
    around = Around()
    around.heard = around.now - heard_ago
    assert around.lease.holds([around.now - each for each in proven_ago]) is holds


def test_one_broker_alone_needs_none() -> None:
    assert FOR_EVER.holds([NEVER])


def test_a_leader_that_hears_nothing_refuses_when_its_lease_is_over() -> None:
    around = Around()
    one = around.led((1, 2))
    one.check_lease()
    around.now += SECONDS + 0.1
    with pytest.raises(KafkaError) as refused:
        one.check_lease()
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_followers_that_go_on_stand_for_a_store_that_is_away() -> None:
    around = Around()
    one = around.led((1, 2, 3))
    around.now += 10.0
    one.fetched_by(2, 10, 0, 5, around.now - 1.0)
    assert not one.holds_lease()
    one.fetched_by(3, 10, 0, 5, around.now - 0.5)
    assert one.holds_lease()
    around.now += SECONDS
    assert not one.holds_lease()


def test_a_fetch_without_a_session_proves_nothing() -> None:
    around = Around()
    one = around.led((1, 2))
    around.now += 10.0
    one.fetched_by(2, 10, 0, 5)
    assert not one.holds_lease()


def test_a_leader_without_rivals_answers_on() -> None:
    around = Around()
    one = around.led((1,))
    around.now += 1000.0
    assert one.holds_lease()


def test_an_eligible_replica_is_a_rival() -> None:
    around = Around()
    one = around.led((1,), elr=(2,))
    around.now += 1000.0
    assert not one.holds_lease()


def test_a_replica_that_is_proposed_is_a_rival() -> None:
    """The controller may have taken it in, and elected it, without this leader's having read so."""
    around = Around()
    one = around.led((1,))
    change = one.fetched_by(2, 10, 0, 5, around.now)
    assert change is not None
    assert one.holds_lease()
    around.now += SECONDS + 0.1
    assert not one.holds_lease()
    one.isr_answered(change, ErrorCode.INELIGIBLE_REPLICA)
    assert one.holds_lease()


def test_a_proposal_that_the_image_has_overtaken_counts_no_more() -> None:
    around = Around()
    one = around.led((1,))
    assert one.fetched_by(2, 10, 0, 5, around.now) is not None
    one.lead(term(1, epoch=5, replicas=(1, 2, 3), isr=(1,), partition_epoch=1))
    around.now += 1000.0
    assert one.holds_lease()


def test_with_unclean_elections_every_replica_is_a_rival() -> None:
    around = Around()
    one = around.led((1,))
    one.reconfigure(settings(unclean=True))
    around.now += SECONDS + 0.1
    assert not one.holds_lease()
    one.fetched_by(2, 5, 0, 5, around.now)
    one.fetched_by(3, 5, 0, 5, around.now)
    assert one.holds_lease()
    one.reconfigure(settings(unclean=False))
    around.now += 1000.0
    assert one.holds_lease()


def settings(*, unclean: bool) -> Any:
    return SimpleNamespace(min_insync_replicas=1, unclean_leader_election_enable=unclean)
