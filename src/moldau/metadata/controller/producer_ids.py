"""Blocks of producer ids. A block is committed before any of its ids is used, so no id is ever given twice."""

from __future__ import annotations

from dataclasses import dataclass

from moldau.metadata import codec, paths
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Put
from moldau.types.errors import ErrorCode, KafkaError

BLOCK_SIZE = 1000
LAST_ID = 2**63 - 1


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    first: int
    size: int


def next_block(image: ClusterImage) -> Decision[ProducerIdBlock]:
    next_id = image.producer_ids.next_id
    if next_id > LAST_ID - BLOCK_SIZE:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"Exhausted all producerIds as the next block's end would pass {LAST_ID}"
        )
    value = codec.encode_producer_ids(next_id + BLOCK_SIZE, image.producer_ids.unknown)
    return Decision([Put(paths.PRODUCER_IDS, value, image.producer_ids.version)], ProducerIdBlock(next_id, BLOCK_SIZE))
