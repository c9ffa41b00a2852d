"""Hooks around sending and reading, for tracing and measuring: none by default, several in the order they are named.

Each sees what the one before made of the record. An interceptor never ends a send or a poll: what it raises is logged,
and the record goes on as it was.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from moldau.client.errors import SettingError
from moldau.clients.errors import KafkaFailure
from moldau.clients.records import ConsumerRecords, OffsetAndMetadata, ProducerRecord, RecordMetadata, TopicPartition
from moldau.clients.serializers import Properties, imported

SETTING = "interceptor.classes"

log = logging.getLogger(__name__)


class ProducerInterceptor:
    """Override what you need."""

    def configure(self, properties: Properties) -> None:
        """Called once, with all properties of the producer."""

    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        """Before key and value become bytes and a partition is chosen; returns the record to be sent."""
        return record

    def on_acknowledgement(self, metadata: RecordMetadata | None, error: KafkaFailure | None) -> None:
        """When the record is stored, or given up. One of the two is None."""

    def close(self) -> None:
        """When the producer is closed."""


class ConsumerInterceptor:
    """Override what you need."""

    def configure(self, properties: Properties) -> None:
        """Called once, with all properties of the consumer."""

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        """Before a poll returns; returns the records that the application gets."""
        return records

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        """When offsets were committed by a call of the application."""

    def close(self) -> None:
        """When the consumer is closed."""


def made(given: object, properties: Properties) -> list[Any]:
    """Interceptors from objects, classes, paths, or one text with paths separated by commas."""
    if given is None or given == "":
        return []
    if isinstance(given, str):
        wanted: Iterable[object] = [part.strip() for part in given.split(",")]
    else:
        wanted = given if isinstance(given, list | tuple) else [given]
    found = []
    for each in wanted:
        one: Any = imported(each, SETTING) if isinstance(each, str) else each
        if isinstance(one, type):
            one = one()
        if not isinstance(one, ProducerInterceptor | ConsumerInterceptor):
            raise SettingError(SETTING, f"{each!r} is neither a ProducerInterceptor nor a ConsumerInterceptor")
        one.configure(properties)
        found.append(one)
    return found


def before_send(chain: Iterable[ProducerInterceptor], record: ProducerRecord) -> ProducerRecord:
    for interceptor in chain:
        try:
            record = interceptor.on_send(record)
        except Exception:
            log.exception("%s.on_send failed for a record of %s", type(interceptor).__name__, record.topic)
    return record


def after_send(
    chain: Iterable[ProducerInterceptor], metadata: RecordMetadata | None, error: KafkaFailure | None
) -> None:
    for interceptor in chain:
        try:
            interceptor.on_acknowledgement(metadata, error)
        except Exception:
            log.exception("%s.on_acknowledgement failed", type(interceptor).__name__)


def before_use(chain: Iterable[ConsumerInterceptor], records: ConsumerRecords) -> ConsumerRecords:
    for interceptor in chain:
        try:
            records = interceptor.on_consume(records)
        except Exception:
            log.exception("%s.on_consume failed", type(interceptor).__name__)
    return records


def after_commit(chain: Iterable[ConsumerInterceptor], offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
    for interceptor in chain:
        try:
            interceptor.on_commit(offsets)
        except Exception:
            log.exception("%s.on_commit failed", type(interceptor).__name__)


def close(chain: Iterable[ProducerInterceptor | ConsumerInterceptor]) -> None:
    for interceptor in chain:
        try:
            interceptor.close()
        except Exception:
            log.exception("%s.close failed", type(interceptor).__name__)
