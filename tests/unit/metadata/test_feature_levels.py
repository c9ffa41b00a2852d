"""What keeps brokers of two releases from writing what one of them cannot read."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from moldau.metadata import codec, frames, paths
from moldau.metadata.codec import BadEntryError
from moldau.metadata.controller.duties import DutySettings, Evidence, duties
from moldau.metadata.controller.features import (
    SUPPORTED_FEATURES,
    TRANSACTION_VERSION,
    FeatureUpdate,
    SupportedRange,
    UpgradeType,
    update_features,
)
from moldau.metadata.controller.unregistration import unregister_broker
from moldau.metadata.store import LaterReleaseError, Put
from moldau.metadata.zookeeper import snapshots
from moldau.metadata.zookeeper.layout import Layout
from moldau.types.errors import ErrorCode, KafkaError
from moldau.work.slices import at_once
from tests.support.metadata import Cluster

OLDER = SUPPORTED_FEATURES | {TRANSACTION_VERSION: SupportedRange(0, 1)}
WITHOUT = {name: levels for name, levels in SUPPORTED_FEATURES.items() if name != TRANSACTION_VERSION}
LATER = SUPPORTED_FEATURES | {"later.version": SupportedRange(1, 2)}


def finalize(cluster: Cluster, level: int) -> None:
    update = FeatureUpdate(TRANSACTION_VERSION, level, UpgradeType.SAFE_DOWNGRADE)
    cluster.decide(lambda image: update_features(image, [update], 1, validate_only=False))


@pytest.mark.parametrize(
    ("supported", "said"),
    [(OLDER, "Broker 2 only supports versions 0-1"), (WITHOUT, "Broker 2 does not support this feature.")],
)
def test_a_level_waits_for_every_broker_that_is_registered(supported: Mapping[str, SupportedRange], said: str) -> None:
    """Also for one that is down."""
    cluster = Cluster({1: None})
    finalize(cluster, 0)
    cluster.register(2, fenced=True, features=supported)
    with pytest.raises(KafkaError, match=said) as refused:
        finalize(cluster, 2)
    assert refused.value.code is ErrorCode.INVALID_UPDATE_VERSION
    assert cluster.image.features.levels[TRANSACTION_VERSION] == 0
    cluster.decide(lambda image: unregister_broker(image, 2, (1,), cluster.config))
    finalize(cluster, 2)
    assert cluster.image.features.levels[TRANSACTION_VERSION] == 2


@pytest.mark.parametrize(
    ("supported", "said"),
    [
        (OLDER, f"finalized version 2 of {TRANSACTION_VERSION}. The broker wants a version between 0 and 1, inclusive"),
        (WITHOUT, f"finalized version 2 of {TRANSACTION_VERSION}. The broker wants a version between 0 and 0"),
        (LATER, "finalized version 0 of later.version. The broker wants a version between 1 and 2"),
    ],
)
def test_who_does_not_support_what_is_finalized_is_not_registered(
    supported: Mapping[str, SupportedRange], said: str
) -> None:
    cluster = Cluster({1: None})
    with pytest.raises(KafkaError, match=said) as refused:
        cluster.register(2, features=supported)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION
    assert set(cluster.image.brokers) == {1}


def test_a_broker_that_registers_while_a_level_is_raised_is_not_taken_in() -> None:
    cluster = Cluster({1: None})
    before = cluster.image
    finalize(cluster, 1)
    cluster.register(2, fenced=True, features=OLDER)
    cluster.commit([Put(paths.FEATURES, codec.encode_features(before.features.levels))])

    def taken_in() -> tuple[int, ...]:
        evidence = Evidence({broker.id: broker.epoch for broker in cluster.image.brokers.values()})
        return at_once(duties(cluster.image, (1, 2), evidence, 0, DutySettings(cluster.config))).answer.unfenced

    assert taken_in() == ()
    cluster.register(2, fenced=True)
    assert taken_in() == (2,)


def test_a_form_of_a_later_release_is_told_as_that() -> None:
    with pytest.raises(BadEntryError, match=r"a later release wrote it\. Start this broker with that release"):
        codec.decode_members("/topics/a", b'{"v":2}')
    with pytest.raises(BadEntryError) as unknown:
        codec.decode_members("/topics/a", b'{"v":"x"}')
    assert "later" not in unknown.value.reason
    frame = at_once(frames.encoding(frames.Commit(1, 1, [Put("/a", b"x")])))
    later = frame[: len(frames.MAGIC)] + bytes([frames.FORM + 1]) + frame[len(frames.MAGIC) + 1 :]
    with pytest.raises(LaterReleaseError, match="has form 2, and this release reads form 1: a later release wrote it"):
        at_once(frames.decoding(later))
    with pytest.raises(LaterReleaseError, match="/moldau/head has form 2"):
        snapshots.decode_head(b'{"form": 2, "snapshots": []}', "/moldau/head")
    with pytest.raises(LaterReleaseError, match="/moldau has form 2"):
        Layout("").as_described(b'{"form": 2, "generation_entries": 1}')
