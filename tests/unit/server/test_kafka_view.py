"""Kafka's nodes in ZooKeeper: what they hold, that they follow the image, and that only the controller writes them."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from types import MappingProxyType
from typing import Any, cast
from uuid import UUID

import pytest

from moldau.metadata.image import EMPTY_IMAGE, ClusterImage, ControllerImage, PartitionImage, Settings, TopicImage
from moldau.metadata.image_changes import ImageDelta, TopicDelta
from moldau.metadata.publisher import ImageHolder
from moldau.metadata.zookeeper.layout import Layout
from moldau.metadata.zookeeper.view import ViewWriter
from moldau.metrics import Metrics
from moldau.server import kafka_view
from moldau.server.isr_meter import IsrMeter
from moldau.server.kafka_view import KafkaView
from tests.fakes.zookeeper import Ensemble
from tests.support.loops import until

ONE = PartitionImage((1, 2), (1, 2), 1, 4, 7)
TWO = PartitionImage((2, 1), (2,), 2, 0, 0, adding=(1,))


def topic(name: str, *partitions: PartitionImage, number: int = 9) -> TopicImage:
    return TopicImage(name, UUID(int=number), partitions, Settings({"min.insync.replicas": "2"}, 0))


def image(*topics: TopicImage, controller: int = 1, epoch: int = 3) -> ClusterImage:
    return replace(
        EMPTY_IMAGE,
        cluster_id="abc",
        controller=ControllerImage(controller, 1, epoch - 1),
        topics=MappingProxyType({each.name: each for each in topics}),
    )


class Images:
    def __init__(self, current: ClusterImage) -> None:
        self.image = current

    def watch(self, _watcher: object) -> None:
        return None


class Shown:
    """A view of broker 1 over a model of ZooKeeper."""

    def __init__(self, images: Images | None = None) -> None:
        self.images = images or Images(EMPTY_IMAGE)
        self.ensemble = Ensemble()
        port = self.ensemble.connect()
        port.create("/here", b"")  # the store has made it
        writer = ViewWriter(port, Layout("/here"))
        self.view = KafkaView(writer, cast(ImageHolder, self.images), 1, lambda: 1540874053577)

    def document(self, path: str) -> Any:
        return json.loads(self.ensemble.leader.nodes[f"/here{path}"].value)

    @property
    def paths(self) -> set[str]:
        return {path.removeprefix("/here") for path in self.ensemble.leader.nodes if path.startswith("/here/")}


def test_the_nodes_are_kafkas() -> None:
    async def go() -> None:
        shown = Shown()
        await shown.view.show(image(topic("t", ONE, TWO)))
        assert shown.document("/controller") == {"version": 1, "brokerid": 1, "timestamp": "1540874053577"}
        assert shown.ensemble.leader.nodes["/here/controller"].owner != 0
        assert shown.document("/controller_epoch") == 3
        assert shown.document("/cluster/id") == {"version": "1", "id": "abc"}
        assert shown.document("/brokers/topics/t/partitions/0/state") == {
            "controller_epoch": 3,
            "leader": 1,
            "version": 1,
            "leader_epoch": 4,
            "isr": [1, 2],
        }
        assigned = shown.document("/brokers/topics/t")
        assert assigned["partitions"] == {"0": [1, 2], "1": [2, 1]}
        assert assigned["adding_replicas"] == {"1": [1]}
        assert shown.document("/config/topics/t") == {"version": 1, "config": {"min.insync.replicas": "2"}}

    asyncio.run(go())


def test_they_follow_what_changes_and_vanish_with_what_is_deleted() -> None:
    async def go() -> None:
        shown = Shown()
        kept = topic("kept", ONE)
        await shown.view.show(image(kept, topic("t", ONE, TWO)))
        led = replace(TWO, leader=1, leader_epoch=1)
        await shown.view.show(image(kept, topic("t", ONE, led), epoch=5))
        assert shown.document("/brokers/topics/t/partitions/1/state")["leader_epoch"] == 1
        assert shown.document("/brokers/topics/t/partitions/1/state")["controller_epoch"] == 5
        assert shown.document("/brokers/topics/t/partitions/0/state")["controller_epoch"] == 3, "did not change"
        await shown.view.show(image(kept, topic("t", ONE, number=10)))
        assert "/brokers/topics/t/partitions/1" not in shown.paths, "created anew with fewer partitions"
        await shown.view.show(image(kept))
        assert not [path for path in shown.paths if path.split("/")[-1] == "t"]
        assert "/brokers/topics/kept/partitions/0/state" in shown.paths

    asyncio.run(go())


def test_only_the_controller_writes_and_one_that_takes_over_sweeps() -> None:
    async def go() -> None:
        shown = Shown()
        await shown.view.show(image(topic("t", ONE), controller=2))
        assert shown.paths == set()
        await shown.view.show(image(topic("t", ONE)))
        await shown.view.show(image(controller=2))
        assert "/brokers/topics/t" in shown.paths, "the other one's business"
        await shown.view.show(image())
        assert "/brokers/topics/t" not in shown.paths

    asyncio.run(go())


def test_another_session_shows_the_controller_again() -> None:
    async def go() -> None:
        shown = Shown()
        await shown.view.show(image())
        shown.ensemble.end_session(shown.ensemble.leader.nodes["/here/controller"].owner)
        await shown.view.show(image())
        assert "/controller" not in shown.paths
        shown.view.begin_anew()
        await shown.view.show(image())
        assert "/controller" in shown.paths

    asyncio.run(go())


def test_a_controller_that_somebody_deletes_is_shown_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_view, "BEHIND_SECONDS", 0.0)

    async def go() -> None:
        shown = Shown(Images(image(topic("t", ONE))))
        shown.view.begin()
        somebody = ViewWriter(shown.ensemble.connect(), Layout("/here"))
        for _ in range(3):
            await until(lambda: {"/controller", "/brokers/topics/t/partitions/0/state"} <= shown.paths)
            await somebody.remove("/controller")
        await until(lambda: "/controller" in shown.paths)
        shown.images.image = image(topic("t", ONE), controller=2)
        await somebody.remove("/controller")
        for _ in range(200):
            await asyncio.sleep(0)
        assert "/controller" not in shown.paths, "another broker's business now"
        await shown.view.stop()

    asyncio.run(go())


def test_in_sync_sets_of_what_a_broker_leads_are_counted() -> None:
    metrics = Metrics()
    meter = IsrMeter(metrics, 1)
    smaller = replace(ONE, isr=(1,))

    def change(old: PartitionImage, new: PartitionImage) -> None:
        delta = TopicDelta(topic("t", old, TWO), topic("t", new, replace(TWO, isr=())), (0, 1), False)
        meter.apply(EMPTY_IMAGE, EMPTY_IMAGE, ImageDelta(changed=(delta,)))

    change(ONE, smaller)
    change(smaller, ONE)
    change(ONE, replace(ONE, isr=(1, 3)))
    found = {name.name: value for name, value in metrics.snapshot()}
    assert found == {"IsrShrinksPerSec": 2, "IsrExpandsPerSec": 2}
