"""Which logs a decision of the controller will need on this broker.

They are made before the decision is committed, where making them does not block the event loop: the partition table,
which follows the image, finds them done. A log whose topic never came to be is found unknown at the next start and
set aside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from moldau.config.topic import TopicConfig
from moldau.metadata import codec, paths
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Operation, Put
from moldau.storage.manager import NewLog
from moldau.types.ids import TopicPartition
from moldau.work.turns import Work, pauses

#: Each has all of its settings worked out.
TOPICS_PER_TURN = 8


def new_logs(
    operations: Sequence[Operation],
    image: ClusterImage,
    local_id: int,
    resolve: Callable[[dict[str, str]], TopicConfig],
) -> Work[list[NewLog]]:
    paused, resolving = pauses(), pauses(TOPICS_PER_TURN)
    puts = {operation.path: operation.value for operation in operations if isinstance(operation, Put)}
    found: list[NewLog] = []
    for path, value in puts.items():
        if next(paused):
            yield
        name = path.removeprefix(paths.TOPICS + "/")
        if name == path or "/" in name:
            continue
        if next(resolving):
            yield
        topic = codec.decode_topic(path, value)
        known = image.topics.get(name)
        settings = dict(known.configs) if known is not None and known.id == topic.id else {}
        if paths.topic_config(name) in puts:
            settings = codec.decode_settings(path, puts[paths.topic_config(name)])
        config = resolve(settings)
        for index in range(topic.partitions):
            if next(paused):
                yield
            entry = puts.get(paths.partition(name, index))
            if entry is not None and local_id in codec.decode_partition(path, entry).replicas:
                found.append(NewLog(TopicPartition(name, index), topic.id, config))
    return found
