"""Members of the registries' group that are no registries, and elections that fail in ways nobody thought of."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from moldau.client.cluster import Cluster, CoordinatorKind
from moldau.client.settings import ClientSettings
from moldau.registry.election import Election
from moldau.registry.node import RegistrySettings, running
from moldau.types.error_codes import ErrorCode
from moldau.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from moldau.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from moldau.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tests.support.broker import Broker
from tests.support.registry import QUICK, Registry

pytestmark = pytest.mark.xdist_group("registry")
GROUP = "schema-registry"


def joined(cluster: Cluster, metadata: bytes) -> JoinGroupResponse:
    member = ""
    while True:
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            member_id=member,
            protocol_type="sr",
            protocols=[JoinGroupRequestProtocol(name="v0", metadata=metadata)],
        )
        answer = cluster.to_coordinator(CoordinatorKind.GROUP, GROUP, request, JoinGroupResponse, max_version=5)
        if answer.error_code != ErrorCode.MEMBER_ID_REQUIRED:
            return answer
        member = answer.member_id


@pytest.mark.parametrize("metadata", [b"", b"{}", b'{"host":"h","port":"everywhere"}'])
def test_a_stranger_in_the_group_does_not_end_the_election(tmp_path: Path, metadata: bytes) -> None:
    with (
        Broker(tmp_path / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker,
        Registry(tmp_path / "registry", broker.address, QUICK) as registry,
        Cluster(
            ClientSettings.from_properties({"bootstrap.servers": broker.address, "request.timeout.ms": "60000"})
        ) as cluster,
    ):
        answer = joined(cluster, metadata)
        assert answer.error_code == ErrorCode.NONE
        sync = SyncGroupRequest(
            group_id=GROUP, generation_id=answer.generation_id, member_id=answer.member_id, assignments=[]
        )
        told = cluster.to_coordinator(CoordinatorKind.GROUP, GROUP, sync, SyncGroupResponse, max_version=3)
        assert told.error_code == ErrorCode.NONE
        who = json.loads(bytes(told.assignment))["master_identity"]
        assert registry.url == f"http://{who['host']}:{who['port']}"
        leaving = LeaveGroupRequest(
            group_id=GROUP, member_id=answer.member_id, members=[MemberIdentity(member_id=answer.member_id)]
        )
        cluster.to_coordinator(CoordinatorKind.GROUP, GROUP, leaving, LeaveGroupResponse, max_version=3)
        status, body = registry.ask("POST", "/subjects/s/versions", {"schema": '"int"'})
        assert status == 200, body


def test_an_election_that_fails_begins_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sync, failures = Election._sync, iter([RuntimeError("out of the blue")])

    def failing(self: Election, cluster: Cluster, members: list[Any]) -> None:
        for failure in failures:
            raise failure
        sync(self, cluster, members)

    monkeypatch.setattr(Election, "_sync", failing)

    async def play(broker: str) -> None:
        settings = {**QUICK, "kafkastore.bootstrap.servers": broker, "listeners": "http://127.0.0.1:0"}
        async with running(RegistrySettings.of(settings)) as (_, registry):
            await asyncio.wait_for(registry.until_ready(), 60)
            assert registry.leads and next(failures, None) is None

    with Broker(tmp_path / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker:
        asyncio.run(play(broker.address))
