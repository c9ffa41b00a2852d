"""The Spark job of the demo in a process of its own: `python -m moldau.cli.demo.job`, told what to do in JSON.

It tells its parent in JSON lines what happens, works until the parent says `finish` and everything written by then is
processed, and ends when the parent is gone.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from moldau.cli.demo import queries, story
from moldau.cli.demo.processes import say
from moldau.spark import session
from moldau.spark.listener import Progress, ProgressListener

WATCH_SECONDS = 0.25
IDLE = ("Waiting for data to arrive", "Waiting for next trigger")
FAILED = 1
SLOW_START = "Python worker failed to connect back"
SLOW_STARTS = 100
WHERE_THE_PLAN_BEGINS = "=== Streaming Query ==="


class Job:
    """One session with three queries, each with its own checkpoint."""

    def __init__(self, task: dict[str, Any]) -> None:
        self._bootstrap: str = task["bootstrap"]
        self._prefix: str = task["prefix"]
        self._topics: dict[str, str] = task["topics"]
        self._folder = Path(task["folder"])
        self._results = Path(task["results"])
        self._spark: SparkSession = session("moldau-demo", task["master"], ui=False, settings=task["settings"])
        self._spark.streams.addListener(ProgressListener(_tell_progress, publish_lag=False))
        self._writers: dict[str, Any] = {}
        self._running: dict[str, StreamingQuery] = {}
        self._slow_starts = 0

    def start(self) -> None:
        """Start the queries, those that others read from first."""
        table = queries.device_table(queries.read_table(self._spark, self._bootstrap, self._topics[story.DEVICES]))
        devices = self._spark.createDataFrame(table.collect(), table.schema)
        cleaned = queries.clean(self._read("clean", story.SENSOR_EVENTS, story.WEB_LOGS), devices, self._topics)
        raised = queries.alarms(self._read("alarms", story.READINGS), self._topics[story.ALARMS])
        read = [self._read("results", topic) for topic in (story.READINGS, story.REQUESTS, story.ALARMS)]
        results = queries.results(*read)
        self._to_topics("clean", cleaned.writeStream)
        self._to_topics("alarms", raised.writeStream)
        writer = results.writeStream.format("parquet").partitionBy("result").option("path", str(self._results))
        self._start("results", writer)

    def _read(self, query: str, *names: str) -> Any:
        topics = [self._topics[name] for name in names]
        return queries.read_topics(self._spark, self._bootstrap, self._prefix + query, *topics)

    def _to_topics(self, name: str, writer: Any) -> None:
        options = {"kafka.bootstrap.servers": self._bootstrap, "transactionalIdPrefix": f"{self._prefix}sink"}
        self._start(name, writer.format("moldau").options(**options))

    def _start(self, name: str, writer: Any) -> None:
        checkpoint = self._folder / "checkpoints" / name
        self._writers[name] = writer.queryName(name).option("checkpointLocation", str(checkpoint)).outputMode("append")
        self._launch(name)
        # One at a time: a start takes all the cores for a while, and Spark gives its helpers only seconds to come up.
        pause = threading.Event()
        while (query := self._running[name]).lastProgress is None and query.status["message"] not in IDLE:
            pause.wait(WATCH_SECONDS)
            self._look_after(name)

    def _launch(self, name: str) -> None:
        self._running[name] = self._writers[name].start()
        say(kind="started", query=name)

    def _look_after(self, name: str) -> None:
        """Raise what ended a query, unless it only was the machine that is too busy to start a process in time."""
        problem = None if self._running[name].isActive else self._running[name].exception()
        if problem is None:
            return
        if SLOW_START not in str(problem) or self._slow_starts >= SLOW_STARTS:
            raise problem
        self._slow_starts += 1
        self._launch(name)

    def watch(self, finish: threading.Event) -> None:
        """Return when asked to finish; raise what ended a query."""
        while not finish.wait(WATCH_SECONDS):
            for name in self._writers:
                self._look_after(name)

    def finish(self, wait_for_commits: Callable[[], None]) -> None:
        """Process all that is there, query after query, and stop."""
        for query in self._running.values():
            query.processAllAvailable()
            wait_for_commits()
        for query in self._running.values():
            query.stop()
        self._spark.stop()


def _tell_progress(progress: Progress) -> None:
    say(kind="progress", **asdict(progress))


def main(argument: str) -> int:
    """Run the job; returns the exit code."""
    task = json.loads(argument)
    finish = threading.Event()
    threading.Thread(target=_obey, args=(finish,), daemon=True).start()
    begun = time.monotonic()
    say(kind="starting")
    job = Job(task)
    say(kind="session", seconds=time.monotonic() - begun)
    try:
        job.start()
        say(kind="ready")
        job.watch(finish)
        say(kind="finishing")
        job.finish(lambda: _wait_for_commits(task["bootstrap"], [task["topics"][name] for name in story.OUTPUT_TOPICS]))
    except Exception as error:
        say(kind="failed", error=str(error).partition(WHERE_THE_PLAN_BEGINS)[0].strip())
        raise
    say(kind="finished")
    return 0


def _wait_for_commits(bootstrap: str, topics: list[str]) -> None:
    """Until readers of committed records see all that was written: markers follow a commit's answer."""
    from moldau.cli.demo.observed import committed_end, written_end

    pause = threading.Event()
    while committed_end(bootstrap, topics) != written_end(bootstrap, topics):
        pause.wait(WATCH_SECONDS)


def _obey(finish: threading.Event) -> None:
    for line in sys.stdin:
        if line.strip() == "finish":
            finish.set()
    os._exit(FAILED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
