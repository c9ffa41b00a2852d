"""What can happen to a cluster of real processes. A fault may leave members down; the caller starts them again."""

from __future__ import annotations

import random
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from moldau.cli.local_cluster import HOST, LocalCluster, Process
from moldau.cli.zookeeper_process import mode_of
from tests.cluster.load import Load
from tests.cluster.looking import admin, partitions_of, wait_until_whole
from tests.support.waiting import wait_until

LONGEST_PAUSE_SECONDS = 12.0
LONGEST_AWAY_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Scene:
    cluster: LocalCluster
    load: Load
    chance: random.Random
    topic: str

    def leader(self) -> Process:
        return self.cluster.broker(partitions_of(self.cluster, self.topic)[0][0])

    def controller(self) -> Process:
        client = admin(self.cluster)

        def known() -> int:
            return max(client.describe_cluster(request_timeout=20).result(20).controller.id, 0)

        return self.cluster.broker(wait_until(known, "a controller"))

    def zookeeper_leader(self) -> Process:
        def found() -> Process | None:
            leads = (each for each in self.cluster.zookeepers if mode_of(HOST, each.port) == "leader")
            return next(leads, None)

        server = wait_until(found, "a leader of the ensemble")
        assert server is not None
        return server

    def brokers(self, count: int = 1) -> Sequence[Process]:
        return self.chance.sample(list(self.cluster.brokers), count)

    def kill(self, *members: Process) -> None:
        """All of them at once, and away for a while."""
        for member in members:
            self.cluster.kill_member(member)
        self.lasts(self.chance.uniform(0, LONGEST_AWAY_SECONDS))

    def pause(self, *members: Process) -> None:
        for member in members:
            self.cluster.pause_member(member)
        try:
            self.lasts(self.chance.uniform(1, LONGEST_PAUSE_SECONDS))
        finally:
            for member in members:
                self.cluster.resume_member(member)

    def lasts(self, seconds: float) -> None:
        """How long a fault is there; nothing is synchronised by it."""
        threading.Event().wait(seconds)


def kill_leader_and_controller(scene: Scene) -> None:
    scene.kill(*{each.number: each for each in (scene.leader(), scene.controller())}.values())


def pause_then_kill(scene: Scene) -> None:
    """What the paused one wakes up to is led by others, one of whom is gone."""
    (paused, killed) = scene.brokers(2)
    scene.cluster.pause_member(paused)
    try:
        scene.lasts(scene.chance.uniform(0, 3))
        scene.kill(killed)
    finally:
        scene.cluster.resume_member(paused)


def kill_while_starting(scene: Scene) -> None:
    (victim,) = scene.brokers()
    scene.cluster.kill_member(victim)
    scene.cluster.spawn_member(victim)
    scene.lasts(scene.chance.uniform(0.2, 2))
    scene.cluster.kill_member(victim)


def rolling_restart(scene: Scene) -> None:
    for broker in scene.cluster.brokers:
        scene.cluster.stop_member(broker)
        scene.lasts(scene.chance.uniform(0, 1))
        scene.cluster.start_member(broker)
        wait_until_whole(scene.cluster)


def wipe(scene: Scene) -> None:
    (victim,) = scene.brokers()
    scene.cluster.kill_member(victim)
    shutil.rmtree(scene.cluster.folder(victim) / "data")


def kill_a_broker_and_a_zookeeper(scene: Scene) -> None:
    scene.kill(*scene.brokers(), scene.chance.choice(list(scene.cluster.zookeepers)))


def any_zookeeper(scene: Scene) -> Process:
    return scene.chance.choice(list(scene.cluster.zookeepers))


FAULTS: Mapping[str, Callable[[Scene], None]] = {
    "kill-leader": lambda scene: scene.kill(scene.leader()),
    "kill-controller": lambda scene: scene.kill(scene.controller()),
    "kill-leader-and-controller": kill_leader_and_controller,
    "kill-broker": lambda scene: scene.kill(*scene.brokers()),
    "kill-two-brokers": lambda scene: scene.kill(*scene.brokers(2)),
    "kill-all-brokers": lambda scene: scene.kill(*scene.brokers(3)),
    "kill-while-starting": kill_while_starting,
    "pause-leader": lambda scene: scene.pause(scene.leader()),
    "pause-controller": lambda scene: scene.pause(scene.controller()),
    "pause-two-brokers": lambda scene: scene.pause(*scene.brokers(2)),
    "pause-then-kill": pause_then_kill,
    "rolling-restart": rolling_restart,
    "wipe-broker": wipe,
    "kill-zookeeper": lambda scene: scene.kill(any_zookeeper(scene)),
    "kill-zookeeper-leader": lambda scene: scene.kill(scene.zookeeper_leader()),
    "kill-two-zookeepers": lambda scene: scene.kill(*scene.chance.sample(list(scene.cluster.zookeepers), 2)),
    "pause-zookeeper": lambda scene: scene.pause(any_zookeeper(scene)),
    "pause-zookeeper-leader": lambda scene: scene.pause(scene.zookeeper_leader()),
    "kill-broker-and-zookeeper": kill_a_broker_and_a_zookeeper,
}
