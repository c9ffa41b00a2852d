"""Topics that the broker itself wants: those that a client only named, and those behind the coordinators.

Made here if this broker is the controller, else asked of it; done when this broker's own image has the topic.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from moldau.metadata.controller.decision import everyone
from moldau.metadata.controller.topic_creation import NewTopic
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from moldau.server.broker import Broker

IMAGE_SECONDS: Final = 5.0
"""How long a topic that was made may take to arrive here."""
THERE: Final = (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)


async def auto_create_topic(broker: Broker, name: str) -> None:
    """A topic with the defaults; somebody else's creation is as good. Raises KafkaError."""
    await make_topic(broker, NewTopic(name))


async def make_topic(broker: Broker, wanted: NewTopic) -> None:
    code, message = await _made(broker, wanted)
    if code not in THERE:
        raise KafkaError(code, message)
    try:
        async with asyncio.timeout(IMAGE_SECONDS):
            while wanted.name not in broker.image.topics:
                await broker.images.reached(broker.image.version + 1)
    except TimeoutError:
        raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{wanted.name} was made, but is not known here yet.") from None


async def _made(broker: Broker, wanted: NewTopic) -> tuple[ErrorCode, str | None]:
    if broker.forwarding is None or broker.forwarding.decides_here:
        try:
            (created,) = await broker.controller.create_topics([wanted], False, everyone)
        except KafkaError as error:
            if broker.forwarding is None or error.code is not ErrorCode.NOT_CONTROLLER:
                raise
        else:
            return created.code, created.message
    answer = await broker.forwarding.ask(as_request(wanted), CreateTopicsResponse, is_refused)
    (topic,) = answer.topics
    return ErrorCode(topic.error_code), topic.error_message


def as_request(wanted: NewTopic) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=[
            CreatableTopic(
                name=wanted.name,
                num_partitions=wanted.num_partitions,
                replication_factor=wanted.replication_factor,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                    for index, replicas in wanted.assignments
                ],
                configs=[CreatableTopicConfig(name=name, value=value) for name, value in wanted.configs],
            )
        ]
    )


def is_refused(answer: CreateTopicsResponse) -> bool:
    return any(topic.error_code == ErrorCode.NOT_CONTROLLER for topic in answer.topics)
