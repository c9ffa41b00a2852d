"""Who keeps the metadata, what features hold, which brokers there are: over our own client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from moldau.client.asking.answers import Wired, refuse
from moldau.types.internal_topics import METADATA_TOPIC

if TYPE_CHECKING:
    from moldau.wire.messages.describe_cluster import DescribeClusterResponse
    from moldau.wire.messages.describe_quorum import DescribeQuorumResponse, PartitionDataInResponse


class Upgrade(IntEnum):
    """What an update of features may do."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


@dataclass(frozen=True, slots=True)
class Feature:
    name: str
    first: int
    last: int
    finalized: int


@dataclass(frozen=True, slots=True)
class Features:
    epoch: int
    known: tuple[Feature, ...]


def describe_cluster(asks: Wired, include_fenced: bool = False) -> DescribeClusterResponse:
    from moldau.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

    request = DescribeClusterRequest(include_fenced_brokers=include_fenced)
    answer = asks.wire().any(request, DescribeClusterResponse)
    refuse(answer.error_code, answer.error_message)
    return answer


def unregister_broker(asks: Wired, broker: int) -> None:
    from moldau.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

    answer = asks.wire().any(UnregisterBrokerRequest(broker_id=broker), UnregisterBrokerResponse)
    refuse(answer.error_code, answer.error_message)


def describe_features(asks: Wired) -> Features:
    from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

    request = ApiVersionsRequest(client_software_name="moldau", client_software_version="1")
    answer = asks.wire().any(request, ApiVersionsResponse)
    refuse(answer.error_code)
    levels = {each.name: each.max_version_level for each in answer.finalized_features}
    known = [
        Feature(each.name, each.min_version, each.max_version, levels.get(each.name, 0))
        for each in answer.supported_features
    ]
    return Features(answer.finalized_features_epoch, tuple(sorted(known, key=lambda each: each.name)))


def update_features(
    asks: Wired, levels: Mapping[str, int], how: Upgrade, validate_only: bool
) -> dict[str, tuple[int, str | None]]:
    """What became of each: error code and message."""
    from moldau.wire.messages.update_features import (
        FeatureUpdateKey,
        UpdateFeaturesRequest,
        UpdateFeaturesResponse,
    )

    updates = [
        FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=how) for name, level in levels.items()
    ]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=validate_only)
    answer = asks.wire().any(request, UpdateFeaturesResponse)
    own = {each.feature: (each.error_code, each.error_message) for each in answer.results}
    whole = (answer.error_code, answer.error_message)
    return {name: whole if answer.error_code else own.get(name, whole) for name in levels}


def describe_quorum(asks: Wired) -> tuple[PartitionDataInResponse, DescribeQuorumResponse]:
    """The state of the metadata's one partition, and the answer that names the nodes."""
    from moldau.wire.messages.describe_quorum import (
        DescribeQuorumRequest,
        DescribeQuorumResponse,
        PartitionData,
        TopicData,
    )

    topic = TopicData(topic_name=METADATA_TOPIC, partitions=[PartitionData(partition_index=0)])
    answer = asks.wire().any(DescribeQuorumRequest(topics=[topic]), DescribeQuorumResponse)
    refuse(answer.error_code, answer.error_message)
    (found,) = answer.topics[0].partitions
    refuse(found.error_code, found.error_message)
    return found, answer
