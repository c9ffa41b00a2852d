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


GUARDED: Final[Mapping[str, object]] = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    # Lets a scenario make the first rules; from then on nothing is left that no rule is about.
    "allow.everyone.if.no.acl.found": "true",
}
"""For scenarios about who may do what."""


def _settings(directory: Path, guarded: bool) -> Mapping[str, object]:
    folders = {"log.dirs": f"{directory / 'first'},{directory / 'second'}"}
    return {**SETTINGS, **folders, **(GUARDED if guarded else {})}


def moldau(directory: Path, guarded: bool = False) -> BrokerProcess:
    return Broker(directory, _settings(directory, guarded))


def apache_kafka(directory: Path, guarded: bool = False) -> BrokerProcess:
    from tests.peers.apache_kafka import ApacheKafka

    return ApacheKafka(directory, _settings(directory, guarded))
