"""Topics are made and deleted no faster than a quota allows; what was decided in vain counts for nothing."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from moldau.metadata.image import QuotasImage
from moldau.metrics import Metrics
from moldau.security.kept import Kept
from moldau.security.mutation_quotas import MutationQuota
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.quotas import QuotaKey, quota_entity


class World:
    def __init__(self, limit: float) -> None:
        self.now_ms = 0.0
        self.metrics = Metrics()
        self.quota = MutationQuota(11, 1000, lambda: self.now_ms, self.metrics)
        self.limit(limit)

    def limit(self, limit: float) -> None:
        values = MappingProxyType({QuotaKey.CONTROLLER_MUTATION_RATE: limit})
        self.quota.limits.set(quota_entity({"user": "u"}), QuotasImage(values, 0))

    def tokens(self) -> float:
        return next(float(value) for name, value in self.metrics.snapshot() if name.name == "tokens")  # type: ignore[arg-type]


def test_what_was_saved_may_be_overdrawn_once_and_is_then_owed() -> None:
    world = World(1)
    first = world.quota.of("u", "c", strict=True)
    first.take(8)
    first.take(8)  # 11 were saved: 5 are owed
    with pytest.raises(KafkaError) as refused:
        first.take(1)
    assert refused.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert first.done() == 5000
    world.now_ms = 4000
    with pytest.raises(KafkaError):
        world.quota.of("u", "other", strict=True).take(1)
    world.now_ms = 5000
    world.quota.of("u", "c", strict=True).take(1)
    assert world.tokens() == -1


def test_older_requests_are_served_and_wait() -> None:
    world = World(2)
    mutations = world.quota.of("u", "c", strict=False)
    mutations.take(30)
    mutations.take(2)
    assert mutations.done() == 5000
    assert world.quota.of("u", "c", strict=False).done() == 0


def test_a_decision_that_is_made_anew_counts_once() -> None:
    world = World(1)
    mutations = world.quota.of("u", "c", strict=True)
    for _ in range(3):
        mutations.restart()
        mutations.take(10)
    assert world.tokens() == 1
    assert mutations.done() == 0


def test_another_limit_holds_at_once() -> None:
    world = World(1)
    world.quota.of("u", "c", strict=True).take(21)
    world.limit(10)
    mutations = world.quota.of("u", "c", strict=True)
    with pytest.raises(KafkaError):
        mutations.take(1)
    assert mutations.done() == 1000


def test_who_has_no_limit_is_not_counted() -> None:
    world = World(1)
    mutations = world.quota.of("v", "c", strict=True)
    mutations.take(10_000)
    assert mutations.done() == 0


def test_only_so_many_are_remembered() -> None:
    forgotten: list[str] = []
    kept: Kept[str, list[str]] = Kept(2, lambda key: [key], lambda key, value: forgotten.append(key))
    a, _ = kept.of("a"), kept.of("b")
    assert kept.of("a") is a
    kept.of("c")
    assert forgotten == ["b"]
    assert kept.of("a") is a
    assert len(kept) == 2
