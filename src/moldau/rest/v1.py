"""What only v1 has: reading a topic subscribes to it, and a commit answers where the partitions are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from moldau.clients.records import TopicPartition
from moldau.rest import errors
from moldau.rest.instances import Instance
from moldau.rest.proxy import Proxy
from moldau.web import Call

JOIN_SECONDS: Final = 15.0


async def begin(proxy: Proxy, call: Call, instance: Instance, topic: str) -> None:
    """Subscribes, and waits until the group has given it partitions: v1's clients read once and expect records."""
    try:
        await (await (await proxy.backend(call)).sender()).partitions(topic)
    except errors.RestError as error:
        raise errors.of_v2(error) from None

    def join() -> None:
        consumer = instance.consumer
        consumer.subscribe([topic], instance)
        deadline = proxy.monotonic() + JOIN_SECONDS
        while (
            not consumer.assignment() and proxy.monotonic() < deadline and not (instance.ends or proxy.closing.is_set())
        ):
            instance.keep(consumer.poll(0.2))

    await proxy.instances.use(instance, join)


def committed(positions: Mapping[TopicPartition, int]) -> list[dict[str, Any]]:
    return [
        {"topic": place.topic, "partition": place.partition, "consumed": offset, "committed": offset}
        for place, offset in sorted(positions.items())
    ]
