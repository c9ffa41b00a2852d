"""In which log directory of a broker a replica lies."""

from __future__ import annotations

from collections.abc import Mapping

from moldau.client.asking.answers import Wired, by_topic
from moldau.types.errors import ErrorCode
from moldau.types.ids import TopicPartition
from moldau.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)


def alter_log_dirs(asks: Wired, broker: int, wanted: Mapping[TopicPartition, str]) -> dict[TopicPartition, ErrorCode]:
    """Asks a broker to move replicas into other log directories; NONE where it has begun."""
    by_path: dict[str, list[TopicPartition]] = {}
    for place, path in wanted.items():
        by_path.setdefault(path, []).append(place)
    dirs = [
        AlterReplicaLogDir(
            path=path,
            topics=[AlterReplicaLogDirTopic(name=name, partitions=each) for name, each in by_topic(places).items()],
        )
        for path, places in by_path.items()
    ]
    answer = asks.wire().to_broker(broker, AlterReplicaLogDirsRequest(dirs=dirs), AlterReplicaLogDirsResponse)
    return {
        TopicPartition(topic.topic_name, each.partition_index): ErrorCode(each.error_code)
        for topic in answer.results
        for each in topic.partitions
    }
