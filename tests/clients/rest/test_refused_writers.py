"""Whoever may write nowhere gets an error, and is let in once there is a right: such errors end a producer for good."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.locked import MODULE, LockedBroker
from tests.support.rest import Proxy, produce

pytestmark = pytest.mark.xdist_group("rest")


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LockedBroker]:
    with LockedBroker(tmp_path_factory.mktemp("broker"), ["bob"]) as broker:
        assert isinstance(broker, LockedBroker)
        yield broker


def allow(admin: AdminClient, operation: AclOperation, topic: str) -> None:
    rule = AclBinding(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        operation,
        AclPermissionType.ALLOW,
    )
    for future in admin.create_acls([rule]).values():
        future.result(30)


def test_a_login_that_may_write_nowhere_is_told_so_until_it_may(
    locked: LockedBroker, tmp_path: Path, name: str
) -> None:
    admin = AdminClient({"bootstrap.servers": locked.address})
    for future in admin.create_topics([NewTopic(name, 1)]).values():
        future.result(30)
    allow(admin, AclOperation.DESCRIBE, name)
    settings = {
        "client.security.protocol": "SASL_PLAINTEXT",
        "client.sasl.mechanism": "PLAIN",
        "client.sasl.jaas.config": f'{MODULE} required username="bob" password="bob-secret";',
    }
    with Proxy(tmp_path, locked.login_address, settings) as proxy:
        path = f"{proxy.cluster}/topics/{name}/records"
        entry = {"value": {"type": "STRING", "data": "x"}}
        for _ in range(2):
            refused = produce(proxy, name, ["a", "b"])
            assert (refused.status, [each["error_code"] for each in refused.body["offsets"]]) == (403, [40301, 40301])
            streamed = proxy.lines(path, json.dumps(entry).encode() * 3)
            assert [each["error_code"] for each in streamed] == [40301] * 3
            assert "CLUSTER_AUTHORIZATION_FAILED" in streamed[0]["message"]
        allow(admin, AclOperation.WRITE, name)
        assert produce(proxy, name, ["a"]).status == 200
        assert [each["offset"] for each in proxy.lines(path, json.dumps(entry).encode() * 2)] == [1, 2]
        assert proxy.stop() == 0
