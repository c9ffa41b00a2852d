"""Real ZooKeeper servers, from the jars that PySpark brings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kazoo.client import KazooClient

from moldau.cli.zookeeper.process import Member, ZooKeeperEnsemble
from tests.support.process import die_with_parent, free_port

ANSWER_SECONDS = 20.0


@contextmanager
def ensemble(folder: Path, size: int) -> Iterator[ZooKeeperEnsemble]:
    """Serving when entered; whatever the test has left of it is stopped at the end."""
    members = [Member(number, free_port(), free_port(), free_port()) for number in range(1, size + 1)]
    running = ZooKeeperEnsemble(folder, members, die_with_parent)
    running.start()
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def zookeeper(folder: Path) -> Iterator[str]:
    """Gives the address of one server that keeps its data in a folder."""
    with ensemble(folder, 1) as running:
        yield running.connect


@contextmanager
def connected(address: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=address)
    try:
        client.start(timeout=ANSWER_SECONDS)
        yield client
    finally:
        client.stop()
        client.close()
