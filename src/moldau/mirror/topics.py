"""Topics on both sides: found, created, grown, and given the source's settings and access rules."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar
from uuid import UUID

from moldau.client.cluster import Cluster, check
from moldau.mirror.settings import Flow
from moldau.types.acls import Operation, Pattern, Permission, Resource
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from moldau.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from moldau.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from moldau.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from moldau.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from moldau.wire.messages.metadata import MetadataResponseTopic
from moldau.wire.schema import Message

TOPIC: Final = 2
SET, DELETE = 0, 1
FROM_FILE, DEFAULT = 4, 5
"""Where a setting comes from: the broker's own file, or nowhere."""
ANY: Final = 1
AT_ONCE: Final = 200
"""Topics that one request asks about."""

log = logging.getLogger(__name__)
R = TypeVar("R", bound=Message)


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic and its copy."""

    source: str
    source_id: UUID
    remote: str
    remote_id: UUID
    partitions: int


@dataclass(frozen=True, slots=True)
class Survey:
    pairs: Mapping[str, Pair]
    """What can be copied, by the name in the source."""
    problems: Mapping[str, str]
    """Topics that belong to the flow and cannot be copied, and why."""


def survey(flow: Flow, source: Cluster, target: Cluster, *, leads: bool, loops: Iterable[Flow] = ()) -> Survey:
    """Looks at both sides. Who `leads` also creates what is missing in the target.

    `loops`: flows the other way round; with one that keeps names as this one does a record would go in circles.
    """
    problems: dict[str, str] = {}
    wanted: dict[str, MetadataResponseTopic] = {}
    for topic in source.metadata(None).topics:
        name = topic.name or ""
        if not flow.copies(name):
            continue
        circle = next((other.name for other in loops if goes_round(flow, other, name)), None)
        if circle is not None:
            problems[name] = (
                f"{circle} copies it back under the same name, in circles: leave it out of one flow (topics.exclude), "
                "or use DefaultReplicationPolicy"
            )
        elif topic.error_code:
            problems[name] = f"the source says {ErrorCode(topic.error_code).name}"
        else:
            wanted[name] = topic
    remote = looked_up(target, [flow.remote(name) for name in wanted])
    if leads:
        missing = {name: topic for name, topic in wanted.items() if flow.remote(name) not in remote}
        create(flow, source, target, missing, problems)
        grow(flow, target, {name: topic for name, topic in wanted.items() if name not in missing}, remote, problems)
        remote = looked_up(target, [flow.remote(name) for name in wanted])
    pairs = {}
    for name, topic in wanted.items():
        found = remote.get(flow.remote(name))
        if found is None:
            problems.setdefault(name, f"topic {flow.remote(name)} does not exist in {flow.target} yet")
        elif len(found.partitions) < len(topic.partitions):
            problems.setdefault(
                name, f"{flow.remote(name)} has {len(found.partitions)} partitions, {len(topic.partitions)} are needed"
            )
        else:
            pairs[name] = Pair(name, topic.topic_id, flow.remote(name), found.topic_id, len(topic.partitions))
    return Survey(pairs, {name: why for name, why in problems.items() if name not in pairs})


def goes_round(flow: Flow, other: Flow, topic: str) -> bool:
    return (
        (other.source, other.target) == (flow.target, flow.source)
        and flow.policy.keeps_names
        and other.policy.keeps_names
        and flow.remote(topic) == topic
        and other.copies(topic)
    )


def looked_up(cluster: Cluster, names: list[str]) -> dict[str, MetadataResponseTopic]:
    """Those that exist and have leaders for all their partitions."""
    found = {}
    for start in range(0, len(names), AT_ONCE):
        for topic in cluster.metadata(names[start : start + AT_ONCE]).topics:
            if not topic.error_code and all(part.leader_id >= 0 for part in topic.partitions):
                found[topic.name or ""] = topic
    return found


# -- creating --------------------------------------------------------------------------------------------------------


def create(
    flow: Flow, source: Cluster, target: Cluster, missing: Mapping[str, MetadataResponseTopic], problems: dict[str, str]
) -> None:
    if not missing:
        return
    wanted = described(source, list(missing)) if flow.flag("sync.topic.configs.enabled") else {}
    replicas = bounded_replicas(target, flow.number("replication.factor"))
    for name, topic in missing.items():
        configs = [
            (entry.name, entry.value)
            for entry in wanted.get(name, ())
            if carried(flow, entry) and (entry.config_source != DEFAULT or from_source(flow))
        ]
        try:
            create_topic(target, flow.remote(name), len(topic.partitions), replicas, dict(configs))
            log.info("%s: created topic %s with %d partitions", flow.name, flow.remote(name), len(topic.partitions))
        except KafkaError as error:
            problems[name] = f"topic {flow.remote(name)} could not be created in {flow.target}: {error}"


def ensure_internal(cluster: Cluster, name: str, partitions: int, replication: int) -> None:
    """A compacted topic of the mirror's own."""
    if name in looked_up(cluster, [name]):
        return
    create_topic(cluster, name, partitions, bounded_replicas(cluster, replication), {"cleanup.policy": "compact"})
    cluster.topic(name)


def bounded_replicas(cluster: Cluster, wanted: int) -> int:
    return min(wanted, len(cluster.metadata([]).brokers)) if wanted > 0 else -1


def create_topic(
    cluster: Cluster, name: str, partitions: int, replicas: int, configs: Mapping[str, str | None]
) -> None:
    """One that is there already is as good."""
    topic = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
    )
    request = CreateTopicsRequest(topics=[topic], timeout_ms=int(cluster.settings.request_seconds * 1000))

    def ask() -> None:
        (done,) = to_controller(cluster, request, CreateTopicsResponse).topics
        if done.error_code != ErrorCode.TOPIC_ALREADY_EXISTS:
            check(done.error_code, f"topic {name}", done.error_message)

    cluster.retrying(ask)


def grow(
    flow: Flow,
    target: Cluster,
    wanted: Mapping[str, MetadataResponseTopic],
    remote: Mapping[str, MetadataResponseTopic],
    problems: dict[str, str],
) -> None:
    for name, topic in wanted.items():
        copy = flow.remote(name)
        if len(remote[copy].partitions) >= len(topic.partitions):
            continue
        change = CreatePartitionsTopic(name=copy, count=len(topic.partitions), assignments=None)
        request = CreatePartitionsRequest(
            topics=[change], timeout_ms=int(target.settings.request_seconds * 1000), validate_only=False
        )
        (done,) = to_controller(target, request, CreatePartitionsResponse).results
        if done.error_code:
            problems[name] = f"{copy} could not be given {len(topic.partitions)} partitions: {done.error_message}"
        else:
            log.info("%s: topic %s has %d partitions now", flow.name, copy, len(topic.partitions))


def to_controller(cluster: Cluster, request: Message, answer_class: type[R]) -> R:
    controller = cluster.metadata([]).controller_id
    if controller < 0:
        return cluster.any(request, answer_class)
    return cluster.to_broker(controller, request, answer_class)


# -- settings --------------------------------------------------------------------------------------------------------


def described(cluster: Cluster, names: list[str]) -> dict[str, list[DescribeConfigsResourceResult]]:
    found = {}
    for start in range(0, len(names), AT_ONCE):
        resources = [
            DescribeConfigsResource(resource_type=TOPIC, resource_name=name, configuration_keys=None)
            for name in names[start : start + AT_ONCE]
        ]
        request = DescribeConfigsRequest(resources=resources)
        answer = cluster.retrying(partial(cluster.any, request, DescribeConfigsResponse))
        for result in answer.results:
            if result.error_code:
                log.warning("the settings of topic %s cannot be read: %s", result.resource_name, result.error_message)
            else:
                found[result.resource_name] = list(result.configs)
    return found


def carried(flow: Flow, entry: DescribeConfigsResourceResult) -> bool:
    unwanted = flow.unwanted_configs
    return (
        not entry.read_only
        and not entry.is_sensitive
        and entry.config_source != FROM_FILE
        and not (unwanted is not None and unwanted.fullmatch(entry.name))
    )


def from_source(flow: Flow) -> bool:
    return flow.text("use.defaults.from") == "source"


def config_changes(
    flow: Flow,
    source: Iterable[DescribeConfigsResourceResult],
    copy: Iterable[DescribeConfigsResourceResult],
) -> list[AlterableConfig]:
    """What makes the copy's settings those of the source. Pure."""
    own = {entry.name: entry for entry in copy}
    changes = []
    for entry in source:
        there = own.get(entry.name)
        if not carried(flow, entry) or there is None:
            continue  # a setting that the target does not know
        is_own = there.config_source == 1
        if entry.config_source == DEFAULT and not from_source(flow):
            if is_own:
                changes.append(AlterableConfig(name=entry.name, config_operation=DELETE, value=None))
        elif not is_own or there.value != entry.value:
            changes.append(AlterableConfig(name=entry.name, config_operation=SET, value=entry.value))
    return changes


def sync_configs(flow: Flow, source: Cluster, target: Cluster, pairs: Iterable[Pair]) -> int:
    """Returns how many topics were changed."""
    known = list(pairs)
    wanted = described(source, [pair.source for pair in known])
    found = described(target, [pair.remote for pair in known])
    resources = []
    for pair in known:
        changes = config_changes(flow, wanted.get(pair.source, ()), found.get(pair.remote, ()))
        if changes:
            resources.append(AlterConfigsResource(resource_type=TOPIC, resource_name=pair.remote, configs=changes))
    for resource in resources:
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        ask = partial(to_controller, target, request, IncrementalAlterConfigsResponse)
        (done,) = target.retrying(ask).responses
        if done.error_code:
            log.warning("%s: settings of %s: %s", flow.name, resource.resource_name, done.error_message)
    return len(resources)


# -- access rules ----------------------------------------------------------------------------------------------------

Rule = tuple[str, str, str, int, int]
"""Topic, principal, host, operation, permission."""


def rules_of(cluster: Cluster) -> set[Rule] | None:
    """The rules of topics by their names; None where the cluster has no authorizer."""
    request = DescribeAclsRequest(
        resource_type_filter=Resource.TOPIC,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    answer = cluster.retrying(lambda: cluster.any(request, DescribeAclsResponse))
    if answer.error_code == ErrorCode.SECURITY_DISABLED:
        return None
    check(answer.error_code, "access rules", answer.error_message)
    return {
        (resource.resource_name, each.principal, each.host, each.operation, each.permission_type)
        for resource in answer.resources
        if resource.pattern_type == Pattern.LITERAL and resource.resource_type == Resource.TOPIC
        for each in resource.acls
    }


def carried_rules(flow: Flow, rules: Iterable[Rule]) -> set[Rule]:
    """As they are in the target: who may do all there may read here, and nobody may write. Pure."""
    found = set()
    for topic, principal, host, operation, permission in rules:
        if not flow.copies(topic) or (permission == Permission.ALLOW and operation == Operation.WRITE):
            continue
        if permission == Permission.ALLOW and operation == Operation.ALL:
            operation = Operation.READ
        found.add((flow.remote(topic), principal, host, int(operation), permission))
    return found


def sync_acls(flow: Flow, source: Cluster, target: Cluster) -> int:
    """Returns how many rules were added; none are taken away, since they may be the target's own."""
    wanted = rules_of(source)
    if wanted is None:
        return 0
    there = rules_of(target)
    if there is None:
        return 0
    new = carried_rules(flow, wanted) - there
    if new:
        creations = [
            AclCreation(
                resource_type=Resource.TOPIC,
                resource_name=topic,
                resource_pattern_type=Pattern.LITERAL,
                principal=principal,
                host=host,
                operation=operation,
                permission_type=permission,
            )
            for topic, principal, host, operation, permission in sorted(new)
        ]
        answer = target.retrying(
            lambda: to_controller(target, CreateAclsRequest(creations=creations), CreateAclsResponse)
        )
        for result in answer.results:
            if result.error_code:
                log.warning("%s: an access rule could not be added: %s", flow.name, result.error_message)
    return len(new)
