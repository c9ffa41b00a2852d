"""Feature levels: what this release supports, what a new cluster is finalized at, and how the levels are changed.

Clients choose protocols by these: transactions of the second kind only where `transaction.version` is finalized at 2,
the newer consumer groups only where `group.version` is at 1. A feature that is not served is not named.

Brokers choose by them too what they write that a release before could not read: while brokers of two releases run, the
levels are those of the older one. So a level is raised only when every registered broker supports it, and a broker that
does not support what is finalized is not registered. A later release that brings a new form of an entry, of a commit or
of an internal topic's records brings a level for it, and writes the form before until that level is finalized.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from moldau.metadata import codec, paths
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import Put
from moldau.types.errors import ErrorCode, KafkaError

GROUP_VERSION = "group.version"
METADATA_VERSION = "metadata.version"
TRANSACTION_VERSION = "transaction.version"


class SupportedRange(NamedTuple):
    lowest: int
    highest: int

    def includes(self, level: int) -> bool:
        return self.lowest <= level <= self.highest


SUPPORTED_FEATURES: Mapping[str, SupportedRange] = MappingProxyType(
    {
        GROUP_VERSION: SupportedRange(0, 1),
        METADATA_VERSION: SupportedRange(7, 30),
        TRANSACTION_VERSION: SupportedRange(0, 2),
    }
)

FEATURES_OF_A_NEW_CLUSTER: Mapping[str, int] = MappingProxyType(
    {name: supported.highest for name, supported in SUPPORTED_FEATURES.items()}
)


NOT_SUPPORTED = SupportedRange(0, 0)
"""Of a feature that somebody does not name."""


class UpgradeType(IntEnum):
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class FeatureUpdate(NamedTuple):
    name: str
    level: int
    upgrade_type: int


def update_features(
    image: ClusterImage, updates: Sequence[FeatureUpdate], controller_id: int, *, validate_only: bool
) -> Decision[None]:
    """All of them or none. Raises INVALID_UPDATE_VERSION with Apache Kafka's words for the first that cannot be."""
    levels = dict(image.features.levels)
    for update in updates:
        problem = problem_of(update, levels.get(update.name, 0), controller_id) or problem_of_brokers(image, update)
        if problem is not None:
            raise KafkaError(
                ErrorCode.INVALID_UPDATE_VERSION,
                "The update failed for all features since the following feature had an error: Invalid update version "
                f"{update.level} for feature {update.name}. {problem}",
            )
        levels[update.name] = update.level
    if validate_only or levels == dict(image.features.levels):
        return Decision([], None)
    value = codec.encode_features(levels, image.features.unknown)
    return Decision([Put(paths.FEATURES, value, image.features.epoch)], None)


def problem_of(update: FeatureUpdate, present: int, controller_id: int) -> str | None:
    if update.upgrade_type not in UpgradeType.__members__.values():
        return "The controller does not support the given upgrade type."
    if update.level < 0:
        return "A feature version cannot be less than 0."
    supported = SUPPORTED_FEATURES.get(update.name)
    if supported is None and update.level == 0:
        return f"Feature {update.name} not found."
    if supported is None:
        return f"Local controller {controller_id} does not support this feature."
    if not supported.includes(update.level):
        return f"Local controller {controller_id} only supports versions {supported.lowest}-{supported.highest}"
    if update.level >= present:
        return None
    if update.upgrade_type == UpgradeType.UPGRADE:
        return (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe "
            "downgrade."
        )
    if update.name == METADATA_VERSION:
        return "This release writes its metadata in one format only."
    return None


def problem_of_brokers(image: ClusterImage, update: FeatureUpdate) -> str | None:
    """Those that are down count as well: they could not come back."""
    for number, broker in sorted(image.brokers.items()):
        supported = SupportedRange(*broker.features.get(update.name, NOT_SUPPORTED))
        if supported.includes(update.level):
            continue
        if supported == NOT_SUPPORTED:
            return f"Broker {number} does not support this feature."
        return f"Broker {number} only supports versions {supported.lowest}-{supported.highest}"
    return None


def unsupported(supported: Mapping[str, tuple[int, int]], levels: Mapping[str, int]) -> str | None:
    """The first feature that is finalized at a level which a broker does not support."""
    for name in sorted({*levels, *supported}):
        if not SupportedRange(*supported.get(name, NOT_SUPPORTED)).includes(levels.get(name, 0)):
            return name
    return None


def refuse_unsupported(supported: Mapping[str, tuple[int, int]], levels: Mapping[str, int]) -> None:
    """Raises UNSUPPORTED_VERSION where a broker that registers does not know what the cluster is finalized at."""
    name = unsupported(supported, levels)
    if name is not None:
        lowest, highest = supported.get(name, NOT_SUPPORTED)
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"Unable to register because the broker does not support finalized version {levels.get(name, 0)} of {name}."
            f" The broker wants a version between {lowest} and {highest}, inclusive. Start it with the release of the "
            "brokers that run, or a newer one.",
        )
