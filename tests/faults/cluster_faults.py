"""What can happen to a cluster of real processes. A fault may leave members down; the caller starts them again."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from moldau.cli.cluster.local_cluster import Command, LocalCluster, Process
from moldau.cli.zookeeper.process import mode_of
from tests.cluster.load import Load
from tests.cluster.looking import admin, partitions_of, wait_until_whole
from tests.support.waiting import wait_until

LONGEST_PAUSE_SECONDS = 12.0
LONGEST_AWAY_SECONDS = 4.0
FULL_DISK_SECONDS = 60.0
REFUSED_SECONDS = 1.0


class Network(Protocol):
    """Between brokers, each at a host of its own, and the hub, where ZooKeeper and the clients are."""

    hub: str

    def prepare(self, cluster: LocalCluster) -> None:
        """Before its members are started."""

    def host_of(self, member: Process) -> str: ...

    def wrap(self, member: Process, command: Command) -> Command: ...

    def lost(self, *pairs: tuple[str, str]) -> AbstractContextManager[None]:
        """What the first of each pair sends to the second is lost."""


@dataclass(frozen=True, slots=True)
class Scene:
    cluster: LocalCluster
    load: Load
    chance: random.Random
    topic: str
    network: Network | None = None

    def leader(self) -> Process:
        return self.cluster.broker(partitions_of(self.cluster, self.topic)[0][0])

    def controller(self) -> Process:
        client = admin(self.cluster)

        def known() -> int:
            return max(client.describe_cluster(request_timeout=20).result(20).controller.id, 0)

        return self.cluster.broker(wait_until(known, "a controller"))

    def zookeeper_that_is(self, mode: str) -> Process:
        def found() -> Process | None:
            having = (each for each in self.cluster.zookeepers if mode_of(each.host, each.port) == mode)
            return next(having, None)

        server = wait_until(found, f"a {mode} of the ensemble")
        assert server is not None
        return server

    def brokers(self, count: int = 1) -> Sequence[Process]:
        return self.chance.sample(list(self.cluster.brokers), count)

    def kill(self, *members: Process) -> None:
        """All of them at once, and away for a while."""
        for member in members:
            self.cluster.kill_member(member)
        self.lasts(self.chance.uniform(0, LONGEST_AWAY_SECONDS))

    def wait_until_gone(self) -> None:
        """What does not run: a proxy finds out when it is asked for who is behind it, and its port is taken until
        then."""
        gone = [member for member in self.cluster.members if not member.runs]
        wait_until(lambda: all(map(refuses, gone)), f"nobody listens for {[member.name for member in gone]}")

    def pause(self, *members: Process) -> None:
        for member in members:
            self.cluster.pause_member(member)
        try:
            self.lasts(self.chance.uniform(1, LONGEST_PAUSE_SECONDS))
        finally:
            for member in members:
                self.cluster.resume_member(member)

    def cut(self, *pairs: tuple[str, str]) -> None:
        """What the first of a pair sends to the second is lost for a while, without a word to anybody."""
        assert self.network is not None
        with self.network.lost(*pairs):
            self.lasts(self.chance.uniform(1, LONGEST_PAUSE_SECONDS))

    def lasts(self, seconds: float) -> None:
        """How long a fault is there; nothing is synchronised by it."""
        threading.Event().wait(seconds)


Fault = Callable[[Scene], None]


def refuses(member: Process) -> bool:
    try:
        with socket.create_connection((member.host, member.port), timeout=REFUSED_SECONDS):
            return False
    except ConnectionRefusedError:
        return True
    except OSError:
        return False


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
        scene.wait_until_gone()
        scene.cluster.start_member(broker)
        wait_until_whole(scene.cluster)


def wipe(scene: Scene) -> None:
    (victim,) = scene.brokers()
    scene.cluster.kill_member(victim)
    for found in (scene.cluster.folder(victim) / "data").iterdir():  # the folder itself may be a file system of its own
        shutil.rmtree(found) if found.is_dir() else found.unlink()


def kill_a_broker_and_a_zookeeper(scene: Scene) -> None:
    scene.kill(*scene.brokers(), scene.chance.choice(list(scene.cluster.zookeepers)))


def any_zookeeper(scene: Scene) -> Process:
    return scene.chance.choice(list(scene.cluster.zookeepers))


def cut_off(scene: Scene, victim: Process) -> None:
    """From everybody: the other brokers, ZooKeeper and the clients."""
    assert scene.network is not None
    others = [each.host for each in scene.cluster.brokers if each is not victim] + [scene.network.hub]
    scene.cut(*((victim.host, other) for other in others), *((other, victim.host) for other in others))


def cut_between_brokers(scene: Scene) -> None:
    """Both still reach ZooKeeper and the clients."""
    one, other = (each.host for each in scene.brokers(2))
    scene.cut((one, other), (other, one))


def cut_one_way(scene: Scene) -> None:
    one, other = (each.host for each in scene.brokers(2))
    scene.cut((one, other))


def cut_from_zookeeper(scene: Scene) -> None:
    """And from the clients, which are on the same side; the followers still fetch."""
    assert scene.network is not None
    victim, hub = scene.leader().host, scene.network.hub
    scene.cut((victim, hub), (hub, victim))


def fill_disk(scene: Scene) -> None:
    """No room for a record: the folder goes offline, and with its only one the broker ends."""
    (victim,) = scene.brokers()
    ballast = scene.cluster.folder(victim) / "data" / "ballast"
    try:
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(1 << 20))
        wait_until(lambda: not victim.runs, f"{victim.name} ends on a full disk", FULL_DISK_SECONDS)
    finally:
        ballast.unlink()


#: Only where there is something between brokers that can be cut.
CUTS: Mapping[str, Fault] = {
    "cut-leader-off": lambda scene: cut_off(scene, scene.leader()),
    "cut-controller-off": lambda scene: cut_off(scene, scene.controller()),
    "cut-between-brokers": cut_between_brokers,
    "cut-one-way": cut_one_way,
    "cut-leader-from-zookeeper": cut_from_zookeeper,
}

#: Only where each broker has a small file system for its data.
FAULTS_OF_ROOT: Mapping[str, Fault] = {"fill-disk": fill_disk}

FAULTS: Mapping[str, Fault] = {
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
    "kill-zookeeper-leader": lambda scene: scene.kill(scene.zookeeper_that_is("leader")),
    "kill-zookeeper-follower": lambda scene: scene.kill(scene.zookeeper_that_is("follower")),
    "kill-two-zookeepers": lambda scene: scene.kill(*scene.chance.sample(list(scene.cluster.zookeepers), 2)),
    "pause-zookeeper": lambda scene: scene.pause(any_zookeeper(scene)),
    "pause-zookeeper-leader": lambda scene: scene.pause(scene.zookeeper_that_is("leader")),
    "kill-broker-and-zookeeper": kill_a_broker_and_a_zookeeper,
}

ALL_FAULTS: Mapping[str, Fault] = {**FAULTS, **CUTS, **FAULTS_OF_ROOT}
