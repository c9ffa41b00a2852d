"""The two brokers that are compared, started with the same settings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.support.broker import Broker
from tests.support.process import BrokerProcess

SETTINGS: Final[Mapping[str, object]] = {
    "node.id": 1,
    "num.partitions": 4,
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
}


def _settings(directory: Path) -> Mapping[str, object]:
    return {**SETTINGS, "log.dirs": f"{directory / 'first'},{directory / 'second'}"}


def moldau(directory: Path) -> BrokerProcess:
    return Broker(directory, _settings(directory))


def apache_kafka(directory: Path) -> BrokerProcess:
    from tests.peers.apache_kafka import ApacheKafka

    return ApacheKafka(directory, _settings(directory))
