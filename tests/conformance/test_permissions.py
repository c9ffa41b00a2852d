"""The table of permissions says something of every API that is served; what is not Apache Kafka's has rows here."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from moldau.server.handlers.catalogue import APIS
from moldau.types.acls import Operation, Resource
from moldau.types.errors import ErrorCode
from moldau.wire.apis import CLASSES, ApiKey
from tests.conformance.brokers import moldau
from tests.conformance.messages import api
from tests.conformance.permissions import ASKS_NOTHING, TABLE
from tests.conformance.scenarios.authorization import CLUSTER, GUEST, create, creation, lock
from tests.conformance.session import Session, new_tag
from tests.conformance.test_random_rules import ask
from tests.conformance.wire_client import WireClient

ASKED_BY_THE_GATE = ("sasl_handshake", "sasl_authenticate")
"""Served before anybody is there whom an authorizer could judge."""
ASKED_OF_THOSE_WHO_LOGGED_IN = (
    "create_delegation_token", "renew_delegation_token", "expire_delegation_token", "describe_delegation_token",
)  # fmt: skip
"""Refused on the open listener that the table is played on, whoever asks; those who logged in ask us and Apache
Kafka in tests/clients/test_tokens_beside_kafka.py."""

OURS = {
    ApiKey.INTRODUCE_BROKER: Operation.CLUSTER_ACTION,
    ApiKey.ENVELOPE: Operation.CLUSTER_ACTION,
    ApiKey.BROKER_HEARTBEAT: Operation.CLUSTER_ACTION,
    ApiKey.ALTER_PARTITION: Operation.CLUSTER_ACTION,
    ApiKey.ASSIGN_REPLICAS_TO_DIRS: Operation.CLUSTER_ACTION,
    ApiKey.ALTER_ROLES: Operation.ALTER,
    ApiKey.DESCRIBE_ROLES: Operation.DESCRIBE,
}
"""What is asked on the cluster."""
ASKED = [(key, version) for key in OURS for version in range(APIS[key].first, APIS[key].last + 1)]
RIGHTS = (Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.ALTER_CONFIGS)


def test_every_api_has_its_row() -> None:
    theirs = {key for key, each in APIS.items() if not each.between_brokers and not each.is_own}
    in_table = {api(row.api).key for row in TABLE}
    others = (*ASKS_NOTHING, *ASKED_BY_THE_GATE, *ASKED_OF_THOSE_WHO_LOGGED_IN)
    assert theirs - in_table == {api(name).key for name in others}
    assert set(OURS) == set(APIS) - theirs
    assert {key for key, each in APIS.items() if each.between_brokers} == {
        key for key, operation in OURS.items() if operation is Operation.CLUSTER_ACTION
    }


class Stage(NamedTuple):
    admin: Session
    guest: WireClient


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    with moldau(tmp_path_factory.mktemp("ours"), guarded=True) as broker:
        host, port = broker.address.rsplit(":", 1)
        admin = Session.start("ours", 0, WireClient(host, int(port)), new_tag(), broker.restart)
        guest = WireClient(host, int(port), GUEST)
        yield Stage(admin, guest)
        guest.close()
        admin.client.close()


@pytest.mark.parametrize(("key", "version"), ASKED, ids=str)
def test_what_is_ours_or_between_brokers_needs_its_right(stage: Stage, key: ApiKey, version: int) -> None:
    module, request, answer = CLASSES[key]
    classes: Any = importlib.import_module(f"moldau.wire.messages.{module}")

    def code() -> int:
        found: int = ask(stage.guest, getattr(classes, request)(), getattr(classes, answer), version).error_code
        return found

    lock(stage.admin)
    assert code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    for other in RIGHTS:
        if other is not OURS[key] and not (key == ApiKey.DESCRIBE_ROLES and other is Operation.ALTER):  # implies it
            create(stage.admin, creation(Resource.CLUSTER, CLUSTER, GUEST, other))
    assert code() == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    create(stage.admin, creation(Resource.CLUSTER, CLUSTER, GUEST, OURS[key]))
    assert code() != ErrorCode.CLUSTER_AUTHORIZATION_FAILED
