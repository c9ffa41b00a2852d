"""Quotas for brokers in tests that hold nobody back."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from moldau.metadata.image import ClusterImage
from moldau.metadata.image_changes import ImageDelta
from moldau.security.context import RequestContext
from moldau.security.mutation_quotas import UNLIMITED_MUTATIONS, Mutations


class Unlimited:
    active = False

    def load(self, image: ClusterImage) -> None:
        pass

    def apply(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> None:
        pass

    def limits(self, context: RequestContext) -> bool:
        return False

    def produced(self, context: RequestContext, size: int) -> int:
        return 0

    def most_fetched(self, context: RequestContext) -> int | None:
        return None

    def fetched(self, context: RequestContext, size: int) -> int:
        return 0

    def handled(self, context: RequestContext, seconds: float) -> int:
        return 0

    def spent(self, context: RequestContext, seconds: float) -> None:
        pass

    def mutations(self, context: RequestContext, strict: bool) -> Mutations:
        return UNLIMITED_MUTATIONS

    def connected(self, address: str) -> int:
        return 0

    @property
    def hosts(self) -> Collection[str]:
        return ()

    def looked_up(self, addresses: Mapping[str, Sequence[str]]) -> None:
        pass
