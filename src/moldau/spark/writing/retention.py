"""Rows with old times: history that is replayed into a topic which deletes what is as old as that.

A broker goes by the time in a record, not by when it was written: rows that keep the times of last year can be gone
minutes after their commit. Nothing fails by it, so it is said.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from moldau.client.cluster import Cluster, check
from moldau.client.errors import ClientError
from moldau.types.errors import KafkaError
from moldau.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)

OLD_MS: Final = 60 * 60_000
"""Nobody is asked for younger rows."""
ASK_SECONDS: Final = 5.0
TOPIC: Final = 2
DAY_MS: Final = 24 * 60 * 60_000
RETENTION, POLICY, TIMES = "retention.ms", "cleanup.policy", "message.timestamp.type"

log = logging.getLogger(__name__)


def warn_of_retention(cluster: Cluster, topic: str, age_ms: int) -> None:
    """To be called once for a topic; that the broker does not tell is no reason to fail."""
    try:
        configs = cluster.retrying(lambda: topic_configs(cluster, topic), ASK_SECONDS)
    except (ClientError, KafkaError):
        return
    retention_ms = outlived(configs, age_ms)
    if retention_ms is not None:
        log.warning(
            "rows for topic %r are %s old, and the topic keeps records for %s (retention.ms): the broker deletes them "
            "soon, however late they were written. Set retention.ms=-1 for a topic that history is replayed into, or "
            "leave the column timestamp out",
            topic,
            in_words(age_ms),
            in_words(retention_ms),
        )


def outlived(configs: Mapping[str, str], age_ms: int) -> int | None:
    """The topic's retention, if rows of this age are beyond it."""
    retention_ms = int(configs.get(RETENTION, "-1"))
    deletes = "delete" in configs.get(POLICY, "delete")
    keeps_times = configs.get(TIMES, "CreateTime") == "CreateTime"
    return retention_ms if deletes and keeps_times and 0 <= retention_ms < age_ms else None


def topic_configs(cluster: Cluster, topic: str) -> dict[str, str]:
    resource = DescribeConfigsResource(
        resource_type=TOPIC, resource_name=topic, configuration_keys=[RETENTION, POLICY, TIMES]
    )
    (found,) = cluster.any(DescribeConfigsRequest(resources=[resource]), DescribeConfigsResponse).results
    check(found.error_code, f"settings of topic {topic}", found.error_message)
    return {each.name: each.value for each in found.configs if each.value is not None}


def in_words(milliseconds: int) -> str:
    return (
        f"{milliseconds / DAY_MS:.0f} days" if milliseconds >= 2 * DAY_MS else f"{milliseconds / 3_600_000:.1f} hours"
    )
