"""librdkafka's consumers without a group, lent for one read each, and what their events mean."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

from moldau.clients import properties
from moldau.rest import errors
from moldau.rest.backend import Backend

IDLE: Final = 4
"""So many of each user are kept."""
SETTINGS: Final = {
    **properties.CONSUMER,
    "group.id": "moldau-rest-reader",
    "enable.auto.commit": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "queued.max.messages.kbytes": "4096",
    "fetch.wait.max.ms": "100",
}


def made(backend: Backend) -> Any:
    import confluent_kafka

    return backend.made(confluent_kafka.Consumer, "consumer", SETTINGS)


@contextlib.contextmanager
def lent(backend: Backend) -> Iterator[Any]:
    """In a thread. One that fails is not lent again."""
    consumer = backend.idle_readers.pop() if backend.idle_readers else made(backend)
    try:
        yield consumer
        consumer.unassign()
    except BaseException:
        consumer.close()
        raise
    if len(backend.idle_readers) < IDLE:
        backend.idle_readers.append(consumer)
    else:
        consumer.close()


def failure_of(message: Any, what: str) -> int:
    """The offset at the end of a partition; anything else that is no record is raised."""
    from confluent_kafka import KafkaError

    error = message.error()
    if error.code() == KafkaError._PARTITION_EOF:
        return int(message.offset())
    raise errors.of_kafka(error, what)
