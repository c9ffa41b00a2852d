"""Taking over from a running Apache Kafka's own folders, judged by Kafka's own tools before and after."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from pathlib import Path
from uuid import UUID, uuid4

import pytest

from moldau.metadata.adoption.carrying import adopt_in_place
from moldau.metadata.adoption.plan import plan
from moldau.metadata.adoption.survey import survey
from moldau.storage.ownership import METADATA_FOLDER
from tests.fakes.lossy_files import PowerCutError
from tests.fakes.stopping_files import StoppingFiles
from tests.peers.apache_kafka import TOOLS, java_tool
from tests.peers.record_folder import GROUP, TOPICS, broker_of, fill, settle, tell
from tests.support.broker import Broker

pytestmark = [pytest.mark.live, pytest.mark.timeout(600)]

SHOWN = ("key", "value", "offset", "partition", "timestamp", "headers")


def consumed(address: str, count: int) -> list[str]:
    """What Kafka's console consumer prints of all topics, which come in any order."""
    shown = [part for name in SHOWN for part in ("--formatter-property", f"print.{name}=true")]
    done = java_tool(
        TOOLS + "consumer.ConsoleConsumer", "--bootstrap-server", address, "--include", "|".join(TOPICS),
        "--from-beginning", "--max-messages", count, "--timeout-ms", 60_000,
        "--isolation-level", "read_committed", *shown,
    )  # fmt: skip
    return sorted(done.stdout.splitlines())


def committed(address: str) -> list[list[str]]:
    done = java_tool(
        TOOLS + "consumer.group.ConsumerGroupCommand", "--bootstrap-server", address, "--describe", "--group", GROUP
    )
    return sorted(line.split()[1:5] for line in done.stdout.splitlines() if line.startswith(GROUP))


def dumped(folders: list[Path], hidden: str = "__cluster") -> str:
    """Every record and every batch's head, as Kafka reads them; without topics that begin like `hidden`."""
    segments = sorted(
        path for folder in folders for path in folder.glob("*/*.log") if not path.parent.name.startswith(hidden)
    )
    files = ",".join(str(path) for path in segments if "-delete" not in path.parent.name)
    return java_tool(TOOLS + "DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", files).stdout


def stop_half_way(folders: list[Path]) -> int:
    """In the last moment before Kafka is shut out; gives the number of steps done."""
    steps = 0
    while True:
        try:
            adopt_in_place(
                StoppingFiles(steps), [str(each) for each in folders], lambda: plan(survey(folders), UUID(int=1)), uuid4
            )
        except PowerCutError:
            if (folders[0] / "moldau-metadata.adopting").exists():
                return steps
        steps += 1


def kill_while_adopting(folders: list[Path], seconds: float) -> None:
    command = [sys.executable, "-m", "moldau", "broker", "adopt", *map(str, folders), "--in-place", "--yes"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.wait()


def test_every_record_is_equal_and_kafka_opens_what_an_early_kill_left(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    with broker_of("kraft", tmp_path, None) as kafka:
        fill(kafka.address)
        settle(kafka.address)
        expected = tell(kafka.address)
        count = sum(map(len, expected["records"].values()))
        records = consumed(kafka.address, count)
        assert len(records) == count
        offsets = committed(kafka.address)
        assert kafka.stop() == 0
        assert stop_half_way(folders) > 0
        kafka.start()
        assert tell(kafka.address) == expected
        assert kafka.stop() == 0
    dump, dump_of_topics = dumped(folders), dumped(folders, "__")
    for seconds in (0.1, 0.2, 0.3, 0.4):
        kill_while_adopting(folders, seconds)
    # Whatever the kills left: done already, to be completed, or to be begun.
    again = [sys.executable, "-m", "moldau", "broker", "adopt", *map(str, folders), "--in-place", "--yes"]
    ended = subprocess.run(again, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 or "is no log directory of Apache Kafka" in ended.stderr, ended.stderr
    assert (folders[0] / METADATA_FOLDER).is_dir()
    assert dumped(folders) == dump
    settings = {"log.dirs": ",".join(map(str, folders)), "group.initial.rebalance.delay.ms": 0}
    with Broker(tmp_path / "moldau", settings) as moldau:
        assert tell(moldau.address) == expected
        assert consumed(moldau.address, count) == records
        assert committed(moldau.address) == offsets
        assert moldau.stop() == 0
    assert dumped(folders, "__") == dump_of_topics  # the consumers have committed meanwhile


def test_a_running_broker_and_one_that_was_killed_are_refused(tmp_path: Path) -> None:
    folders = [str(tmp_path / "first"), str(tmp_path / "second")]
    command = [sys.executable, "-m", "moldau", "broker", "adopt", *folders, "--dry-run"]
    with broker_of("kraft", tmp_path, None) as kafka:
        running = subprocess.run(command, capture_output=True, text=True, check=False)
        assert running.returncode == 1 and "is in use by a broker; stop it first" in running.stderr
        fill(kafka.address)
        kafka.kill()
    killed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert killed.returncode == 1 and "start Apache Kafka on it once more" in killed.stderr


def test_kafka_starts_again_on_folders_that_were_refused(tmp_path: Path) -> None:
    folders = [str(tmp_path / "first"), str(tmp_path / "second")]
    start = [sys.executable, "-m", "moldau", "broker", "start", "--port", "0", "--set", f"log.dirs={','.join(folders)}"]
    with broker_of("kraft", tmp_path, None) as kafka:
        fill(kafka.address)
        expected = tell(kafka.address)
        assert kafka.stop() == 0
        refused = subprocess.run(start, capture_output=True, text=True, check=False)
        assert refused.returncode == 1 and "this log directory belongs to Apache Kafka" in refused.stderr
        kafka.start()
        assert tell(kafka.address) == expected
        assert kafka.stop() == 0
