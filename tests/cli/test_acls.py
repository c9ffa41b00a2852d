"""kafka-acls as the book prints it, against a broker with an authorizer that is killed in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from moldau.cli.kafka import acls
from moldau.cli.kafka.connecting import close_all
from tests.support.broker import Broker

SETTINGS = {"authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer", "super.users": "User:ANONYMOUS"}
TOPIC = "`ResourcePattern(resourceType=TOPIC, name=clueful_secrets, patternType=LITERAL)`"
RULES = "\n".join(
    f"\t(principal=User:{who}, host=*, operation={what}, permissionType=ALLOW)"
    for who in ("Franz", "Hemingway")
    for what in ("READ", "WRITE")
)
USERS = ("--allow-principal", "User:Franz", "--allow-principal", "User:Hemingway")
OPERATIONS = ("--operation", "Read", "--operation", "Write")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with Broker(tmp_path, SETTINGS) as running:
        yield running
    close_all()


def test_rules_are_added_listed_and_removed_and_outlive_a_kill(
    broker: Broker, capsys: pytest.CaptureFixture[str]
) -> None:
    def tool(*arguments: str) -> str:
        assert acls.main(["--bootstrap-server", broker.address, *arguments]) == 0
        close_all()
        return capsys.readouterr().out

    added = tool("--add", *USERS, *OPERATIONS, "--topic", "clueful_secrets")
    assert added == f"Adding ACLs for resource {TOPIC}: \n {RULES}\n\n"
    broker.kill()
    broker.start()
    listed = tool("--list", "--topic", "clueful_secrets")
    assert sorted(listed.splitlines()) == sorted([f"Current ACLs for resource {TOPIC}:", *RULES.splitlines(), ""])
    tool("--remove", "--force", *USERS, *OPERATIONS, "--topic", "clueful_secrets")
    assert tool("--list") == ""
