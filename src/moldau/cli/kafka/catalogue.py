"""The commands of Apache Kafka that exist here, and those that the Kafka books print whose subject is still missing.

`pyproject.toml` has one entry point for every name in TOOLS, with and without `.sh`; a test holds the two equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    module: str
    purpose: str
    java_class: str = ""


@dataclass(frozen=True, slots=True)
class LaterTool:
    name: str
    purpose: str
    missing: str


_TOOLS: Final = (
    Tool("kafka-topics", "topics", "create, list, describe, alter and delete topics",
         "org.apache.kafka.tools.TopicCommand"),
    Tool("kafka-console-producer", "console_producer", "write lines as records",
         "org.apache.kafka.tools.ConsoleProducer"),
    Tool("kafka-console-consumer", "console_consumer", "print records",
         "org.apache.kafka.tools.consumer.ConsoleConsumer"),
    Tool("kafka-consumer-groups", "consumer_groups", "list and describe groups, reset and delete their offsets",
         "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"),
    Tool("kafka-groups", "groups", "list groups of every type",
         "org.apache.kafka.tools.GroupsCommand"),
    Tool("kafka-cluster", "cluster", "the cluster's id, and its endpoints",
         "org.apache.kafka.tools.ClusterTool"),
    Tool("kafka-features", "features", "the features of the cluster, with their levels",
         "org.apache.kafka.tools.FeatureCommand"),
    Tool("kafka-metadata-quorum", "metadata_quorum", "who keeps the metadata, and how far the others are behind",
         "org.apache.kafka.tools.MetadataQuorumCommand"),
    Tool("kafka-configs", "configs", "show and change settings of topics, brokers and groups",
         "kafka.admin.ConfigCommand"),
    Tool("kafka-acls", "acls", "list, add and remove access rules",
         "org.apache.kafka.tools.AclCommand"),
    Tool("kafka-delegation-tokens", "delegation_tokens", "make, renew, expire and list delegation tokens",
         "org.apache.kafka.tools.DelegationTokenCommand"),
    Tool("kafka-leader-election", "leader_election", "elect preferred or unclean leaders",
         "org.apache.kafka.tools.LeaderElectionCommand"),
    Tool("kafka-preferred-replica-election", "preferred_replica_election",
         "elect preferred leaders, under the name that it had before Kafka 3"),
    Tool("kafka-reassign-partitions", "reassign_partitions", "move replicas between brokers and log directories",
         "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"),
    Tool("kafka-replica-verification", "replica_verification", "compare the replicas of partitions",
         "org.apache.kafka.tools.ReplicaVerificationTool"),
    Tool("kafka-delete-records", "delete_records", "delete the records before given offsets",
         "org.apache.kafka.tools.DeleteRecordsCommand"),
    Tool("kafka-get-offsets", "get_offsets", "first, last and other offsets of partitions",
         "org.apache.kafka.tools.GetOffsetShell"),
    Tool("kafka-log-dirs", "log_dirs", "log directories with sizes and lags",
         "org.apache.kafka.tools.LogDirsCommand"),
    Tool("kafka-dump-log", "dump_log", "print segments, indexes and snapshots",
         "org.apache.kafka.tools.DumpLogSegments"),
    Tool("kafka-transactions", "transactions", "list, describe and abort transactions, find hanging ones",
         "org.apache.kafka.tools.TransactionsCommand"),
    Tool("kafka-broker-api-versions", "broker_api_versions", "the API versions of every broker",
         "org.apache.kafka.tools.BrokerApiVersionsCommand"),
    Tool("kafka-producer-perf-test", "producer_perf_test", "measure producing",
         "org.apache.kafka.tools.ProducerPerformance"),
    Tool("kafka-consumer-perf-test", "consumer_perf_test", "measure consuming",
         "org.apache.kafka.tools.ConsumerPerformance"),
    Tool("kafka-e2e-latency", "e2e_latency", "measure the way of a record from producer to consumer",
         "org.apache.kafka.tools.EndToEndLatency"),
    Tool("kafka-verifiable-producer", "verifiable_producer", "produce a sequence, report each answer as JSON",
         "org.apache.kafka.tools.VerifiableProducer"),
    Tool("kafka-verifiable-consumer", "verifiable_consumer", "consume, report each event as JSON",
         "org.apache.kafka.tools.VerifiableConsumer"),
    Tool("kafka-storage", "storage", "form a cluster before its first start, with users; show log directories",
         "kafka.tools.StorageTool"),
    Tool("kafka-server-start", "server_start", "run a broker with a properties file", "kafka.Kafka"),
    Tool("kafka-server-stop", "server_stop", "stop the brokers of this machine"),
    Tool("zookeeper-server-start", "zookeeper_server_start", "run a ZooKeeper server with a properties file",
         "org.apache.zookeeper.server.quorum.QuorumPeerMain"),
    Tool("zookeeper-server-stop", "zookeeper_server_stop", "stop the ZooKeeper servers of this machine"),
    Tool("zookeeper-shell", "zookeeper_shell", "look into ZooKeeper",
         "org.apache.zookeeper.ZooKeeperMainWithTlsSupportForKafka"),
    Tool("connect-mirror-maker", "connect_mirror_maker", "keep topics, groups and settings up in other clusters",
         "org.apache.kafka.connect.mirror.MirrorMaker"),
    Tool("kafka-mirror-maker", "mirror_maker", "copy topics to another cluster under their own names",
         "kafka.tools.MirrorMaker"),
    Tool("kafka-rest-start", "rest_start", "run a REST proxy with a properties file"),
    Tool("connect-standalone", "connect_standalone", "run connectors in one process",
         "org.apache.kafka.connect.cli.ConnectStandalone"),
    Tool("connect-distributed", "connect_distributed", "run one worker of a group that shares connectors",
         "org.apache.kafka.connect.cli.ConnectDistributed"),
    Tool("kafka-run-class", "run_class", "run one of these tools by the name of Kafka's class"),
)  # fmt: skip

_LATER: Final = (
    LaterTool("kafka-streams-application-reset", "reset a Streams application", "there is no port of Kafka Streams"),
)  # fmt: skip

TOOLS: Final = {tool.name: tool for tool in _TOOLS}
LATER: Final = {tool.name: tool for tool in _LATER}


def entry_points() -> dict[str, str]:
    """What `[project.scripts]` holds for these tools."""
    names = (name + suffix for name in TOOLS for suffix in ("", ".sh"))
    return dict.fromkeys(names, "moldau.cli.kafka.entry:main")
