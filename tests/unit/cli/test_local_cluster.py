"""The layout of a cluster on this host; what its processes do is tested in tests/cluster."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from moldau.cli.cluster.local_cluster import LocalCluster, LocalClusterError, start_of
from tests.support.waiting import wait_until


def made(home: Path, **settings: str) -> LocalCluster:
    return LocalCluster.make(home, brokers=3, zookeepers=1, port=20_000, settings=settings)


def test_more_brokers_get_the_next_ids_and_ports_that_nobody_has(tmp_path: Path) -> None:
    cluster = made(tmp_path)
    taken = {port for member in cluster.members for port in (member.port, *member.inner_ports)}
    cluster.grow(5)
    found = LocalCluster.open(tmp_path).brokers
    assert [broker.number for broker in found] == [1, 2, 3, 4, 5]
    assert {broker.port for broker in found[3:]}.isdisjoint(taken) and found[3].port != found[4].port
    cluster.grow(5)
    assert len(LocalCluster.open(tmp_path).brokers) == 5


def test_brokers_do_not_vanish_by_asking_for_fewer(tmp_path: Path) -> None:
    cluster = made(tmp_path)
    with pytest.raises(LocalClusterError, match="cluster forget"):
        cluster.grow(2)
    assert len(cluster.brokers) == 3


def test_a_setting_may_name_the_broker_it_is_for(tmp_path: Path) -> None:
    cluster = made(tmp_path, **{"broker.rack": "rack-{id}", "log.dirs": "{folder}/a"})
    cluster.set({"num.partitions": "4"})
    again = LocalCluster.open(tmp_path)
    for number in (1, 2):
        command = again._broker_command(again.broker(number))
        assert {f"broker.rack=rack-{number}", "num.partitions=4"} <= set(command)
        assert f"log.dirs={tmp_path}/broker-{number}/a" in command


@pytest.mark.parametrize("taken", range(5))
def test_a_port_that_somebody_else_listens_at_is_told_before_anything_is_started(tmp_path: Path, taken: int) -> None:
    """Of a broker, of ZooKeeper, and between its servers: what answers there would be taken for our own."""
    cluster = LocalCluster.make(tmp_path, brokers=2, zookeepers=1)
    port = [port for member in cluster.members for port in (member.port, *member.inner_ports)][taken]
    with socket.create_server(("127.0.0.1", port)), pytest.raises(LocalClusterError, match=f"127.0.0.1:{port}"):
        cluster.start()
    assert not any(member.runs for member in cluster.members)


ENDS_THREAD_BY_THREAD = """
import ctypes, threading
threading.Thread(target=threading.Event().wait).start()
print("begun", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_runs_until_its_last_thread_has_ended() -> None:
    """Java's many threads do not end at once when it is killed, and its ports are taken until the last one has."""
    with subprocess.Popen([sys.executable, "-c", ENDS_THREAD_BY_THREAD], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stat = Path(f"/proc/{process.pid}/stat")
        try:
            wait_until(lambda: ") Z " in stat.read_text(), "the first thread has ended")
            assert start_of(process.pid) != ""
        finally:
            process.kill()
        wait_until(lambda: start_of(process.pid) == "", "the other one has, too")
