"""The proxy under the name of Confluent's script, as the book prints it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.process import BrokerProcess, die_with_parent
from tests.support.rest import Proxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("rest")


def test_of_registry_and_proxy_in_one_process_the_proxy_may_use_another_registry(
    broker: BrokerProcess, proxy: Proxy, topic: str, tmp_path: Path
) -> None:
    """`proxy` stands beside the other registry."""
    settings = {
        "registry.listeners": "http://127.0.0.1:0",
        "registry.kafkastore.topic": topic + "-schemas",
        "registry.schema.registry.group.id": topic,
        "rest.listeners": "http://127.0.0.1:0",
        "rest.schema.registry.url": proxy.urls[0],
    }
    schema = {"schema": '"string"'}
    assert proxy.ask("POST", f"{proxy.urls[0]}/subjects/{topic}-value/versions", schema).status == 200
    with Proxy(tmp_path, broker.address, settings, ("services", "start")) as other:
        value = {"schema_version": 1, "data": "text"}
        stored = other.ask("POST", f"{other.cluster}/topics/{topic}/records", {"value": value}).body
        assert stored["error_code"] == 200, stored


def test_the_proxy_starts_and_lists_topics_as_printed(tmp_path: Path) -> None:
    """AD-09, AD-10, AD-11."""
    program = Path(sys.prefix) / "bin" / "kafka-rest-start"
    with Broker(tmp_path / "broker") as broker:
        file = tmp_path / "kafka-rest.properties"
        lines = ["id=kafka-rest-test-server", f"bootstrap.servers=PLAINTEXT://{broker.address}"]
        file.write_text("\n".join([*lines, "zookeeper.connect=localhost:2181", "listeners=http://127.0.0.1:0"]))
        proxy = Proxy(tmp_path, broker.address)
        with (tmp_path / "stdout").open("wb") as out, (tmp_path / "stderr").open("wb") as err:
            proxy.process = subprocess.Popen([program, file], stdout=out, stderr=err, preexec_fn=die_with_parent)  # noqa: PLW1509
        wait_until(proxy.is_ready, "the proxy is ready", 60)
        made = proxy.ask("POST", f"{proxy.cluster}/topics", {"topic_name": "alert", "partitions_count": 1})
        assert made.status == 201
        listed = proxy.ask("GET", "/topics", Accept="application/vnd.kafka.v2+json")
        assert listed.status == 200 and "alert" in listed.body
        assert proxy.ask("GET", "/topics", Accept="application/vnd.kafka.v9+json").status == 406
        assert proxy.stop() == 0
