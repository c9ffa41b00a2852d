"""A broker tells the controller that replicas are in a folder: as it goes over the wire, and what it leads to."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

from moldau.metadata.controller.decision import Rule
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.security.authorizer import AllowAll
from moldau.security.context import ClientIdentity, RequestContext
from moldau.server.directory_reports import assign_request
from moldau.server.handlers.assign_replicas_to_dirs import handle
from moldau.types.errors import ErrorCode
from moldau.wire.codec import decode, encode
from moldau.wire.messages.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
from tests.support.loops import on_loop
from tests.support.metadata import Cluster

FOLDER = UUID(int=77)


class Scene:
    """Three brokers; broker 1 leads the only partition of topic t."""

    def __init__(self) -> None:
        self.cluster = Cluster({1: None, 2: None, 3: None})
        self.cluster.create(NewTopic("t", assignments=[(0, (1, 2, 3))]))

    async def decide(self, rule: Rule[Any]) -> Any:
        return self.cluster.decide(rule)

    async def tell(self, topic_id: UUID, broker_epoch: int) -> AssignReplicasToDirsResponse:
        request = assign_request(1, broker_epoch, {(topic_id, 0): FOLDER})
        received, _ = decode(AssignReplicasToDirsRequest, 0, encode(request, 0))
        broker = SimpleNamespace(authorizer=AllowAll(), controller=self, config=self.cluster.config)
        context = RequestContext(ClientIdentity("User:b", "PLAINTEXT", "127.0.0.1"), "", 73, 0, 1)
        answer = await handle(cast(Any, broker), context, received)
        return decode(AssignReplicasToDirsResponse, 0, encode(answer, 0))[0]


def codes(answer: AssignReplicasToDirsResponse) -> list[tuple[UUID, int]]:
    return [
        (directory.id_, partition.error_code)
        for directory in answer.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]


@on_loop
async def test_the_controller_knows_the_folder_of_a_replica_once_it_was_told() -> None:
    scene = Scene()
    image = scene.cluster.image
    answer = await scene.tell(image.topics["t"].id, image.brokers[1].epoch)
    assert codes(answer) == [(FOLDER, ErrorCode.NONE)]
    assert scene.cluster.image.topics["t"].partitions[0].directory_of(1) == FOLDER


@on_loop
async def test_what_cannot_be_placed_is_refused() -> None:
    scene = Scene()
    image = scene.cluster.image
    assert codes(await scene.tell(UUID(int=5), image.brokers[1].epoch)) == [(FOLDER, ErrorCode.UNKNOWN_TOPIC_ID)]
    stale = await scene.tell(image.topics["t"].id, -5)
    assert (stale.error_code, list(stale.directories)) == (ErrorCode.STALE_BROKER_EPOCH, [])
