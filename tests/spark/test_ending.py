"""A program with a session ends with as little noise as can be, and with its consumed offsets published."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient

from moldau.spark.ending import INTERRUPTED
from tests.spark.reading import SECONDS, produce
from tests.support.admin import create_topic
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

JAVAS_GREETING = "WARNING: Using incubator modules: jdk.incubator.vector"
START = """
import sys
from pyspark.errors import StreamingQueryException
from pyspark.sql.functions import udf
from moldau.spark import session

address, topic, folder = sys.argv[1:]
spark = session("ending", "local[2]", ui=False)
place = {"kafka.bootstrap.servers": address}
events = spark.readStream.format("moldau").options(**place, subscribe=topic, startingOffsets="earliest").load()
"""
COPYING = """
copying = events.select("key", "value").writeStream.format("moldau").queryName(f"{topic}-copying")
query = copying.options(**place, topic=f"{topic}-out", checkpointLocation=f"{folder}/copying").start()
query.processAllAvailable()
print("copied", flush=True)
"""
FAILING = """
@udf("string")
def refused(value):
    raise ValueError("no such value")

failing = events.select(refused("value").alias("value")).writeStream.format("moldau").queryName("failing")
query = failing.options(**place, topic=f"{topic}-out", checkpointLocation=f"{folder}/failing").start()
try:
    query.awaitTermination()
except StreamingQueryException as error:
    print("failed" if "no such value" in str(error) else error, flush=True)
"""
INTERRUPTED_PROGRAM = START + FAILING + COPYING + "query.awaitTermination()"
#: The query is active behind the last line, and nobody has stopped the session.
ENDING_PROGRAM = START + COPYING


def published(admin: AdminClient, group: str) -> list[int]:
    (answer,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    return [each.offset for each in answer.result(SECONDS).topic_partitions]


@pytest.mark.xdist_group("spark-endings")
def test_a_query_fails_and_the_program_is_interrupted(
    address: str, admin: AdminClient, topic: str, tmp_path: Path
) -> None:
    """The JVM does not see the interrupt, as in a terminal, where PySpark shields it."""
    create_topic(admin, topic)
    produce(address, topic, ["one", "two", "three"])
    out, err = tmp_path / "out", tmp_path / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        program = subprocess.Popen(
            [sys.executable, "-c", INTERRUPTED_PROGRAM, address, topic, str(tmp_path)],
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=interruptible,  # noqa: PLW1509 - two system calls
        )
    try:
        wait_until(lambda: "copied" in out.read_text() or program.poll() is not None, "a batch is copied", SECONDS)
        assert program.poll() is None, err.read_text()
        os.killpg(program.pid, signal.SIGINT)
        code = program.wait(SECONDS)
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
    told = [line for line in err.read_text().splitlines() if line != JAVAS_GREETING]
    assert told == ["query 'failing' has failed: ValueError: no such value", INTERRUPTED]
    assert out.read_text().split() == ["failed", "copied"]
    assert code != 0
    assert published(admin, f"{topic}-copying") == [3]


@pytest.mark.xdist_group("spark-endings")
def test_a_program_ends_while_a_query_is_active(address: str, admin: AdminClient, topic: str, tmp_path: Path) -> None:
    create_topic(admin, topic)
    produce(address, topic, ["one", "two", "three"])
    ended = subprocess.run(
        [sys.executable, "-c", ENDING_PROGRAM, address, topic, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
        preexec_fn=die_with_parent,
    )
    assert [line for line in ended.stderr.splitlines() if line != JAVAS_GREETING] == []
    assert (ended.returncode, ended.stdout) == (0, "copied\n")
    assert published(admin, f"{topic}-copying") == [3]


def interruptible() -> None:
    die_with_parent()
    signal.signal(signal.SIGINT, signal.default_int_handler)
