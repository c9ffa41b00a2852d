"""Two workers of a group as processes: one is killed, then the broker under both; what they copy stays whole.

`test_connect_crashes` does more to one worker, and tests/connect more to groups within a process.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cli.books import CONNECT_DISTRIBUTED
from tests.connect.test_distributed import properties
from tests.faults.test_connect_crashes import read_whole, value_of
from tests.support.broker import Broker
from tests.support.connect import SECONDS, WorkerProcess
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("connect-sinks")

LONGER = 4 * SECONDS
LINES = 1500
NAMES = ("in", "out")


def made_worker(folder: Path, broker: Broker) -> WorkerProcess:
    config = folder / CONNECT_DISTRIBUTED.split()[1]
    config.parent.mkdir(parents=True)
    settings = {**properties(broker, "group"), "spark.master": "local[2]", "connector.restart.backoff.max.ms": "2000"}
    config.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    return WorkerProcess.printed(folder, CONNECT_DISTRIBUTED)


class Copying:
    """A file through a topic into another."""

    def __init__(self, folder: Path) -> None:
        self.source, self.target = folder / "test.txt", folder / "test.sink.txt"
        self.source.touch()
        self._rounds = 0

    def create(self, worker: WorkerProcess) -> None:
        worker.create(
            "in", connector_class="FileStreamSource", file=str(self.source), topic="lines", batch_bytes="5000"
        )
        worker.create("out", connector_class="FileStreamSink", file=str(self.target), topics="lines")

    def write(self) -> None:
        with self.source.open("a") as file:
            file.writelines(f"line {self._rounds}/{number:05}\n" for number in range(LINES))
        self._rounds += 1

    def is_whole(self) -> bool:
        return self.target.exists() and self.target.read_text() == self.source.read_text()

    def begin(self) -> None:
        """More lines, of which some have arrived."""
        before = self.size()
        self.write()
        wait_until(lambda: self.size() > before, "lines arrive", LONGER, 0.001)

    def size(self) -> int:
        return self.target.stat().st_size if self.target.exists() else 0

    def end(self) -> None:
        wait_until(self.is_whole, "every line arrives, once", LONGER, 0.2)


def owner(name: str, workers: list[WorkerProcess], asked: WorkerProcess) -> WorkerProcess:
    """Of a connector that runs."""
    told = asked.status(name)
    assert told["connector"]["state"] == "RUNNING", told
    (found,) = [each for each in workers if each.url.endswith(told["connector"]["worker_id"])]
    return found


@pytest.mark.timeout(1800)
def test_a_group_copies_each_line_once_whoever_is_killed(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        assert isinstance(broker, Broker)
        admin = AdminClient({"bootstrap.servers": broker.address})  # to be kept: it ends what is under way when it goes
        admin.create_topics([NewTopic("lines", 1)])["lines"].result(60)
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
            owners = [owner(name, workers, workers[0]) for name in NAMES]
            assert owners[0] is not owners[1], "they are shared"
            killed, left = owners
            copying.begin()
            killed.kill()
            copying.begin()
            copying.end()
            assert [owner(name, workers, left) for name in NAMES] == [left, left]
            killed.url = ""
            killed.start()
            killed.wait_until_ready()
            copying.begin()
            broker.kill()
            copying.write()
            broker.start()
            copying.begin()
            copying.end()
            wait_until(
                lambda: left.ask("PATCH", "/connectors/in/config", {"batch.bytes": "4000"})[0] == 200,
                "it is changed",
                LONGER,
            )
            copying.begin()
            copying.end()
            assert [
                value_of(each) for each in read_whole(broker.address, "lines")
            ] == copying.source.read_text().splitlines()
            assert [worker.stop() for worker in workers] == [0, 0]
        except AssertionError as error:
            for worker in workers:
                error.add_note((worker.directory / "stderr").read_text(errors="replace")[-4000:])
            raise
        finally:
            for worker in workers:
                if worker.process is not None:
                    worker.kill()
