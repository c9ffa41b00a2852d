"""A REST proxy as a process, started through its command line like any user's."""

from __future__ import annotations

import base64
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from confluent_kafka import Consumer

from tests.support.process import BrokerProcess, die_with_parent
from tests.support.waiting import wait_until

JSON = "application/json"
V2 = "application/vnd.kafka.v2+json"


class Answer(NamedTuple):
    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def code(self) -> int:
        """The error code, which has to fit the status."""
        found = int(self.body["error_code"])
        assert found == self.status or found // 100 == self.status, self
        return found


class Proxy:
    """`command` may also be `services start`, whose last address is the proxy's."""

    def __init__(
        self,
        directory: Path,
        broker: str,
        settings: Mapping[str, str] | None = None,
        command: Sequence[str] = ("rest", "start"),
    ) -> None:
        self.directory = directory
        self.broker = broker
        self.command = command
        self.settings = {"listeners": "http://127.0.0.1:0", **(settings or {})} if len(command) else {}
        if command[0] == "services":
            self.settings = dict(settings or {})
        self.urls: list[str] = []
        self.process: subprocess.Popen[bytes] | None = None
        self._cluster = ""

    def __enter__(self) -> Proxy:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return self.urls[-1]

    def start(self, *, wait: bool = True) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "moldau", *self.command, "--bootstrap-server", self.broker]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        (self.directory / "stdout").write_bytes(b"")
        with (self.directory / "stdout").open("ab") as out, (self.directory / "stderr").open("ab") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, preexec_fn=die_with_parent)  # noqa: PLW1509
        if wait:
            wait_until(self.is_ready, "the proxy is ready", 60)

    def is_ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the proxy ended: {self.log()[-3000:]}")
        out = (self.directory / "stdout").read_text()
        if "ready: " in out:
            self.urls = out.split("ready: ")[1].split()[0].split(",")
        return "ready: " in out

    def log(self) -> str:
        return (self.directory / "stderr").read_text()

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    @property
    def cluster(self) -> str:
        """The path of the cluster in v3."""
        if not self._cluster:
            found = self.ask("GET", "/v3/clusters").body["data"][0]["cluster_id"]
            self._cluster = f"/v3/clusters/{found}"
        return self._cluster

    def ask(self, method: str, path: str, body: object = None, kind: str = JSON, **headers: str) -> Answer:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if data is not None or method == "POST":
            given["Content-Type"] = kind
        url = path if path.startswith("http") else self.url + path
        request = urllib.request.Request(url, data, given, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return Answer(answer.status, read(answer.read()), answer.headers)
        except urllib.error.HTTPError as error:
            return Answer(error.code, read(error.read()), error.headers)

    def lines(self, path: str, body: bytes) -> list[dict[str, Any]]:
        """A stream of records, and what is said of each."""
        request = urllib.request.Request(self.url + path, body, {"Content-Type": JSON}, method="POST")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return [json.loads(line) for line in answer.read().split(b"\r\n") if line]


def under_way(proxy: Proxy) -> int:
    """Requests, beside the one that asks."""
    told = proxy.ask("GET", "/metrics", Accept="text/plain").body
    found = re.search(r"(?im)^moldau_web_requests_underway\S* (\d+)", told)
    assert found is not None
    return int(found.group(1)) - 1


def read(content: bytes) -> Any:
    try:
        return json.loads(content) if content else None
    except ValueError:
        return content.decode()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def stored(broker: BrokerProcess, topic: str, count: int) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": broker.address, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found = [message for _ in range(count) if (message := consumer.poll(30)) is not None]
    consumer.close()
    return found


def make_instance(proxy: Proxy, group: str, config: dict[str, Any]) -> str:
    made = proxy.ask("POST", f"/consumers/{group}", config, V2)
    assert made.status == 200, made
    return str(made.body["base_uri"])


def read_until(proxy: Proxy, instance: str, format_: str, count: int, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for _ in range(60):
        answer = proxy.ask("GET", f"{instance}/records{query}", Accept=f"application/vnd.kafka.{format_}.v2+json")
        assert answer.status == 200, answer
        found += answer.body
        if len(found) >= count:
            break
    return found


def produce(proxy: Proxy, topic: str, values: list[Any], **more: Any) -> Answer:
    body = {"records": [{"value": value, **more} for value in values]}
    return proxy.ask("POST", f"/topics/{topic}", body, "application/vnd.kafka.json.v2+json")
