"""A schema registry as a process, started through its command line like any user's."""

from __future__ import annotations

import json
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.process import die_with_parent
from tests.support.waiting import wait_until


class Registry:
    def __init__(self, directory: Path, broker: str, settings: Mapping[str, str] | None = None) -> None:
        self.directory = directory
        self.broker = broker
        self.settings = {"listeners": "http://127.0.0.1:0", **(settings or {})}
        self.url = ""
        self.tls: ssl.SSLContext | None = None
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Registry:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self, *, wait: bool = True) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "moldau", "registry", "start", "--bootstrap-server", self.broker]
        for key, value in self.settings.items():
            command += ["--set", f"{key}={value}"]
        (self.directory / "stdout").write_bytes(b"")
        with (self.directory / "stdout").open("ab") as out, (self.directory / "stderr").open("ab") as err:
            self.process = subprocess.Popen(command, stdout=out, stderr=err, preexec_fn=die_with_parent)  # noqa: PLW1509
        if wait:
            wait_until(self.is_ready, "the registry is ready", 60)

    def is_ready(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise AssertionError(f"the registry ended: {(self.directory / 'stderr').read_text()[-3000:]}")
        out = (self.directory / "stdout").read_text()
        if "ready: " in out:
            self.url = out.split("ready: ")[1].split()[0].split(",")[0]
            self.settings["listeners"] = self.url
        return bool(self.url) and "ready: " in out

    def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/vnd.schemaregistry.v1+json", **headers}
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60, context=self.tls) as answer:
                return answer.status, json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read() or b"null")


QUICK = {"kafkagroup.heartbeat.interval.ms": "300", "kafkagroup.session.timeout.ms": "6000"}
