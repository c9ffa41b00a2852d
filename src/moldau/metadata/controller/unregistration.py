"""UnregisterBroker: a broker that will not come back."""

from __future__ import annotations

from collections.abc import Collection

from moldau.config.broker import BrokerConfig
from moldau.metadata import paths
from moldau.metadata.controller.decision import Decision
from moldau.metadata.controller.levels import settling, unsettled
from moldau.metadata.controller.standing import Standing
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Delete, Operation
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import Work


def unregister_broker(
    image: ClusterImage, broker_id: int, alive: Collection[int], config: BrokerConfig
) -> Work[Decision[None]]:
    """Takes the broker out of every in-sync set and every claim to lead, then forgets it. It stays a replica of what it
    held until that is reassigned. Raises BROKER_ID_NOT_REGISTERED, and INVALID_REQUEST for one that is there."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not currently registered")
    if broker_id in alive or not broker.fenced:
        message = f"Broker {broker_id} is running, or its session has not ended yet: stop it first."
        raise KafkaError(ErrorCode.INVALID_REQUEST, message)
    standing = Standing(image, forgotten=(broker_id,))
    index = yield from image.indexing()
    places = yield from unsettled(image, index, standing)
    settled = yield from settling(image, places, [standing], config)
    operations: list[Operation] = [each.put for each in settled]
    if broker.state is not None:
        operations.append(Delete(paths.broker_state(broker_id), broker.state.version))
    operations.append(Delete(paths.broker(broker_id), broker.version))
    return Decision(operations, None)
