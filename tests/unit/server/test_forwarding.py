"""A request that only the controller decides, asked of another broker: handed on once, to whoever is the controller."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from moldau.client.core import ClientCore, Introduction
from moldau.client.settings import Address
from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.topic_creation import CreatedTopic, NewTopic
from moldau.security.authorizer import AllowAll, Operation, Resource
from moldau.security.context import ClientIdentity, RequestContext
from moldau.server.controller_requests import CONTROLLER_REQUESTS
from moldau.server.handlers.catalogue import APIS
from moldau.server.peers.connection import PeerConnection
from moldau.server.peers.opening import dial_tcp
from moldau.server.peers.peer import Lane, PeerLostError
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import CLASSES, ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from moldau.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.wire.messages.envelope import EnvelopeRequest, EnvelopeResponse
from moldau.wire.messages.incremental_alter_configs import AlterConfigsResource, IncrementalAlterConfigsRequest
from moldau.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest
from moldau.wire.messages.update_features import UpdateFeaturesRequest
from moldau.wire.schema import Message
from tests.fakes.unlimited import Unlimited
from tests.support.endpoints import EndPoint, World
from tests.support.loops import on_loop, until

Handle = Callable[[RequestContext, CreateTopicsRequest], Awaitable[CreateTopicsResponse]]


class Scene:
    """Brokers 1 to 3 with a CreateTopics of the test's own; what it was called with is remembered."""

    def __init__(self, handle: Handle | None = None) -> None:
        self.world = World()
        self.seen: list[tuple[int, RequestContext, CreateTopicsRequest]] = []
        self.handle = handle or self.create
        self.brokers: dict[int, EndPoint] = {}

    async def __aenter__(self) -> Scene:
        for broker_id in (1, 2, 3):
            self.brokers[broker_id] = EndPoint(
                self.world, broker_id, {**APIS, ApiKey.CREATE_TOPICS: self._api(broker_id)}
            )
            await self.brokers[broker_id].listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.world.close()

    def _api(self, broker_id: int) -> Api:
        async def handle(_broker: object, context: RequestContext, request: CreateTopicsRequest) -> Message:
            self.seen.append((broker_id, context, request))
            return await self.handle(context, request)

        return replace(APIS[ApiKey.CREATE_TOPICS], handle=handle)

    async def create(self, context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=topic.name) for topic in request.topics])

    async def client(self, broker_id: int) -> PeerConnection:
        """A client's connection, which is no broker's."""
        listener = self.world.image.brokers[broker_id].listeners["PLAINTEXT"]
        core = ClientCore("broker", Introduction("the-client"))
        connection = PeerConnection(core, lambda _: None)
        await dial_tcp(Address(listener.host, listener.port), connection, None)
        answer = await connection.send(ApiVersionsRequest(), ApiVersionsResponse, 0)
        core.versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        return connection

    async def ask(self, broker_id: int, *names: str, timeout_ms: int = 30_000) -> list[tuple[str, int]]:
        client = await self.client(broker_id)
        try:
            topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
            request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms)
            answer = await client.call(request, CreateTopicsResponse)
            return [(topic.name, topic.error_code) for topic in answer.topics]
        finally:
            client.end("done")


@on_loop
async def test_the_controller_decides_and_its_answer_comes_back() -> None:
    async with Scene() as scene:
        scene.world.elect(3)
        assert await scene.ask(1, "a", "b") == [("a", 0), ("b", 0)]
        ((decided_by, context, request),) = scene.seen
        assert decided_by == 3
        assert [topic.name for topic in request.topics] == ["a", "b"]
        assert (context.client_id, context.client.address, context.client.principal) == (
            "the-client",
            "127.0.0.1",
            "User:ANONYMOUS",
        )
        assert context.client.broker_id is None


@on_loop
async def test_the_controller_itself_hands_nothing_on() -> None:
    async with Scene() as scene:
        scene.world.elect(1)
        assert await scene.ask(1, "a") == [("a", 0)]
        assert [decided_by for decided_by, _, _ in scene.seen] == [1]


@on_loop
async def test_a_large_request_is_handed_on_whole() -> None:
    async with Scene() as scene:
        scene.world.elect(2)
        names = [f"topic-{number:05d}-{'x' * 40}" for number in range(2_000)]
        assert await scene.ask(1, *names) == [(name, 0) for name in names]


@on_loop
async def test_answers_keep_the_order_of_a_clients_requests() -> None:
    async with Scene() as scene:
        scene.world.elect(2)
        client = await scene.client(1)
        asked = [CreateTopicsRequest(topics=[CreatableTopic(name=f"t{number}")]) for number in range(20)]
        answers = await asyncio.gather(*(client.call(each, CreateTopicsResponse) for each in asked))
        assert [answer.topics[0].name for answer in answers] == [f"t{number}" for number in range(20)]
        client.end("done")


@on_loop
async def test_a_request_waits_until_there_is_a_controller() -> None:
    async with Scene() as scene:
        asking = asyncio.create_task(scene.ask(1, "a"))
        await until(lambda: scene.brokers[1].host.connections and scene.world._waiting)
        assert scene.seen == []
        scene.world.elect(2)
        assert await asking == [("a", 0)]


@on_loop
async def test_one_that_is_no_longer_the_controller_says_so_and_the_next_is_asked() -> None:
    async def deposed(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        if len(scene.seen) == 1:
            scene.world.elect(3)
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return await scene.create(context, request)

    async with Scene(deposed) as scene:
        scene.world.elect(2)
        assert await scene.ask(1, "a") == [("a", 0)]
        assert [decided_by for decided_by, _, _ in scene.seen] == [2, 3]


@on_loop
async def test_a_controller_that_is_deposed_while_it_decides_asks_the_next() -> None:
    async def deposed(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        if len(scene.seen) == 1:
            scene.world.elect(3)
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return await scene.create(context, request)

    async with Scene(deposed) as scene:
        scene.world.elect(1)
        assert await scene.ask(1, "a") == [("a", 0)]
        assert [decided_by for decided_by, _, _ in scene.seen] == [1, 3]


@on_loop
async def test_a_controller_that_dies_before_it_answers_is_replaced() -> None:
    async def dies(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        if len(scene.seen) == 1:
            await scene.brokers[2].close()
            scene.world.elect(3)
        return await scene.create(context, request)

    async with Scene(dies) as scene:
        scene.world.elect(2)
        assert await scene.ask(1, "a") == [("a", 0)]
        assert [decided_by for decided_by, _, _ in scene.seen] == [2, 3]


@on_loop
async def test_without_a_controller_the_client_is_told_when_its_time_is_over() -> None:
    async with Scene() as scene:
        assert await scene.ask(1, "a", "b", timeout_ms=20) == [
            ("a", ErrorCode.REQUEST_TIMED_OUT),
            ("b", ErrorCode.REQUEST_TIMED_OUT),
        ]


@on_loop
async def test_what_a_broker_asks_is_never_handed_on_again() -> None:
    """Two brokers that take each other for the controller must not play ball with a request."""

    async def no_controller(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    async with Scene(no_controller) as scene:
        scene.world.elect(3)
        peer = scene.brokers[1].peers.get(2)
        request = CreateTopicsRequest(topics=[CreatableTopic(name="a")])
        answer = await peer.call(request, CreateTopicsResponse, Lane.FORWARD)
        assert answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER
        assert [decided_by for decided_by, _, _ in scene.seen] == [2]
        envelope = EnvelopeRequest(request_data=b"", request_principal=b"")
        enveloped = await peer.call(envelope, EnvelopeResponse, Lane.FORWARD)
        assert enveloped.error_code == ErrorCode.NOT_CONTROLLER


@on_loop
async def test_an_envelope_holds_only_what_the_controller_decides() -> None:
    async with Scene() as scene:
        scene.world.elect(2)
        peer = scene.brokers[1].peers.get(2)
        core = ClientCore("x", Introduction("x"))
        inside, _ = core.write(EnvelopeRequest(), EnvelopeResponse, 0)
        metadata, _ = core.write(ApiVersionsRequest(), ApiVersionsResponse, 3)
        for data in (inside[4:], metadata[4:], b"", b"\0\x13\0\5"):
            answer = await peer.call(EnvelopeRequest(request_data=data), EnvelopeResponse)
            assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert scene.seen == []


@on_loop
async def test_this_brokers_own_request_finds_the_controller() -> None:
    async def deposed(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
        if len(scene.seen) == 1:
            scene.world.elect(3)
            raise KafkaError(ErrorCode.NOT_CONTROLLER)
        return await scene.create(context, request)

    async with Scene(deposed) as scene:
        scene.world.elect(2)
        asked = scene.brokers[1].broker.forwarding
        assert asked is not None
        answer = await asked.ask(
            CreateTopicsRequest(topics=[CreatableTopic(name="a")]),
            CreateTopicsResponse,
            lambda answer: answer.topics[0].error_code == ErrorCode.NOT_CONTROLLER,
        )
        assert (answer.topics[0].name, answer.topics[0].error_code) == ("a", 0)
        assert [decided_by for decided_by, _, _ in scene.seen] == [2, 3]


class Limited(Unlimited):
    """A quota on time that everybody is beyond."""

    active = True

    def __init__(self) -> None:
        self.charged: list[str] = []

    def handled(self, context: RequestContext, seconds: float) -> int:
        self.charged.append(context.client_id)
        return 300


@on_loop
async def test_the_controllers_time_is_the_clients_own() -> None:
    async with Scene() as scene:
        scene.world.elect(2)
        await scene.ask(1, "before")  # from here on the brokers know each other
        limited = scene.brokers[2].broker.quotas = Limited()
        client = await scene.client(1)
        answer = await client.call(CreateTopicsRequest(topics=[CreatableTopic(name="a")]), CreateTopicsResponse)
        assert answer.throttle_time_ms == 300
        assert limited.charged == ["the-client"], "and not the broker that handed the request on"
        client.end("done")


class NotForTheCluster:
    def allows(self, context: RequestContext, operation: Operation, resource: Resource, name: str) -> bool:
        return operation is not Operation.CLUSTER_ACTION


@on_loop
async def test_who_may_not_act_for_the_cluster_is_no_broker() -> None:
    world = World()
    guarded = EndPoint(world, 1, authorizer=NotForTheCluster())
    caller = EndPoint(world, 2)
    await guarded.listen()
    await caller.listen()
    with pytest.raises(PeerLostError, match="IntroduceBroker"):
        await caller.peers.get(1).call(EnvelopeRequest(), EnvelopeResponse)
    await world.close()


class ActsForTheCluster(AllowAll):
    """And has no right beside."""

    keeps_rules = True

    def allows(self, context: RequestContext, operation: Operation, *_: object, **__: object) -> bool:
        return operation is Operation.CLUSTER_ACTION


@on_loop
async def test_who_acts_for_the_cluster_is_believed_to_be_others_only_where_brokers_are() -> None:
    world = World()
    broker, caller = EndPoint(world, 1, authorizer=ActsForTheCluster()), EndPoint(world, 2)
    await broker.listen()
    await caller.listen()
    world.elect(1)
    core = ClientCore("x", Introduction("x"))
    inside, _ = core.write(ApiVersionsRequest(), ApiVersionsResponse, 3)
    asked = EnvelopeRequest(request_data=inside[4:], request_principal=b"User:admin")
    assert (await caller.peers.get(1).call(asked, EnvelopeResponse)).error_code == ErrorCode.INVALID_REQUEST
    broker.broker.config = BrokerConfig.load({
        "node.id": "1", "listeners": "PLAINTEXT://:0,BROKERS://:0", "inter.broker.listener.name": "BROKERS",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,BROKERS:PLAINTEXT",
    })  # fmt: skip
    refused = await caller.peers.get(1).call(asked, EnvelopeResponse)
    assert refused.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    await world.close()


class Creating:
    """A controller that makes whatever may be made."""

    async def create_topics(
        self, wanted: Sequence[NewTopic], _validate: bool, may_create: Callable[[str], bool], _mutations: object
    ) -> list[CreatedTopic]:
        def code(name: str) -> ErrorCode:
            return ErrorCode.NONE if may_create(name) else ErrorCode.TOPIC_AUTHORIZATION_FAILED

        return [CreatedTopic(topic.name, code(topic.name), None) for topic in wanted]


@on_loop
async def test_brokers_need_no_further_right_to_ask_the_controller_for_topics() -> None:
    world = World()
    controller = EndPoint(world, 1, authorizer=ActsForTheCluster(), controller=Creating())
    caller = EndPoint(world, 2)
    await controller.listen()
    await caller.listen()
    world.elect(1)
    asked = caller.broker.forwarding
    assert asked is not None
    request = CreateTopicsRequest(topics=[CreatableTopic(name="__consumer_offsets")])
    answer = await asked.ask(request, CreateTopicsResponse, lambda _: False)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.NONE]
    await world.close()


@on_loop
async def test_brokers_need_no_further_right_to_ask_where_logs_end() -> None:
    """Else none would know how far groups are behind."""

    def nothing_is_here(topic: str, index: int) -> None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    world = World()
    leader, caller = EndPoint(world, 1, authorizer=ActsForTheCluster()), EndPoint(world, 2)
    leader.broker.partitions = cast(Any, SimpleNamespace(get=nothing_is_here))
    await leader.listen()
    await caller.listen()
    wanted = ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    answer = await caller.peers.get(1).call(ListOffsetsRequest(replica_id=-1, topics=[wanted]), ListOffsetsResponse)
    assert answer.topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    await world.close()


@on_loop
async def test_clients_are_not_told_of_what_brokers_say_among_themselves() -> None:
    async with Scene() as scene:
        client = await scene.client(1)
        assert not {ApiKey.ENVELOPE, ApiKey.INTRODUCE_BROKER} & set(client.core.versions)
        client.end("done")


@on_loop
async def test_a_connection_of_a_broker_is_not_closed_for_being_idle() -> None:
    async with Scene() as scene:
        scene.world.elect(2)
        client = await scene.client(2)
        await scene.ask(1, "a")
        scene.brokers[2].host.sweep_idle(asyncio.get_running_loop().time() + 10_000)
        await until(lambda: client.lost is not None)
        await scene.ask(1, "b")
        ids = [connection.client.broker_id for connection in scene.brokers[2].host.connections]
        assert ids == [1]


@pytest.mark.parametrize("key", sorted(CONTROLLER_REQUESTS))
def test_every_request_can_be_refused(key: int) -> None:
    module, name, _ = CLASSES[key]
    assert APIS[key].request.__name__ == name
    refusal = CONTROLLER_REQUESTS[key].refuse(APIS[key].request(), ErrorCode.REQUEST_TIMED_OUT, "why")
    assert type(refusal).__name__ == name.replace("Request", "Response")
    assert module


class Deposed:
    """Somebody else has become the controller between the question and the decision."""

    async def decide(self, _rule: object) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    async def unregister(self, _broker_id: int) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)


@pytest.mark.parametrize("request_class", [UpdateFeaturesRequest, UnregisterBrokerRequest])
@on_loop
async def test_who_is_deposed_while_it_decides_leaves_the_answer_to_the_next(request_class: type[Message]) -> None:
    """A client must not hear of it: it has no way to find out where to ask."""
    endpoint = EndPoint(World(), 1, controller=Deposed())
    endpoint.broker.controllership = Deposed()  # type: ignore[assignment]
    context = RequestContext(ClientIdentity("User:x", "PLAINTEXT", "h"), "", request_class.API_KEY, 0, 1)
    handle = APIS[request_class.API_KEY].handle
    assert handle is not None
    with pytest.raises(KafkaError) as told:
        await cast(Awaitable[Message], handle(endpoint.broker, context, request_class()))
    assert told.value.code is ErrorCode.NOT_CONTROLLER


def test_levels_of_loggers_are_no_business_of_the_controller() -> None:
    applies = CONTROLLER_REQUESTS[ApiKey.INCREMENTAL_ALTER_CONFIGS].applies

    def request(*kinds: int) -> IncrementalAlterConfigsRequest:
        return IncrementalAlterConfigsRequest(resources=[AlterConfigsResource(resource_type=kind) for kind in kinds])

    assert not applies(request(8))
    assert applies(request(8, 2))
    assert applies(request(4))
