"""Records with old times: what is restored into a topic which deletes what is as old as that."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from moldau.cli.output import warn
from moldau.cli.records.record_format import Record
from moldau.config.retention import OLD_MS, in_words, kept_ms

if TYPE_CHECKING:
    from moldau.cli.connection import Connection


def warned_of(cluster: Connection, topic: str, records: Iterable[Record], now_ms: int) -> Iterator[Record]:
    """The records as they come; the first one that the topic will delete for its age is told. The cluster is not asked
    before one is old.
    """
    oldest, is_asked = now_ms - OLD_MS, False
    for record in records:
        if 0 <= record.timestamp < oldest and not is_asked:
            kept, is_asked = _kept_ms(cluster, topic), True
            oldest = -1 if kept is None else now_ms - kept
        if 0 <= record.timestamp < oldest:
            warn(
                f"records are {in_words(now_ms - record.timestamp)} old, and topic {topic!r} keeps them for "
                f"{in_words(now_ms - oldest)} (retention.ms): the broker deletes them soon, however late they were "
                f"written; `moldau config set topic {topic} retention.ms=-1` keeps them"
            )
            oldest = -1
        yield record


def _kept_ms(cluster: Connection, topic: str) -> int | None:
    """That the cluster does not tell is no reason to write nothing."""
    from confluent_kafka import KafkaException

    from moldau.cli.calls.configs import ConfigKind, describe
    from moldau.client.errors import ClientError
    from moldau.types.errors import KafkaError

    try:
        settings = describe(cluster, ConfigKind.TOPIC, topic)
    except (ClientError, KafkaError, KafkaException):
        return None
    return kept_ms({each.name: each.value for each in settings if each.value is not None})
