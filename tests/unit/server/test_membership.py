"""When a member has something to tell the controller: by what the image says, not by what it has seen happen."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from uuid import UUID

from moldau.metadata.image import EMPTY_IMAGE, BrokerImage, ClusterImage
from moldau.server.membership import must_report
from tests.support.images import with_brokers

HERE, THERE, FAILED = UUID(int=1), UUID(int=2), UUID(int=3)


def cluster(*changed: BrokerImage) -> ClusterImage:
    image = with_brokers(
        EMPTY_IMAGE, {1: ("PLAINTEXT", 9092, 5, UUID(int=11)), 2: ("PLAINTEXT", 9093, 6, UUID(int=12))}
    )
    return replace(image, brokers=MappingProxyType({**image.brokers, **{each.id: each for each in changed}}))


def own_broker(**changes: object) -> BrokerImage:
    return replace(cluster().brokers[1], directories=(HERE, FAILED), **changes)  # type: ignore[arg-type]


def test_a_member_that_is_taken_in_and_well_says_nothing() -> None:
    own = own_broker()
    assert not must_report(cluster(own), own, ())


def test_one_that_is_fenced_reports_until_it_is_taken_in() -> None:
    own = own_broker(fenced=True)
    assert must_report(cluster(own), own, ())


def test_a_failed_folder_is_told_until_the_controller_has_noted_it() -> None:
    own = own_broker()
    assert must_report(cluster(own), own, (FAILED,))
    noted = own_broker(offline_directories=(FAILED,))
    assert not must_report(cluster(noted), noted, (FAILED,))


def test_a_folder_that_was_gone_before_the_start_is_nobodys_news() -> None:
    own = own_broker()
    assert not must_report(cluster(own), own, (THERE,))


def test_all_tell_how_far_they_have_read_while_somebody_leaves() -> None:
    own = own_broker()
    leaving = replace(cluster().brokers[2], shutting_down=True)
    assert must_report(cluster(own, leaving), own, ())
    myself = own_broker(shutting_down=True)
    assert not must_report(cluster(myself), myself, ())
