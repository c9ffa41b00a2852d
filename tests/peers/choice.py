"""Which broker the tests run against: ours, or the peer that they are validated with (MOLDAU_TEST_PEER=apache)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from tests.support.broker import Broker
from tests.support.process import BrokerProcess

PEERS = ("moldau", "apache")
PEER = os.environ.get("MOLDAU_TEST_PEER", "moldau")


def new_broker(directory: Path, settings: Mapping[str, object], port: int = 0, peer: str = PEER) -> BrokerProcess:
    """A broker that is not started yet; port 0 lets it find one."""
    if peer == "moldau":
        return Broker(directory, settings, port)
    if peer == "apache":
        from tests.peers.apache_kafka import ApacheKafka

        return ApacheKafka(directory, settings, port)
    raise ValueError(f"MOLDAU_TEST_PEER is {peer!r}; allowed: {', '.join(PEERS)}")
