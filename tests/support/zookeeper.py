"""A real ZooKeeper server, from the jars that PySpark brings."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pyspark
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from moldau.spark.java import find_java_home
from tests.support.process import die_with_parent, free_port
from tests.support.waiting import wait_until

START_SECONDS = 120.0
ANSWER_SECONDS = 5.0


@contextmanager
def zookeeper(folder: Path) -> Iterator[str]:
    """Gives the address of a server that keeps its data in a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    address = f"127.0.0.1:{free_port()}"
    log = folder / "zookeeper.log"
    with log.open("ab") as output:
        process = subprocess.Popen(
            command(address, folder),
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - one system call, taken from a library loaded before
        )
    try:
        wait_until(lambda: answers(address) or has_ended(process, log), "ZooKeeper", START_SECONDS)
        yield address
    finally:
        process.terminate()
        process.wait()


def command(address: str, folder: Path) -> list[str]:
    settings = folder / "zoo.cfg"
    host, _, port = address.rpartition(":")
    settings.write_text(
        f"dataDir={folder}\nclientPort={port}\nclientPortAddress={host}\nadmin.enableServer=false\ntickTime=500\n"
    )
    java = find_java_home(os.environ) / "bin" / "java"
    jars = Path(pyspark.__file__).parent / "jars"
    return [str(java), "-Xmx128m", "-cp", f"{jars}/*", "org.apache.zookeeper.server.ZooKeeperServerMain", str(settings)]


def answers(address: str) -> bool:
    with suppress(KazooTimeoutError, KazooException), connected(address) as client:
        return client.exists("/zookeeper") is not None
    return False


def has_ended(process: subprocess.Popen[bytes], log: Path) -> bool:
    assert process.poll() is None, f"ZooKeeper ended with {process.returncode}\n{log.read_text()[-2000:]}"
    return False


@contextmanager
def connected(address: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts=address)
    try:
        client.start(timeout=ANSWER_SECONDS)
        yield client
    finally:
        client.stop()
        client.close()
