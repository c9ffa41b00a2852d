"""Brokers that have gone are listed a while longer, with an injected clock."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from uuid import UUID

from moldau.metadata.image import EMPTY_IMAGE, ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.server.lingering import LingeringBrokers
from tests.support.images import with_brokers


class Scene:
    def __init__(self) -> None:
        self.now = 100.0
        self.lingering = LingeringBrokers(lambda: self.now, 30.0)
        self.image: ClusterImage = EMPTY_IMAGE
        self.become({1: 9001, 2: 9002})

    def become(self, ports: dict[int, int], fenced: tuple[int, ...] = ()) -> None:
        new = with_brokers(self.image, {number: ("P", port, 1, UUID(int=number)) for number, port in ports.items()})
        brokers = {number: replace(broker, fenced=number in fenced) for number, broker in new.brokers.items()}
        new = replace(new, brokers=MappingProxyType(brokers))
        self.lingering.apply(self.image, new, ImageDelta())
        self.image = new

    def listed(self) -> list[tuple[int, int]]:
        return [(broker.id, broker.listeners["P"].port) for broker in self.lingering.brokers()]


def test_nobody_lingers_who_is_there() -> None:
    assert Scene().listed() == []


def test_one_that_is_fenced_or_unregistered_is_listed_until_its_time_is_over() -> None:
    scene = Scene()
    scene.become({1: 9001, 2: 9002}, fenced=(2,))
    scene.now += 10
    scene.become({2: 9002}, fenced=(2,))
    assert scene.listed() == [(2, 9002), (1, 9001)]
    scene.now += 20
    assert scene.listed() == [(1, 9001)]
    scene.now += 10
    assert scene.listed() == []


def test_one_that_comes_back_is_listed_where_it_is_now() -> None:
    scene = Scene()
    scene.become({1: 9001, 2: 9002}, fenced=(2,))
    scene.become({1: 9001, 2: 9100})
    assert scene.listed() == []
    scene.become({1: 9001, 2: 9100}, fenced=(2,))
    assert scene.listed() == [(2, 9100)]


def test_one_that_starts_fenced_was_never_there() -> None:
    scene = Scene()
    scene.become({1: 9001, 2: 9002, 3: 9003}, fenced=(3,))
    scene.become({1: 9001, 2: 9002})
    assert scene.listed() == []
