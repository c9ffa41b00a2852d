"""What the benchmark itself asks a cluster: topics with three copies, who leads, who controls, what is in sync."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from bench.cluster.clusters import BROKERS, MeasuredCluster
from moldau.client.cluster import Cluster
from moldau.client.settings import ClientSettings, parse_addresses
from moldau.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionData,
    TopicData,
)
from tests.support.waiting import wait_until

ADMIN_SECONDS = 60.0
DELETE_SECONDS = 180.0
METADATA_TOPIC = "__cluster_metadata"
MIN_IN_SYNC = 2


class Asking:
    def __init__(self, cluster: MeasuredCluster) -> None:
        self._cluster = cluster
        self._admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})

    def create(self, topic: str, partitions: int) -> None:
        wanted = NewTopic(topic, partitions, BROKERS, config={"min.insync.replicas": str(MIN_IN_SYNC)})
        self._admin.create_topics([wanted], operation_timeout=ADMIN_SECONDS)[topic].result(ADMIN_SECONDS)
        wait_until(lambda: self.is_whole(topic), f"{topic} is in sync", ADMIN_SECONDS)

    def create_quickly(self, topic: str, copies: int) -> None:
        """Raises KafkaException if that cannot be done at once."""
        wanted = NewTopic(topic, 1, copies)
        self._admin.create_topics([wanted], operation_timeout=1, request_timeout=1)[topic].result(5)

    def delete(self, topic: str) -> None:
        """Returns when the files are gone too, so that removing them does not burden the next measurement."""
        self._admin.delete_topics([topic], operation_timeout=ADMIN_SECONDS)[topic].result(ADMIN_SECONDS)

        def gone() -> bool:
            return not any(found for folder in self._cluster.data for found in folder.glob(f"{topic}[-.]*"))

        wait_until(gone, f"the files of {topic} are deleted", DELETE_SECONDS)

    def is_whole(self, topic: str) -> bool:
        try:
            partitions = self._admin.list_topics(topic, timeout=10).topics[topic].partitions
        except KafkaException:
            return False
        return bool(partitions) and all(
            each.leader >= 0 and len(each.isrs) == len(each.replicas) == BROKERS for each in partitions.values()
        )

    def leader(self, topic: str) -> int:
        return int(self._admin.list_topics(topic, timeout=10).topics[topic].partitions[0].leader)

    def controller(self) -> int:
        """The one that decides: Apache Kafka's Metadata names any broker as the controller, its quorum does not."""
        request = DescribeQuorumRequest(
            topics=[TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])]
        )
        with Cluster(ClientSettings(parse_addresses(self._cluster.bootstrap))) as client:
            answer = client.any(request, DescribeQuorumResponse)
        return answer.topics[0].partitions[0].leader_id
