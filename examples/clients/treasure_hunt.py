"""Kafka in Action 10: the masquerade party. Team Clueful keeps its clues in a topic that only its name protects, until
the broker is told who may read it.

Where nobody is asked who they are, somebody of Team Clueless lists the topics, reads the clues and adds false ones. On
a broker with logins and access rules the same steps find nothing, and are refused.

python examples/clients/treasure_hunt.py localhost:9092 [PREFIX OF ITS TOPICS]
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from moldau import Admin, Consumer, Producer
from moldau.clients.errors import AuthorizationFailed, DeliveryFailed
from moldau.clients.records import TopicPartition

Login = Mapping[str, str]
NOBODY: Login = {}
"""Where nobody is asked who they are."""
SECRETS = "clueful_secrets"
PATIENCE_SECONDS = 20.0


def login(user: str, password: str, mechanism: str = "SCRAM-SHA-512") -> Login:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.username": user,
        "sasl.password": password,
    }


@dataclass(slots=True)
class Loot:
    """What somebody got hold of, and what they were refused."""

    topics: list[str] = field(default_factory=list)
    clues: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)


def hide(bootstrap: str, who: Login, *clues: str, topic: str = SECRETS) -> None:
    """Raises DeliveryFailed."""
    config = {"bootstrap.servers": bootstrap, "enable.idempotence": False, **who}
    with Producer(config, value_serializer="string") as producer:
        for delivery in [producer.send(topic, clue) for clue in clues]:
            delivery.result(PATIENCE_SECONDS)


def read(bootstrap: str, who: Login, count: int, topic: str = SECRETS) -> list[str]:
    """As the console consumer does with --from-beginning. Raises AuthorizationFailed."""
    config = {"bootstrap.servers": bootstrap, "group.id": "masquerade", "auto.offset.reset": "earliest", **who}
    with Consumer(config, value_deserializer="string") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        return [record.value for record in islice(consumer.records(PATIENCE_SECONDS), count)]


def hunt(bootstrap: str, who: Login, count: int, topic: str = SECRETS) -> Loot:
    """What Team Clueless tries: look around, read, write."""
    loot = Loot()
    with Admin({"bootstrap.servers": bootstrap, **who}) as admin:
        loot.topics = [name for name in admin.list_topics() if "clueful" in name]
    try:
        loot.clues = read(bootstrap, who, count, topic)
    except AuthorizationFailed:
        loot.refused.append("read")
    try:
        hide(bootstrap, who, "the treasure lies at the bottom of the lake", topic=topic)
    except DeliveryFailed:
        loot.refused.append("write")
    return loot


if __name__ == "__main__":
    address, prefix = (*sys.argv[1:], "example-")[:2]
    hide(address, NOBODY, "behind the clock", "under the stairs", topic=f"{prefix}{SECRETS}")
    print(hunt(address, NOBODY, 2, f"{prefix}{SECRETS}"))
