"""Connect workers for tests: one in the test's process, on a Spark session that many share, or one of its own."""

from __future__ import annotations

import asyncio
import json
import signal
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaError
from pyspark.sql import SparkSession

from moldau.connect.worker.group_node import GroupWorker, distributed
from moldau.connect.worker.node import Worker, standalone
from moldau.connect.worker.settings import WorkerSettings
from tests.support.process import die_with_parent
from tests.support.waiting import wait_until

SECONDS = 120.0
STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def worker_properties(directory: Path, broker: str, **more: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker,
        "key.converter": STRING,
        "value.converter": STRING,
        "offset.storage.file.filename": str(directory / "connect.offsets"),
        "offset.storage.partitions": "1",
        "connector.poll.interval.ms": "100",
        "connector.restart.backoff.ms": "100",
        "listeners": "http://127.0.0.1:0",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


class Rest:
    """Requests to a worker."""

    def __init__(self, url: str = "") -> None:
        self.url = url
        self.headers = {"Content-Type": "application/json"}
        self.tls: ssl.SSLContext | None = None

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, self.headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120, context=self.tls) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")

    def create(self, name: str, **config: str) -> dict[str, Any]:
        dotted = {key.replace("_", "."): value for key, value in config.items()}
        status, found = self.ask("POST", "/connectors", {"name": name, "config": dotted})
        assert status == 201, found
        assert isinstance(found, dict)
        return found

    def status(self, name: str) -> dict[str, Any]:
        found = self.ask("GET", f"/connectors/{name}/status")[1]
        assert isinstance(found, dict)
        return found

    def states(self, name: str) -> list[str]:
        found = self.status(name)
        return [found.get("connector", {}).get("state"), *(each["state"] for each in found.get("tasks", ()))]

    def task_trace(self, name: str) -> str:
        return str(self.status(name)["tasks"][0].get("trace", ""))

    def wait_for_states(self, name: str, *wanted: str) -> None:
        wait_until(lambda: self.states(name) == list(wanted), f"{name} is {wanted}", SECONDS)

    def stop_connector(self, name: str) -> None:
        assert self.ask("PUT", f"/connectors/{name}/stop")[0] == 204
        self.wait_for_states(name, "STOPPED")

    def delete(self, name: str) -> None:
        assert self.ask("DELETE", f"/connectors/{name}")[0] == 204


class ThreadWorker(Rest):
    """A standalone worker on an event loop in a thread."""

    def __init__(self, properties: Mapping[str, str], spark: SparkSession) -> None:
        super().__init__()
        self._properties = properties
        self._spark = spark
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._ended: asyncio.Event | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.worker: Worker | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(60)
        if self._problem is not None:
            raise self._problem
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._ended is not None
        self._loop.call_soon_threadsafe(self._ended.set)
        self._thread.join(SECONDS)
        if self._problem is not None:
            raise self._problem

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as error:
            self._problem = error
        finally:
            self._ready.set()
            self._loop.close()

    async def _serve(self) -> None:
        self._ended = asyncio.Event()
        async with self._made() as worker:
            self.url = str(worker.service.listeners[0])
            self.worker = worker
            await worker.joined()
            self._ready.set()
            await self._ended.wait()

    def _made(self) -> AbstractAsyncContextManager[Worker]:
        return standalone(WorkerSettings.of(self._properties, distributed=False), lambda: self._spark)


class DistributedWorker(ThreadWorker):
    """The same as a member of a group."""

    def _made(self) -> AbstractAsyncContextManager[Worker]:
        return distributed(WorkerSettings.of(self._properties, distributed=True), lambda: self._spark)

    def leave_without_knowing(self) -> None:
        """The group lets go of it, and it goes on with what it has."""
        assert self.worker is not None and self.worker.herder is not None
        member = self.worker.member
        assert isinstance(member, GroupWorker) and member.membership is not None
        member.changed = lambda: None
        member.membership.close(60)


class WorkerProcess(Rest):
    """A worker as users start it."""

    def __init__(self, directory: Path, command: Sequence[str]) -> None:
        super().__init__()
        self.directory = directory
        self._command = [sys.executable, "-m", "moldau", *command]
        self.process: subprocess.Popen[bytes] | None = None

    @classmethod
    def printed(cls, directory: Path, line: str) -> Self:
        """With one of Kafka's own tools, as books print it; what it names lies in the folder."""
        made = cls(directory, ())
        tool, *arguments = line.split()
        made._command = [str(Path(sys.executable).with_name(Path(tool).name)), *arguments]
        return made

    def start(self) -> None:
        with (self.directory / "stdout").open("wb") as out, (self.directory / "stderr").open("ab") as err:
            self.process = subprocess.Popen(
                self._command,
                stdout=out,
                stderr=err,
                cwd=self.directory,
                preexec_fn=die_with_parent,  # noqa: PLW1509
            )

    def wait_until_ready(self) -> None:
        wait_until(self._is_ready, "the worker is ready", SECONDS)

    def _is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, (self.directory / "stderr").read_text()[-3000:]
        out = (self.directory / "stdout").read_text()
        if "ready: " in out:
            self.url = out.split("ready: ")[1].split()[0].split(",")[0]
        return bool(self.url) and "ready: " in out

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


def records(broker: str, topic: str, enough: Callable[[list[Any]], bool] | None = None) -> list[tuple[Any, Any]]:
    """Keys and values of a topic up to its end, committed ones alone; looked at again until there are `enough`."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "test-reader",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,  # the topic may not be there yet
            "log_level": 0,
        }
    )
    found: list[tuple[Any, Any]] = []
    ended: set[int] = set()
    try:
        consumer.subscribe([topic])

        def look() -> bool:
            message = consumer.poll(0.2)
            if message is None:
                return False
            error = message.error()
            if error is None:
                found.append((message.key(), message.value()))
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
                return enough is None or enough(found)
            return False

        wait_until(look, f"enough records in {topic}", SECONDS, pause=0)
    finally:
        consumer.close()
    return found


def values(broker: str, topic: str, count: int) -> list[Any]:
    return [value for _, value in records(broker, topic, lambda found: len(found) >= count)]
