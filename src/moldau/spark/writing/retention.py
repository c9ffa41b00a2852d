"""Rows with old times: history that is replayed into a topic which deletes what is as old as that."""

from __future__ import annotations

import logging
from typing import Final

from moldau.client.cluster import Cluster, check
from moldau.client.errors import ClientError
from moldau.config.retention import POLICY, RETENTION, TIMES, in_words, kept_ms
from moldau.types.errors import KafkaError
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

ASK_SECONDS: Final = 5.0
TOPIC: Final = 2

log = logging.getLogger(__name__)


def warn_of_retention(cluster: Cluster, topic: str, age_ms: int) -> None:
    """To be called once for a topic; that the broker does not tell is no reason to fail."""
    try:
        configs = cluster.retrying(lambda: topic_configs(cluster, topic), ASK_SECONDS)
    except (ClientError, KafkaError):
        return
    retention_ms = kept_ms(configs)
    if retention_ms is not None and retention_ms < age_ms:
        log.warning(
            "rows for topic %r are %s old, and the topic keeps records for %s (retention.ms): the broker deletes them "
            "soon, however late they were written. Set retention.ms=-1 for a topic that history is replayed into, or "
            "leave the column timestamp out",
            topic,
            in_words(age_ms),
            in_words(retention_ms),
        )


def topic_configs(cluster: Cluster, topic: str) -> dict[str, str]:
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=[RETENTION, POLICY, TIMES]
    )
    (found,) = cluster.any(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse).results
    check(found.error_code, f"settings of topic {topic}", found.error_message)
    return {each.name: each.value for each in found.configs if each.value is not None}
