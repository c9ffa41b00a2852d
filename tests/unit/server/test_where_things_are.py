"""Answers that say where things are, on a broker that has none of them: read from the image, not from itself."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from types import MappingProxyType, SimpleNamespace
from typing import Any, TypeVar, cast
from uuid import UUID

import pytest

from moldau.coordinators.sharding import partition_for
from moldau.metadata.image import PartitionImage, TopicImage
from moldau.metrics import Metrics
from moldau.security.context import ClientIdentity, Introduction, RequestContext
from moldau.security.standard import StandardAuthorizer
from moldau.server.forwarding import Forwarding
from moldau.server.gauges import register_controller_gauges
from moldau.server.handlers import describe_quorum
from moldau.server.handlers.catalogue import APIS
from moldau.server.peers.peer import PeerLostError
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.codec import decode, encode
from moldau.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from moldau.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from moldau.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    PartitionDataInResponse,
    ReplicaState,
    TopicData,
    TopicDataInResponse,
)
from moldau.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from moldau.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    ListPartitionReassignmentsTopics,
)
from moldau.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from moldau.wire.schema import Message
from tests.support.endpoints import LISTENER, EndPoint, World
from tests.support.loops import on_loop, until

R = TypeVar("R", bound=Message)
NOW_MS = 1_540_874_053_577
QUORUM = DescribeQuorumRequest(
    topics=[TopicData(topic_name="__cluster_metadata", partitions=[PartitionData(partition_index=0)])]
)


class NoPartitions:
    """None of the partitions is here."""

    def find(self, topic: str, index: int) -> None:
        return None


class Scene:
    """Broker 1 is asked; 2 and 3 are registered."""

    def __init__(self) -> None:
        self.world = World()
        for number in (1, 2, 3):
            self.world.register(number, 9000 + number)
        self.endpoint = EndPoint(self.world, 1)
        self.broker = self.endpoint.broker
        self.broker.partitions = NoPartitions()  # type: ignore[assignment]
        self.broker.logs = type("Logs", (), {"directories": ()})()  # type: ignore[assignment]

    def topic(self, name: str, *partitions: PartitionImage) -> None:
        made = TopicImage(name, UUID(int=len(self.world.image.topics) + 1), partitions)
        topics = {**self.world.image.topics, name: made}
        self.world.announce(
            topics=MappingProxyType(topics), topics_by_id=MappingProxyType({each.id: each for each in topics.values()})
        )

    def fence(self, number: int) -> None:
        old = self.world.image
        brokers = {**old.brokers, number: replace(old.brokers[number], fenced=True)}
        self.world.announce(brokers=MappingProxyType(brokers))
        self.broker.lingering.apply(old, self.world.image, Any)  # type: ignore[arg-type]

    def begin(self, request: Message, version: int) -> Any:
        """The answer, or what has to be awaited for it."""
        context = RequestContext(ClientIdentity("User:x", LISTENER, "h"), "", request.API_KEY, version, 1)
        handle = APIS[request.API_KEY].handle
        assert handle is not None
        return handle(self.broker, context, request)

    async def ask(self, request: Message, answer_class: type[R], version: int | None = None) -> R:
        version = request.LAST_VERSION if version is None else version
        answer = self.begin(request, version)
        if not isinstance(answer, Message):
            answer = await answer
        return decode(answer_class, version, encode(answer, version))[0]


def led_by(leader: int, replicas: tuple[int, ...] = (1, 2, 3), **more: Any) -> PartitionImage:
    return PartitionImage(replicas, replicas, leader, 1, 1, **more)


@on_loop
async def test_the_coordinator_is_the_leader_of_the_keys_partition() -> None:
    scene = Scene()
    scene.topic("__consumer_offsets", led_by(2), led_by(3), led_by(-1))
    scene.topic("__transaction_state", led_by(3))
    for key in map(str, range(20)):
        answer = await scene.ask(FindCoordinatorRequest(coordinator_keys=[key]), FindCoordinatorResponse)
        (found,) = answer.coordinators
        shard = partition_for(key, 3)
        expected = {0: (2, 9002, 0), 1: (3, 9003, 0), 2: (-1, -1, ErrorCode.COORDINATOR_NOT_AVAILABLE)}[shard]
        assert (found.node_id, found.port, found.error_code) == expected
    transaction = await scene.ask(FindCoordinatorRequest(key_type=1, key="x"), FindCoordinatorResponse, 3)
    assert (transaction.node_id, transaction.port) == (3, 9003)


@on_loop
async def test_a_coordinator_that_is_fenced_is_not_available() -> None:
    scene = Scene()
    scene.topic("__consumer_offsets", led_by(2))
    scene.fence(2)
    answer = await scene.ask(FindCoordinatorRequest(key="x"), FindCoordinatorResponse, 2)
    assert (answer.error_code, answer.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


@on_loop
async def test_metadata_names_the_controller_and_who_has_just_gone() -> None:
    scene = Scene()
    scene.topic("t", led_by(2), led_by(-1))
    scene.world.elect(3)
    await scene.ask(MetadataRequest(topics=None), MetadataResponse)
    scene.fence(2)
    answer = await scene.ask(MetadataRequest(topics=None), MetadataResponse)
    assert answer.controller_id == 3
    assert sorted(broker.node_id for broker in answer.brokers) == [1, 2, 3]
    first, second = answer.topics[0].partitions
    assert set(first.offline_replicas) == {1, 2}, "the answer before the broker was fenced is told again"
    assert (second.leader_id, second.error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)


@on_loop
async def test_describe_cluster_is_exact() -> None:
    scene = Scene()
    scene.world.elect(2)
    scene.fence(3)
    answer = await scene.ask(DescribeClusterRequest(), DescribeClusterResponse)
    assert answer.controller_id == 2
    assert sorted((broker.broker_id, broker.is_fenced) for broker in answer.brokers) == [(1, False), (2, False)]
    answer = await scene.ask(DescribeClusterRequest(include_fenced_brokers=True), DescribeClusterResponse)
    assert sorted((broker.broker_id, broker.is_fenced) for broker in answer.brokers) == [
        (1, False),
        (2, False),
        (3, True),
    ]


@on_loop
async def test_metadata_about_a_suspected_leader_waits_for_the_next_one() -> None:
    scene = Scene()
    scene.topic("t", led_by(2))
    scene.topic("other", led_by(3))
    scene.broker.suspects = {2}
    other = await scene.ask(MetadataRequest(topics=[MetadataRequestTopic(name="other")]), MetadataResponse)
    assert other.topics[0].partitions[0].leader_id == 3
    held = asyncio.create_task(scene.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), MetadataResponse))
    await until(lambda: scene.world._waiting)
    scene.world.announce()
    await until(lambda: scene.world._waiting)
    assert not held.done()
    scene.topic("t", led_by(3))
    assert (await held).topics[0].partitions[0].leader_id == 3


@on_loop
async def test_how_long_metadata_takes_does_not_tell_which_topics_there_are() -> None:
    scene = Scene()
    scene.broker.authorizer = StandardAuthorizer()
    scene.topic("secret", led_by(2))
    for name in ("secret", "missing"):
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        answer = scene.begin(asked, asked.LAST_VERSION)
        assert isinstance(answer, MetadataResponse), "at once"
        assert answer.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


@on_loop
async def test_metadata_waits_for_a_moment_for_news_that_the_client_has_already() -> None:
    """The leader has died; the client knows, and its question comes before the end of our link to that broker."""
    scene = Scene()
    scene.topic("t", led_by(2))
    scene.topic("own", led_by(1))
    own = MetadataRequest(topics=[MetadataRequestTopic(name="own")])
    assert isinstance(scene.begin(own, own.LAST_VERSION), MetadataResponse), "at once"
    asked = asyncio.create_task(scene.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), MetadataResponse))
    await asyncio.sleep(0)
    scene.broker.suspects = {2}
    await until(lambda: scene.world._waiting)
    assert not asked.done()
    scene.topic("t", led_by(3))
    assert (await asked).topics[0].partitions[0].leader_id == 3


@on_loop
async def test_metadata_is_not_held_for_long() -> None:
    scene = Scene()
    scene.topic("t", led_by(2))
    scene.broker.suspects = {2}
    answer = await scene.ask(MetadataRequest(topics=None), MetadataResponse)
    assert answer.topics[0].partitions[0].leader_id == 2


@on_loop
async def test_reassignments_under_way_are_listed() -> None:
    scene = Scene()
    scene.topic("still", led_by(1))
    scene.topic("moving", led_by(1), led_by(1, (1, 2, 3), adding=(3,), removing=(1,)))

    def told(answer: ListPartitionReassignmentsResponse) -> list[tuple[Any, ...]]:
        return [
            (topic.name, each.partition_index, each.replicas, each.adding_replicas, each.removing_replicas)
            for topic in answer.topics
            for each in topic.partitions
        ]

    moving = [("moving", 1, [1, 2, 3], [3], [1])]
    asked = ListPartitionReassignmentsRequest(topics=None)
    assert told(await scene.ask(asked, ListPartitionReassignmentsResponse)) == moving
    for indexes, expected in (([0], []), ([0, 1, 9], moving)):
        topics = [ListPartitionReassignmentsTopics(name="moving", partition_indexes=indexes)]
        asked = ListPartitionReassignmentsRequest(topics=topics)
        assert told(await scene.ask(asked, ListPartitionReassignmentsResponse)) == expected


@on_loop
async def test_the_quorum_is_led_by_the_controller() -> None:
    scene = Scene()
    scene.world.elect(3)
    scene.fence(2)
    answer = await scene.ask(QUORUM, DescribeQuorumResponse)
    (partition,) = answer.topics[0].partitions
    assert (partition.leader_id, partition.leader_epoch) == (3, 1)
    assert [voter.replica_id for voter in partition.current_voters] == [1, 3]
    assert sorted(node.node_id for node in answer.nodes) == [1, 3]


@pytest.mark.parametrize(
    ("second", "third", "told"),
    [
        (0, 5, {1: (0, -1), 2: (0, -1), 3: (5, NOW_MS)}),
        (-3, 0, {1: (0, NOW_MS), 2: (-3, -1), 3: (0, NOW_MS)}),
        (None, 0, {1: (0, NOW_MS), 2: (None, -1), 3: (0, NOW_MS)}),
        (0, None, {1: (0, NOW_MS), 2: (0, NOW_MS), 3: (0, NOW_MS)}),
    ],
    ids=["we are behind", "one is behind", "one does not answer", "the controller does not"],
)
@on_loop
async def test_how_far_each_has_read_the_metadata_is_asked_of_itself(
    second: int | None, third: int | None, told: dict[int, tuple[int | None, int]]
) -> None:
    """The offsets are counted from that of the broker that is asked."""
    scene = Scene()
    scene.world.elect(3)
    own = scene.world.image.version
    others = Readers({number: own + ahead for number, ahead in ((2, second), (3, third)) if ahead is not None})
    scene.broker.forwarding = cast(Forwarding, SimpleNamespace(peers=others))
    scene.broker.wall_ms = lambda: NOW_MS
    answer = await scene.ask(QUORUM, DescribeQuorumResponse)
    (partition,) = answer.topics[0].partitions
    assert {
        voter.replica_id: (voter.log_end_offset, voter.last_caught_up_timestamp) for voter in partition.current_voters
    } == {number: (-1 if ahead is None else own + ahead, at) for number, (ahead, at) in told.items()}
    assert partition.high_watermark == max(own + (ahead or 0) for ahead, _ in told.values())
    assert others.asked == [2, 3]


@on_loop
async def test_a_broker_that_is_asked_by_another_one_asks_nobody() -> None:
    """And tells it, whatever rules there are for clients."""
    scene = Scene()
    scene.broker.authorizer = StandardAuthorizer()
    others = Readers({})
    scene.broker.forwarding = cast(Forwarding, SimpleNamespace(peers=others))
    client = ClientIdentity("User:x", LISTENER, "h")
    context = RequestContext(client, "", ApiKey.DESCRIBE_QUORUM, 2, 1)
    client.introduction = Introduction(2, UUID(int=2), is_trusted=False)
    refused = await describe_quorum.handle(scene.broker, context, QUORUM)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "it only says to be one"
    client.broker_id = 2
    told = await describe_quorum.handle(scene.broker, context, QUORUM)
    assert told.error_code == ErrorCode.NONE
    assert others.asked == []


class Readers:
    """Other brokers, and how far each has read the metadata; those that are not named are gone."""

    def __init__(self, ends: dict[int, int]) -> None:
        self._ends = ends
        self.asked: list[int] = []

    def get(self, broker_id: int) -> Reader:
        self.asked.append(broker_id)
        return Reader(broker_id, self._ends.get(broker_id))


@dataclass(frozen=True, slots=True)
class Reader:
    broker_id: int
    end: int | None

    async def call(self, _request: Message, _answer_class: type, **_: object) -> DescribeQuorumResponse:
        if self.end is None:
            raise PeerLostError("gone")
        others = [
            ReplicaState(replica_id=9, log_end_offset=1),
            ReplicaState(replica_id=self.broker_id, log_end_offset=self.end),
        ]
        partition = PartitionDataInResponse(current_voters=others)
        return DescribeQuorumResponse(topics=[TopicDataInResponse(partitions=[partition])])


@on_loop
async def test_figures_of_the_cluster_are_the_controllers() -> None:
    scene = Scene()
    scene.topic("t", led_by(1), led_by(2), led_by(-1))
    scene.world.elect(2)
    scene.fence(3)
    names = (
        "ActiveControllerCount", "GlobalTopicCount", "GlobalPartitionCount", "OfflinePartitionsCount",
        "PreferredReplicaImbalanceCount", "ActiveBrokerCount", "FencedBrokerCount",
    )  # fmt: skip
    figures = {}
    for broker_id in (1, 2):
        metrics = Metrics()
        register_controller_gauges(metrics, lambda: scene.world.image, broker_id)
        values = {name.name: value for name, value in metrics.snapshot()}
        figures[broker_id] = [values[name] for name in names]
    assert figures == {1: [0] * 7, 2: [1, 1, 3, 1, 1, 2, 1]}


@on_loop
async def test_a_topic_that_a_client_only_named_is_asked_of_the_controller() -> None:
    asked: list[CreateTopicsRequest] = []

    async def create(_broker: object, context: RequestContext, request: CreateTopicsRequest) -> Message:
        asked.append(request)
        (topic,) = request.topics
        asyncio.get_running_loop().call_soon(scene.topic, topic.name, led_by(2))
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name)])

    scene = Scene()
    await scene.endpoint.listen()
    api = replace(APIS[ApiKey.CREATE_TOPICS], handle=create)
    controller = EndPoint(scene.world, 2, {**APIS, ApiKey.CREATE_TOPICS: api})
    await controller.listen()
    scene.world.elect(2)
    answer = await scene.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), MetadataResponse)
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [("new", 0)]
    (found,) = (await scene.ask(FindCoordinatorRequest(coordinator_keys=["g"]), FindCoordinatorResponse)).coordinators
    assert (found.node_id, found.error_code) == (2, 0)
    (named,), (offsets,) = (request.topics for request in asked)
    assert (named.name, named.num_partitions, named.replication_factor) == ("new", -1, -1)
    assert (offsets.name, offsets.num_partitions) == ("__consumer_offsets", 50)
    assert ("cleanup.policy", "compact") in [(config.name, config.value) for config in offsets.configs]
    await scene.world.close()
