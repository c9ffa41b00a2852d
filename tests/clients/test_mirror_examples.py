"""The examples of mirroring do what they say; in `-m live` one of their brokers is Apache Kafka, each in turn."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Self

import pytest

from mirroring import both_ways, hub, replacement, standby
from moldau.testing import Broker
from moldau.testing.brokers import Kafka
from tests.peers.apache_kafka import ApacheKafka

pytestmark = pytest.mark.xdist_group("mirror")


class Apache(Kafka):
    """Apache Kafka with the face of the examples' broker."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._broker = ApacheKafka(Path(self._folder.name), {"offsets.topic.num.partitions": 1})

    def __enter__(self) -> Self:
        self.start()
        self.bootstrap = self._broker.address
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self._folder.cleanup()

    def start(self) -> None:
        self._broker.start()

    def kill(self) -> None:
        self._broker.kill()


def apache_at(place: int) -> Callable[[], Kafka]:
    """Makes brokers, of which the one at this place is Apache Kafka."""
    made: Iterator[Kafka] = (Apache() if number == place else Broker() for number in range(10))
    return lambda: next(made)


def placed(module: ModuleType, *places: int) -> list[object]:
    return [
        pytest.param(place, id="ours" if place < 0 else f"{module.__name__} with Apache Kafka at {place}",
                     marks=[pytest.mark.live, pytest.mark.timeout(600)] if place >= 0 else [])
        for place in (-1, *places)
    ]  # fmt: skip


@pytest.mark.parametrize("place", placed(hub, 0, 2))
def test_a_hub_holds_the_union_of_its_spokes(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "Broker", apache_at(place))
    sales = {shop: [f"{shop}-{number}" for number in range(100)] for shop in hub.SHOPS}
    assert sorted(hub.run(sales)) == sorted(sales["berlin"] + sales["tokyo"])


@pytest.mark.parametrize("place", placed(both_ways, 0))
def test_what_is_written_on_either_side_is_read_on_both_and_does_not_go_round(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(both_ways, "Broker", apache_at(place))
    here, there = [f"us-{number}" for number in range(50)], [f"eu-{number}" for number in range(70)]
    seen = both_ways.run(here, there)
    assert sorted(seen["us"]) == sorted(seen["eu"]) == sorted(here + there)
    assert seen["topics of us"] == ["eu.visits", "visits"]


@pytest.mark.parametrize("place", placed(standby, 0, 1))
def test_a_standby_takes_over_and_gives_back_without_losing_or_repeating_anything(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby, "Broker", apache_at(place))
    seen = standby.run(100)
    orders = [f"order {number}" for number in range(100)]
    meanwhile = [f"standby order {number}" for number in range(100)]
    assert seen["us"] == orders[:50]
    assert seen["eu"] == orders[50:] + meanwhile[:50]
    assert seen["us again"] == meanwhile[50:]


@pytest.mark.parametrize("place", placed(replacement, 0, 1))
def test_a_new_cluster_takes_the_place_of_an_old_one_without_losing_or_repeating_anything(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replacement, "Broker", apache_at(place))
    seen = replacement.run(100)
    assert seen["old"] + seen["new"] == [
        f"{kind} {number}" for kind in ("order", "later order") for number in range(100)
    ]
