"""A client of others for Connect's REST API, from PyPI: every command of `kc` against our worker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from kafka_connect import KafkaConnect
from pyspark.sql import SparkSession

from moldau.web.passwords import hash_password
from tests.support.broker import Broker
from tests.support.connect import SECONDS, ThreadWorker, worker_properties
from tests.support.waiting import wait_until


class Client:
    def __init__(self, url: str, *more: str) -> None:
        code = "import sys; from kafka_connect.cli import cli; sys.exit(cli())"
        self._command = [sys.executable, "-c", code, "--url", url, "--log-level", "CRITICAL", *more]

    def said(self, *arguments: str) -> str:
        done = subprocess.run([*self._command, *arguments], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def answer(self, *arguments: str) -> Any:
        said = self.said(*arguments)
        return json.loads(said)

    def state(self, name: str) -> str:
        return str(self.answer("status", name)["connector"]["state"])


def test_every_command_of_a_client_works(worker: ThreadWorker, topic: str, tmp_path: Path) -> None:
    client = Client(worker.url)
    file, config = tmp_path / "in.txt", tmp_path / "in.json"
    file.write_text("a\n")
    settings = {"connector.class": "FileStreamSource", "file": str(file), "topic": topic}
    config.write_text(json.dumps({"name": topic, "config": settings}))
    assert set(client.answer("info")) == {"version", "commit", "kafka_cluster_id"}
    assert client.answer("create", "--config-file", str(config))["name"] == topic
    assert "409" in client.said("create", "--config-file", str(config))
    worker.wait_for_states(topic, "RUNNING", "RUNNING")
    assert topic in client.answer("list")
    assert client.answer("list", "--expand", "info", "--pattern", topic)[topic]["info"]["type"] == "source"
    assert list(client.answer("list", "--pattern", topic, "--state", "RUNNING")) == [topic]
    assert client.answer("list", "--pattern", topic, "--state", "PAUSED") == []
    assert client.answer("get", topic)["tasks"] == [{"connector": topic, "task": 0}]
    assert client.answer("config", topic) == {"name": topic, **settings}
    assert client.answer("list-tasks", topic)[0]["id"] == {"connector": topic, "task": 0}
    assert client.answer("task-status", topic, "0")["state"] == "RUNNING"
    assert client.answer("list-topics", topic) == {topic: {"topics": [topic]}}
    client.said("reset-topics", topic)
    assert client.answer("list-topics", topic) == {topic: {"topics": []}}
    changed = json.dumps({**settings, "batch.bytes": "1000"})
    assert client.answer("update", topic, "--config-data", changed)["config"]["batch.bytes"] == "1000"
    client.said("pause", topic)
    wait_until(lambda: client.state(topic) == "PAUSED", "it is paused", SECONDS)
    client.said("resume", "--all", "--pattern", topic)
    wait_until(lambda: client.state(topic) == "RUNNING", "it goes on", SECONDS)
    worker.wait_for_states(topic, "RUNNING", "RUNNING")
    client.said("restart-task", topic, "0")
    client.said("restart", topic)
    # Its command asks once more for the states, which may have passed on.
    assert client.answer("restart", topic, "--include-tasks")["name"] == topic
    restarted = KafkaConnect(worker.url).restart_connector(topic, include_tasks=True)
    assert restarted["tasks"][0]["state"] == "RESTARTING"
    client.said("restart", topic, "--include-tasks", "--only-failed")
    assert "FileStreamSinkConnector" in client.said("list-plugins")
    wrong = {"connector.class": "FileStreamSource", "name": topic}
    # Its command sends the configuration as one text.
    assert KafkaConnect(worker.url).validate_connector_config("FileStreamSource", wrong)["error_count"] == 2
    client.said("delete", topic)
    assert topic not in client.answer("list")
    assert "404" in client.said("get", topic)


def test_name_and_password_of_a_client(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    """HTTP basic authentication, with roles."""
    users = tmp_path / "users"
    users.write_text(f"ada: {hash_password('x', bytes(16))},admin\nbob: {hash_password('y', bytes(16))},read\n")
    login = {"authentication.method": "BASIC", "authentication.password.file": str(users)}
    with ThreadWorker({**worker_properties(tmp_path, broker.address), **login}, spark) as worker:
        assert "401" in Client(worker.url).said("list")
        assert "401" in Client(worker.url, "--auth", "ada:wrong").said("list")
        assert Client(worker.url, "--auth", "bob:y").answer("list") == []
        assert "403" in Client(worker.url, "--auth", "bob:y").said("delete", "x")
        assert "404" in Client(worker.url, "--auth", "ada:x").said("delete", "x")
