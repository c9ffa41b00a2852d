"""Brokers in network namespaces of their own, joined by a bridge, with a small file system each for their data: so that
the network between any two of them can be cut, and a disk can be full. Needs root and iproute2.

A cut loses packets in silence, as a broken cable does: they are sent to an Ethernet address that nobody has.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from moldau.cli.cluster.local_cluster import Command, LocalCluster, Process

BROKERS = 3
SUBNET = "10.213.7"
#: Where ZooKeeper and the clients are, as brokers see it.
HUB = f"{SUBNET}.254"
DISK_MB = 512
#: Of no card on this bridge; locally administered.
NOBODYS_CARD = "02:00:00:00:00:fe"


def can_make_networks() -> bool:
    """Whether this is root with the rights to make namespaces (containers often keep them back)."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("mount") is None:
        return False
    name = f"moldau-{os.getpid()}-probe"
    if not ip("netns", "add", name, check=False):
        return False
    ip("netns", "del", name)
    return True


class Network:
    """Made at the beginning of a `with` block and gone at its end, whatever happened; brokers in it must be dead."""

    hub = HUB

    def __init__(self) -> None:
        self._name = f"mld{os.getpid() % 100_000}"
        self._mounted: list[Path] = []

    def __enter__(self) -> Self:
        try:
            self._make()
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _make(self) -> None:
        bridge = f"{self._name}b"
        ip("link", "add", bridge, "type", "bridge")
        ip("addr", "add", f"{HUB}/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for number in range(1, BROKERS + 1):
            space, outer = self._space(number), f"{self._name}v{number}"
            ip("netns", "add", space)
            ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", outer, "master", bridge, "up")
            ip("-n", space, "addr", "add", f"{SUBNET}.{number}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "eth0", "up")
            ip("-n", space, "link", "set", "lo", "up")

    def _remove(self) -> None:
        for folder in self._mounted:
            subprocess.run(["umount", "--lazy", folder], check=False, capture_output=True)
        for number in range(1, BROKERS + 1):
            ip("netns", "del", self._space(number), check=False)
        ip("link", "del", f"{self._name}b", check=False)

    def _space(self, number: int) -> str:
        return f"{self._name}n{number}"

    # --- what a cluster asks ---

    def host_of(self, member: Process) -> str:
        return f"{SUBNET}.{member.number}" if member.kind == "broker" else HUB

    def wrap(self, member: Process, command: Command) -> Command:
        return ["ip", "netns", "exec", self._space(member.number), *command] if member.kind == "broker" else command

    def prepare(self, cluster: LocalCluster) -> None:
        for broker in cluster.brokers:
            self._mount(cluster.folder(broker) / "data")

    def _mount(self, folder: Path) -> None:
        """A file system in memory that is full after a while."""
        folder.mkdir(parents=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", folder], check=True)
        self._mounted.append(folder)

    # --- faults ---

    @contextlib.contextmanager
    def lost(self, *pairs: tuple[str, str]) -> Iterator[None]:
        """What the first of each pair sends to the second is lost."""
        try:
            for sender, receiver in pairs:
                place, card = self._card(sender)
                ip(*place, "neigh", "replace", receiver, "lladdr", NOBODYS_CARD, "dev", card, "nud", "permanent")
            yield
        finally:
            for sender, receiver in pairs:
                place, card = self._card(sender)
                ip(*place, "neigh", "del", receiver, "dev", card, check=False)

    def _card(self, host: str) -> tuple[tuple[str, ...], str]:
        """Where its commands go, and through which card its packets leave."""
        if host == HUB:
            return (), f"{self._name}b"
        return ("-n", self._space(int(host.rpartition(".")[2]))), "eth0"


def ip(*arguments: str, check: bool = True) -> bool:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if check and done.returncode != 0:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.returncode == 0
