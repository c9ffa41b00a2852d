"""What becomes of records that have come from the source when something else goes wrong at that moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moldau.client.errors import AuthenticationFailed, ConnectionLost
from moldau.mirror.batches import cut
from moldau.mirror.fetching import Fetcher, Part
from tests.support.broker import Broker
from tests.support.mirroring import flow, mirroring, producer, properties, wait_until_equal
from tests.support.process import BrokerProcess

pytestmark = pytest.mark.xdist_group("mirror-answers")
PARTITIONS = 3


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[BrokerProcess, BrokerProcess]]:
    folder = tmp_path_factory.mktemp("clusters")
    settings = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1, "num.partitions": PARTITIONS}
    with Broker(folder / "a", settings) as source, Broker(folder / "b", settings) as target:
        yield source, target


def fill(address: str, topic: str) -> None:
    sender = producer(address)
    for number in range(60):
        sender.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert sender.flush(60) == 0


def copy_while(
    clusters: tuple[BrokerProcess, BrokerProcess], topic: str, armed: Callable[[pytest.MonkeyPatch], None]
) -> None:
    source, target = (each.address for each in clusters)
    fill(source, topic)
    settings = properties({"a": source, "b": target}, a_to_b__enabled="true", topics=topic)
    with pytest.MonkeyPatch.context() as patch, mirroring(settings) as mirror:
        wait_until_equal(source, topic, target, f"a.{topic}", PARTITIONS)
        armed(patch)
        fill(source, topic)
        wait_until_equal(source, topic, target, f"a.{topic}", PARTITIONS)
        assert flow(mirror, "a->b").shared.as_json("a->b")["state"] == "RUNNING"


def test_records_are_used_though_the_next_question_is_refused(clusters: tuple[BrokerProcess, BrokerProcess]) -> None:
    land = Fetcher._land

    def refused(self: Fetcher) -> None:
        raise AuthenticationFailed("the password has just been changed")

    def landing(self: Fetcher, node: int) -> Iterator[Part]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Fetcher, "_ask", refused)
            found = list(land(self, node))
        yield from found

    copy_while(clusters, "refused", lambda patch: patch.setattr(Fetcher, "_land", landing))


def test_records_are_asked_for_again_where_their_use_was_interrupted(
    clusters: tuple[BrokerProcess, BrokerProcess],
) -> None:
    lost = ["once"]

    def cutting(*given: Any) -> Any:
        if lost:
            raise ConnectionLost(f"to the source, of which another partition was asked {lost.pop()}")
        return cut(*given)

    copy_while(clusters, "interrupted", lambda patch: patch.setattr("moldau.mirror.copying.cut", cutting))
