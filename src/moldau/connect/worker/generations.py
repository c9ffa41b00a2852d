"""How often a sink's topics were deleted and made anew, for targets that remember how far they are.

Offsets of a topic that was made anew begin at 0, and a target that holds those of the one before would leave its
records out without a word. So the worker keeps, beside the positions of sources, which topics (by id) a sink has
read, and counts: the target compares offsets together with this number (`SinkRecord.order`).

key    ["sink:<connector>",{"topic":"orders"}]
value  {"id":"…","generation":1}
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.settings import ClientSettings
from moldau.connect.task import Job
from moldau.connect.worker.group_offsets import forget
from moldau.connect.worker.positions import PositionTable, canonical, group_offsets
from moldau.connect.worker.topics import TopicUnavailable
from moldau.types.errors import KafkaError
from moldau.wire.schema import ZERO_UUID

log = logging.getLogger(__name__)


def generations_now(job: Job, table: PositionTable, topics: Iterable[str]) -> dict[str, int]:
    """What was committed of a topic that is another one now is forgotten first: it would be a place in the new one."""
    if any(ClientSettings.from_properties(each).needs_librdkafka for each in (job.kafka, job.consumer_kafka)):
        return dict.fromkeys(topics, 0)  # with such a login ids cannot be asked for
    owner = f"sink:{job.offsets_name}"
    known = table.known(owner)
    wanted = list(topics)
    ids = ids_of(job, wanted)
    found: dict[str, int] = {}
    for topic in wanted:
        before = known.get(canonical({"topic": topic}))
        found[topic] = 0 if before is None else int(before["generation"])
        topic_id = ids.get(topic)
        if topic_id is None or (before is not None and before["id"] == topic_id):
            continue
        if before is not None:
            found[topic] += 1
            log.warning("%s: topic %s was deleted and made anew: it is read as another one", job.name, topic)
            forget(job, [place for place in group_offsets(job) if place.topic == topic])
        table.set(owner, [({"topic": topic}, {"id": topic_id, "generation": found[topic]})])
    return found


def ids_of(job: Job, wanted: Sequence[str]) -> dict[str, str]:
    """Without topics that are not there, or have no id."""
    if not wanted:
        return {}
    try:
        with Cluster(ClientSettings.from_properties(job.consumer_kafka)) as cluster:
            answer = cluster.retrying(lambda: cluster.metadata(wanted))
    except (ClientError, KafkaError) as error:
        raise TopicUnavailable(f"the topics of {job.name} cannot be looked at: {error}") from None
    return {
        str(each.name): str(each.topic_id)
        for each in answer.topics
        if not each.error_code and each.topic_id != ZERO_UUID
    }
