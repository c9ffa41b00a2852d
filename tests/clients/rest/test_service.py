"""The proxy under the name of Confluent's script, as the book prints it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.broker import Broker
from tests.support.process import die_with_parent
from tests.support.rest import Proxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("rest")


def test_the_proxy_starts_and_lists_topics_as_printed(tmp_path: Path) -> None:
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
