"""The cluster: its id, endpoints, features, metadata quorum, groups of every type."""

from __future__ import annotations

from tests.cli.kafka_tools.scenario import Step, scenario
from tests.cli.kafka_tools.state import groups as held_groups


def groups(arguments: str, *, servers: bool = True, in_order: bool = True) -> Step:
    return Step("kafka-groups", arguments, servers=servers, in_order=in_order)


def cluster(arguments: str, *, figures: bool = False) -> Step:
    return Step("kafka-cluster", arguments, servers=False, figures=figures)


def features(arguments: str, *, servers: bool = True) -> Step:
    return Step("kafka-features", arguments, servers=servers)


def quorum(arguments: str, *, servers: bool = True, figures: bool = False) -> Step:
    return Step("kafka-metadata-quorum", arguments, servers=servers, figures=figures)


scenario(
    "cluster",
    cluster("cluster-id --bootstrap-server {servers}"),
    cluster("list-endpoints --bootstrap-server {servers}", figures=True),
    cluster("list-endpoints --bootstrap-server {servers} --include-fenced-brokers", figures=True),
    cluster("unregister --bootstrap-server {servers} --id 77"),
    cluster("cluster-id"),
    cluster("bogus"),
    cluster("unregister --bootstrap-server {servers}"),
    features("describe"),
    features("describe --feature metadata.version"),
    features("upgrade"),
    features("upgrade --feature bogus.version=3"),
    features("upgrade --feature group.version"),
    features("downgrade --feature transaction.version=1 --dry-run"),
    features("disable --feature bogus.version"),
    features("describe", servers=False),
    features(""),
    quorum("describe --status", figures=True),
    quorum("describe --replication", figures=True),
    quorum("describe --replication --human-readable", figures=True),
    quorum("describe"),
    quorum("describe --status --replication"),
    quorum("describe --status", servers=False),
    quorum(""),
)

scenario(
    "all-groups",
    groups("--list", in_order=False),
    groups("--list --consumer", in_order=False),
    groups("--list --group-type classic", in_order=False),
    groups("--list --group-type share"),
    groups("--list --protocol consumer", in_order=False),
    groups("--list --share"),
    groups("--list --streams"),
    groups("--list --group-type bogus"),
    groups("--list --consumer --share"),
    groups("--list --consumer --group-type classic"),
    groups(""),
    groups("--list", servers=False),
    groups("--bogus"),
    held=held_groups,
)
