"""Consumed offsets, published to a group so that every lag tool sees Spark's queries.

Spark keeps offsets in its checkpoint; the group is told, never asked. It is not joined: offsets are committed as by a
consumer that assigns partitions itself. Who publishes:

- with `kafka.group.id` the stream reader, each time Spark tells it where the last batch ended;
- without it the listener of `moldau.spark.session()`, under `groupIdPrefix` and the query's name (or id), through
  `publish_progress` below. The recorded offset says which cluster that is.

A failure to publish is logged, never a reason to fail a query.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from moldau.client.errors import ClientError
from moldau.client.settings import ClientSettings
from moldau.spark.errors import ForeignCheckpoint, SourceError
from moldau.spark.option_table import OptionError
from moldau.spark.planning.catalog import Catalog, open_catalog
from moldau.spark.planning.offsets import Position
from moldau.types.errors import KafkaError
from moldau.types.ids import TopicPartition

PLAINTEXT: Final = "PLAINTEXT"
REST_SECONDS: Final = 10.0

log = logging.getLogger(__name__)


class LagPublisher:
    """Publishes for one group, only what has changed. After a failure it rests, so that no query waits again and again
    for a coordinator that is away.
    """

    def __init__(self, group: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.group = group
        self._monotonic = monotonic
        self._published: Mapping[TopicPartition, int] = {}
        self._failed = ""
        self._rests_until = float("-inf")

    def publish(self, catalog: Catalog, offsets: Mapping[TopicPartition, int], *, insist: bool = False) -> bool:
        """`insist`: this is the last chance, so no rest."""
        changed = {place: offset for place, offset in offsets.items() if self._published.get(place) != offset}
        if not changed:
            return True
        if self._monotonic() < self._rests_until and not insist:
            return False
        try:
            catalog.publish(self.group, changed)
        except (ClientError, KafkaError, SourceError) as error:
            if str(error) != self._failed:
                log.warning("consumed offsets are not published to group %r: %s", self.group, error)
            self._failed = str(error)
            self._rests_until = self._monotonic() + REST_SECONDS
            return False
        self._published = dict(offsets)
        self._failed = ""
        return True


def lag_target(servers: str, security: str, prefix: str) -> dict[str, str]:
    """What the recorded offset tells the session's listener; credentials never stand in a checkpoint."""
    target = {"prefix": prefix, "servers": servers}
    return target if security.upper() == PLAINTEXT else target | {"security": security}


@lru_cache(maxsize=1024)
def say_that_a_login_is_missing(query: str, security: str) -> None:
    """Once for each query, not after each batch."""
    log.warning(
        "consumed offsets of query %r are not published: its cluster wants %s, and recorded offsets carry no login. "
        "Set kafka.group.id on the query, or give session(lag={…}) the cluster's properties",
        query,
        security,
    )


def publish_progress(query: str, end_offset: str, properties: Mapping[str, str] | None = None) -> str | None:
    """For a listener: publishes the end of a finished batch under the query's name; returns the group, if any.

    `end_offset` is the text in a progress event's source; offsets of other sources, and of ours with `kafka.group.id`,
    are left alone. `properties` (Java's names) are needed where the cluster asks for a login.
    """
    try:
        position = Position.from_json(json.loads(end_offset))
    except (ValueError, ForeignCheckpoint):
        return None
    target = position.lag_target
    if target is None:
        return None
    if "security" in target and properties is None:
        say_that_a_login_is_missing(query, target["security"])
        return None
    wanted = {"bootstrap.servers": target["servers"], **(properties or {})}
    group = f"{target['prefix']}-{query}" if target["prefix"] else query
    try:
        catalog = open_catalog(ClientSettings.from_properties(wanted), wanted)
    except (ClientError, OptionError) as error:
        log.warning("consumed offsets are not published to group %r: %s", group, error)
        return None
    try:
        return group if LagPublisher(group).publish(catalog, position.offsets) else None
    finally:
        catalog.close()
