"""The handlers of settings over a cluster's metadata in memory: what they answer, and whom they ask for permission."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest

from moldau.config.broker import BrokerConfig
from moldau.metadata.controller.config_resources import ResourceType
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.metadata.image import ClusterImage
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import ANONYMOUS, ClientIdentity, RequestContext
from moldau.server.broker import Broker
from moldau.server.dynamic_config import DynamicConfig
from moldau.server.handlers import (
    alter_configs,
    alter_replica_log_dirs,
    describe_configs,
    incremental_alter_configs,
    list_config_resources,
)
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition
from moldau.wire.codec import decode, encode
from moldau.wire.messages import alter_configs as alter
from moldau.wire.messages import describe_configs as describe
from moldau.wire.messages import incremental_alter_configs as incremental
from moldau.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from moldau.wire.messages.list_config_resources import ListConfigResourcesRequest
from tests.support.metadata import Cluster

T = TypeVar("T")
TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = ResourceType
Asked = tuple[Operation, Resource, str]


class Desk:
    """The part of a broker that these handlers use; permissions can be withheld, and every question is noted."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.cluster.create(NewTopic("a", configs=[("flush.messages", "1000")]), NewTopic("b"))
        self.dynamic = DynamicConfig(self.cluster.config)
        self.node_id = 1
        self.authorizer = self.controller = self
        self.logs = self
        self.moves = self
        self.withheld: set[tuple[Resource, str]] = set()
        self.asked: list[Asked] = []
        self.moved: dict[TopicPartition, str] = {}
        self.move_error: KafkaError | None = None

    @property
    def config(self) -> BrokerConfig:
        return self.dynamic.current

    @property
    def image(self) -> ClusterImage:
        return self.cluster.image

    def allows(self, _context: RequestContext, operation: Operation, resource: Resource, name: str) -> bool:
        self.asked.append((operation, resource, name))
        return (resource, name) not in self.withheld

    async def decide(self, rule: Callable[[ClusterImage], Decision[T]]) -> T:
        answer = self.cluster.decide(rule)
        self.dynamic.load(self.image)
        return answer

    async def move(self, partition: TopicPartition, path: str) -> None:
        if self.move_error is not None:
            raise self.move_error
        self.moved[partition] = path

    def ask(self, handler: Any, request: object, version: int = 1) -> Any:
        context = RequestContext(
            ClientIdentity(ANONYMOUS, "PLAINTEXT", "127.0.0.1"), "test", handler.API.key, version, 1
        )
        answer = handler.handle(cast(Broker, self), context, request)
        return asyncio.run(answer) if asyncio.iscoroutine(answer) else answer

    def describe(self, *resources: tuple[int, str], keys: list[str] | None = None, **more: bool) -> list[Any]:
        wanted = [
            describe.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
            for kind, name in resources
        ]
        request = describe.DescribeConfigsRequest(resources=wanted, **more)
        answer = encode(self.ask(describe_configs, request, version=4), 4)
        return list(decode(describe.DescribeConfigsResponse, 4, answer)[0].results)

    def change(
        self, *resources: tuple[int, str, list[tuple[str, int, str | None]]], validate_only: bool = False
    ) -> list[tuple[int, str | None]]:
        wanted = [
            incremental.AlterConfigsResource(
                resource_type=kind,
                resource_name=name,
                configs=[
                    incremental.AlterableConfig(name=key, config_operation=operation, value=value)
                    for key, operation, value in changes
                ],
            )
            for kind, name, changes in resources
        ]
        request = incremental.IncrementalAlterConfigsRequest(resources=wanted, validate_only=validate_only)
        answers = self.ask(incremental_alter_configs, request).responses
        return [(each.error_code, each.error_message) for each in answers]


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_synonyms_and_documentation_only_when_asked_for(desk: Desk) -> None:
    (plain,) = desk.describe((TOPIC, "a"), keys=["flush.messages"])
    (entry,) = plain.configs
    assert (entry.value, entry.config_source, entry.synonyms, entry.documentation) == ("1000", 1, [], None)
    (full,) = desk.describe((TOPIC, "a"), keys=["flush.messages"], include_synonyms=True, include_documentation=True)
    (entry,) = full.configs
    assert [(each.name, each.source) for each in entry.synonyms] == [
        ("flush.messages", 1),
        ("log.flush.interval.messages", 5),
    ]
    assert entry.documentation


@pytest.mark.parametrize(
    ("resource", "code", "message"),
    [
        ((TOPIC, "nope"), 3, ""),
        ((TOPIC, ""), 17, "Topic name is invalid: the empty string is not allowed"),
        ((BROKER, "2"), 42, "Unexpected broker id, expected 1 or empty string, but received 2"),
        ((BROKER, "x"), 42, "Broker id must be an integer, but it is: x"),
        ((BROKER, " 1"), 42, "Broker id must be an integer, but it is:  1"),
        ((LOGGER, ""), 42, "Broker id must not be empty"),
        ((LOGGER, "2"), 42, "Unexpected broker id, expected 1 but received 2"),
        ((CLIENT_METRICS, ""), 42, "Client metrics subscription name must not be empty"),
        ((GROUP, ""), 42, "Group name must not be empty"),
        ((7, "x"), 42, describe_configs.MALFORMED),
    ],
)
def test_what_cannot_be_described(desk: Desk, resource: tuple[int, str], code: int, message: str) -> None:
    (result,) = desk.describe(resource)
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


def test_one_unknown_kind_spoils_the_whole_request(desk: Desk) -> None:
    assert [result.error_code for result in desk.describe((TOPIC, "a"), (99, "x"))] == [42, 42]


def test_groups_and_subscriptions_need_not_exist(desk: Desk) -> None:
    group, subscription = desk.describe((GROUP, "g"), (CLIENT_METRICS, "m"))
    assert (group.error_code, group.error_message, len(group.configs)) == (0, "", 17)
    assert {entry.name for entry in subscription.configs} == {"interval.ms", "match", "metrics"}


def test_loggers_have_no_documentation_and_no_type(desk: Desk) -> None:
    (result,) = desk.describe((LOGGER, "1"), keys=["root"])
    (entry,) = result.configs
    assert (entry.config_source, entry.config_type, entry.read_only, entry.documentation) == (6, 0, False, "")


def test_each_kind_of_settings_has_its_permission(desk: Desk) -> None:
    desk.describe((TOPIC, "a"), (GROUP, "g"), (BROKER, "1"), (LOGGER, "1"), (CLIENT_METRICS, "m"))
    cluster = (Operation.DESCRIBE_CONFIGS, Resource.CLUSTER, "kafka-cluster")
    assert desk.asked == [
        (Operation.DESCRIBE_CONFIGS, Resource.TOPIC, "a"),
        (Operation.DESCRIBE_CONFIGS, Resource.GROUP, "g"),
        *[cluster] * 3,
    ]


def test_descriptions_that_are_withheld_come_last(desk: Desk) -> None:
    desk.withheld = {(Resource.TOPIC, "a"), (Resource.GROUP, "g")}
    results = desk.describe((TOPIC, "a"), (GROUP, "g"), (TOPIC, "b"))
    assert [(result.resource_name, result.error_code) for result in results] == [("b", 0), ("a", 29), ("g", 30)]
    assert results[1].configs == []


def test_a_change_is_seen_by_the_next_description(desk: Desk) -> None:
    assert desk.change((BROKER, "", [("log.segment.bytes", 0, "2000000")]), (TOPIC, "b", [("flush.ms", 0, "9")])) == [
        (0, None),
        (0, None),
    ]
    (result,) = desk.describe((TOPIC, "b"), keys=["segment.bytes", "flush.ms"])
    assert {entry.name: (entry.value, entry.config_source) for entry in result.configs} == {
        "segment.bytes": ("2000000", 3),
        "flush.ms": ("9", 1),
    }


def test_a_change_that_is_only_validated_changes_nothing(desk: Desk) -> None:
    before = desk.image
    assert desk.change((TOPIC, "b", [("flush.ms", 0, "9")]), validate_only=True) == [(0, None)]
    assert desk.image is before


def test_changes_that_are_not_permitted_are_refused(desk: Desk) -> None:
    desk.withheld = {(Resource.TOPIC, "a"), (Resource.CLUSTER, "kafka-cluster")}
    answers = desk.change(
        (TOPIC, "a", [("flush.ms", 0, "9")]),
        (TOPIC, "b", [("flush.ms", 0, "9")]),
        (BROKER, "1", [("message.max.bytes", 0, "9")]),
        (LOGGER, "1", [("root", 0, "INFO")]),
    )
    assert [code for code, _ in answers] == [29, 0, 31, 31]
    assert Operation.ALTER_CONFIGS in {operation for operation, _, _ in desk.asked}
    assert desk.image.topics["a"].configs == {"flush.messages": "1000"}


def test_the_number_of_replicas_in_sync_belongs_to_the_cluster(desk: Desk) -> None:
    words = "min.insync.replicas cannot be {} while ELR is enabled."
    key = "min.insync.replicas"
    assert desk.change((BROKER, "1", [(key, 0, "2")])) == [(40, f"Broker-level {words.format('altered')}")]
    assert desk.change((BROKER, "", [(key, 0, "2")])) == [(0, None)]
    assert desk.change((BROKER, "", [(key, 1, None)])) == [(40, f"Cluster-level {words.format('removed')}")]


def test_settings_are_replaced_as_a_whole(desk: Desk) -> None:
    resource = alter.AlterConfigsResource(
        resource_type=TOPIC, resource_name="a", configs=[alter.AlterableConfig(name="flush.ms", value="9")]
    )
    (answer,) = desk.ask(alter_configs, alter.AlterConfigsRequest(resources=[resource])).responses
    assert (answer.error_code, answer.error_message) == (0, None)
    assert desk.image.topics["a"].configs == {"flush.ms": "9"}


def test_what_has_settings_is_listed_by_kind(desk: Desk) -> None:
    desk.change((GROUP, "g/1", [("consumer.session.timeout.ms", 0, "46000")]))
    desk.change((CLIENT_METRICS, "m", [("interval.ms", 0, "1000")]))

    def names(*kinds: int, version: int = 1) -> tuple[int, set[tuple[int, str]]]:
        answer = desk.ask(list_config_resources, ListConfigResourcesRequest(resource_types=kinds), version)
        return answer.error_code, {(each.resource_type, each.resource_name) for each in answer.config_resources}

    everything = {(2, "a"), (2, "b"), (4, "1"), (8, "1"), (16, "m"), (32, "g/1")}
    assert names() == (0, everything)
    assert names(TOPIC, GROUP) == (0, {(2, "a"), (2, "b"), (32, "g/1")})
    assert names(TOPIC, 99) == (35, set())
    assert names(version=0) == (0, {(16, "m")})
    desk.withheld = {(Resource.CLUSTER, "kafka-cluster")}
    assert names() == (31, set())


def _move(desk: Desk, *folders: tuple[str, str, list[int]]) -> dict[str, list[tuple[int, int]]]:
    request = AlterReplicaLogDirsRequest(
        dirs=[
            AlterReplicaLogDir(path=path, topics=[AlterReplicaLogDirTopic(name=name, partitions=partitions)])
            for path, name, partitions in folders
        ]
    )
    results = desk.ask(alter_replica_log_dirs, request).results
    return {each.topic_name: [(p.partition_index, p.error_code) for p in each.partitions] for each in results}


def test_of_two_folders_for_a_partition_the_last_one_counts(desk: Desk) -> None:
    assert _move(desk, ("/x", "a", [0]), ("/y", "a", [0])) == {"a": [(0, 0)]}
    assert desk.moved == {TopicPartition("a", 0): "/y"}


def test_a_name_too_long_for_a_copy_is_refused(desk: Desk) -> None:
    longest, too_long = "z" * (255 - 40 - 2), "z" * (255 - 40 - 1)
    assert _move(desk, ("/x", longest, [0]), ("/x", too_long, [0])) == {longest: [(0, 0)], too_long: [(0, 17)]}


def test_unknown_partitions_are_told_from_replicas_that_are_elsewhere(desk: Desk) -> None:
    desk.move_error = KafkaError(ErrorCode.REPLICA_NOT_AVAILABLE)
    assert _move(desk, ("/x", "a", [0, 9])) == {"a": [(0, 9), (9, 3)]}
    desk.move_error = KafkaError(ErrorCode.LOG_DIR_NOT_FOUND)
    assert _move(desk, ("/x", "nope", [0])) == {"nope": [(0, 57)]}


def test_moves_need_a_permission_of_the_cluster(desk: Desk) -> None:
    desk.withheld = {(Resource.CLUSTER, "kafka-cluster")}
    assert _move(desk, ("/x", "a", [0])) == {"a": [(0, 31)]}
    assert desk.moved == {}
    assert desk.asked == [(Operation.ALTER, Resource.CLUSTER, "kafka-cluster")]


def test_sockets_are_bound_at_start_and_stay(desk: Desk) -> None:
    """Apache Kafka could open others while it runs."""
    for name, value in (("listeners", "PLAINTEXT://:1"), ("listener.security.protocol.map", "PLAINTEXT:SSL")):
        refusal = f"Cannot update these configs dynamically: [{name}]"
        assert desk.change((BROKER, "1", [(name, 0, value)])) == [(42, refusal)]
