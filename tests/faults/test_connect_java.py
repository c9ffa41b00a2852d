"""A worker whose Java process dies, as it does when it runs out of memory: the worker ends and says why, and what it
ran is taken over, or goes on when it is started again."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.connect.test_files import write
from tests.faults.test_connect_group import LONGER, NAMES, Copying, made_worker, owner
from tests.support.broker import Broker
from tests.support.connect import WorkerProcess, worker_properties
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("connect-sinks"), pytest.mark.timeout(900)]


def kill_java(worker: WorkerProcess) -> None:
    assert worker.process is not None
    (java,) = [each for each in psutil.Process(worker.process.pid).children() if each.name() == "java"]
    java.kill()


def wait_for_end(worker: WorkerProcess) -> str:
    """What it said."""
    process = worker.process
    assert process is not None
    wait_until(lambda: process.poll() is not None, "the worker ends", LONGER)
    assert process.returncode == 1
    return (worker.directory / "stderr").read_text(errors="replace")


def test_a_worker_without_java_ends_and_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        write(tmp_path / "worker.properties", worker_properties(tmp_path, broker.address, spark_master="local[2]"))
        files = []
        for name, config in {
            "in": {"connector.class": "FileStreamSource", "file": "test.txt", "topic": "lines"},
            "out": {"connector.class": "FileStreamSink", "file": "test.sink.txt", "topics": "lines"},
        }.items():
            files.append(f"{name}.properties")
            write(tmp_path / files[-1], {"name": name, **config})
        worker = WorkerProcess(tmp_path, ["connect", "standalone", "worker.properties", *files])
        copying = Copying(tmp_path)
        try:
            worker.start()
            worker.wait_until_ready()
            copying.begin()
            copying.end()
            kill_java(worker)
            said = wait_for_end(worker)
            assert "was killed by SIGKILL: no connector of this worker runs any more" in said
            worker.url = ""
            worker.start()
            worker.wait_until_ready()
            copying.begin()
            copying.end()
            assert worker.stop() == 0
        finally:
            if worker.process is not None:
                worker.kill()


def test_the_others_of_a_group_take_over_from_a_worker_without_java(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        assert isinstance(broker, Broker)
        workers = [made_worker(tmp_path / name, broker) for name in ("first", "second")]
        copying = Copying(tmp_path)
        try:
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.wait_until_ready()
            copying.create(workers[1])
            copying.begin()
            copying.end()
            lost, left = (owner(name, workers, workers[0]) for name in NAMES)
            assert lost is not left, "they are shared"
            kill_java(lost)
            assert "was killed by SIGKILL" in wait_for_end(lost)
            copying.begin()
            copying.end()
            assert [owner(name, workers, left) for name in NAMES] == [left, left]
            assert left.stop() == 0
        finally:
            for worker in workers:
                if worker.process is not None:
                    worker.kill()
