"""The properties of Kafka's own clients: as its jars list them, and as they were recorded."""

from __future__ import annotations

import re
from pathlib import Path

from tests.peers.apache_kafka import java_tool

RECORDED = Path(__file__).with_name("recorded") / "java_client_properties.txt"
CONFIGURATIONS = ("consumer.ConsumerConfig", "producer.ProducerConfig", "admin.AdminClientConfig")
"""Each of these classes prints its own reference page; internal properties are not in it."""


def recorded_properties() -> list[str]:
    return RECORDED.read_text().split()


def listed_properties() -> list[str]:
    names: set[str] = set()
    for configuration in CONFIGURATIONS:
        page = java_tool(f"org.apache.kafka.clients.{configuration}").stdout
        found = re.findall(r'id="[a-z]+configs_([a-z0-9.]+)"', page)
        assert "bootstrap.servers" in found, f"{configuration}: {page[:200]}"
        names |= set(found)
    return sorted(names)
