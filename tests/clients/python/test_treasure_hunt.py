"""SX-01, SX-19, SX-20, SX-21: the attack of the book works on an open broker and is refused on a locked one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from clients import treasure_hunt
from clients.treasure_hunt import NOBODY, hide, hunt, login, read
from moldau import Admin
from moldau.clients.admin_types import AclBinding, NewTopic
from moldau.clients.errors import DeliveryFailed
from moldau.testing.brokers import Kafka
from tests.cli.kafka_tools.player import our_tool
from tests.support.locked import LockedBroker

CLUES = ("behind the clock", "under the stairs")
FALSE = "the treasure lies at the bottom of the lake"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    broker = LockedBroker(tmp_path_factory.mktemp("masquerade"), ("franz", "hemingway", "clueless"))
    with broker:
        yield broker


def test_the_attack_works_where_nobody_is_asked(kafka: Kafka) -> None:
    topic = kafka.topic(name=f"clueful-{kafka.topic()}")
    hide(kafka.bootstrap, NOBODY, *CLUES, topic=topic)
    loot = hunt(kafka.bootstrap, NOBODY, 2, topic)
    assert topic in loot.topics and loot.clues == list(CLUES) and not loot.refused
    assert read(kafka.bootstrap, NOBODY, 3, topic) == [*CLUES, FALSE]


def test_it_is_refused_where_rules_say_who_may(locked: LockedBroker) -> None:
    who = {user: login(user, f"{user}-secret", "PLAIN") for user in ("franz", "hemingway", "clueless")}
    address = locked.login_address
    with Admin({"bootstrap.servers": locked.address}) as admin:
        admin.create_topics([NewTopic(treasure_hunt.SECRETS, 1, 1)])
        with pytest.raises(
            DeliveryFailed, match="TOPIC_AUTHORIZATION_FAILED"
        ):  # SX-19: once there is an authorizer, nobody but super users
            hide(address, who["franz"], *CLUES)
        admin.create_acls(
            *(
                AclBinding("TOPIC", treasure_hunt.SECRETS, f"User:{user}", operation)
                for user in ("franz", "hemingway")
                for operation in ("READ", "WRITE")
            ),
            *(AclBinding("GROUP", "masquerade", f"User:{user}", "READ") for user in who),
        )
        hide(address, who["franz"], *CLUES)
        loot = hunt(address, who["clueless"], 2)
        assert (loot.topics, loot.clues, loot.refused) == ([], [], ["read", "write"])
        assert read(address, who["hemingway"], 2) == list(CLUES)
        admin.create_acls(AclBinding("TOPIC", treasure_hunt.SECRETS, "User:clueless", "READ"))
        loot = hunt(address, who["clueless"], 2)
    assert (loot.clues, loot.refused) == (list(CLUES), ["write"])  # SX-21: who may read may not write
    audit = locked.audit()
    for operation in ("DESCRIBE", "WRITE"):
        said = f"User:clueless is Denied operation = {operation} from host = 127.0.0.1 on resource = Topic:LITERAL:"
        assert said + treasure_hunt.SECRETS in audit


def test_rules_of_the_tool_let_two_users_read_and_write_and_no_third(locked: LockedBroker, tmp_path: Path) -> None:
    """SX-20: with kafka-acls, as the book prints it."""
    who = {user: login(user, f"{user}-secret", "PLAIN") for user in ("franz", "hemingway", "clueless")}
    address, topic = locked.login_address, "secrets-of-two"
    with Admin({"bootstrap.servers": locked.address}) as admin:
        admin.create_topics([NewTopic(topic, 1, 1)])
    users = ["--allow-principal", "User:franz", "--allow-principal", "User:hemingway"]
    for granted in (["--operation", "Read", "--operation", "Write", "--topic", topic],
                    ["--operation", "Read", "--group", "masquerade"]):  # fmt: skip
        added = our_tool("kafka-acls", ["--bootstrap-server", locked.address, "--add", *users, *granted], "", tmp_path)
        assert (added.code, added.err) == (0, "")
    written = []
    for user in ("franz", "hemingway"):
        written.append(f"hidden by {user}")
        hide(address, who[user], written[-1], topic=topic)
        assert read(address, who[user], len(written), topic) == written
    assert read(address, who["franz"], 2, topic) == written
    loot = hunt(address, who["clueless"], 2, topic)
    assert (loot.clues, loot.refused) == ([], ["read", "write"])
