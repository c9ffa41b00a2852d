"""Which limit holds for whom. Kafka's order: what says more of a client is stronger; users come before client ids."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote

from moldau.metadata.image import QuotasImage
from moldau.types.addresses import canonical
from moldau.types.quotas import DEFAULT, EntityType, QuotaEntity, QuotaKey

USER, CLIENT_ID, IP = EntityType.USER, EntityType.CLIENT_ID, EntityType.IP
KEPT_LIMITS: Final = 10_000
LONGEST_KEPT_ID: Final = 255
KEPT_OF_LONGER_IDS: Final = 100


class Sharers(NamedTuple):
    """Whoever has the same user and client id here shares one measured rate; an empty one stands for all."""

    user: str
    client_id: str

    @property
    def tags(self) -> dict[str, str]:
        """Of the metrics about them, as Kafka writes them."""
        return {"user": quote(self.user, safe=""), "client-id": self.client_id}


class Limit(NamedTuple):
    value: float
    user: str
    client_id: str

    @property
    def sharers(self) -> Sharers:
        return Sharers(self.user, self.client_id)


class QuotaLimits:
    """The limits of one key."""

    def __init__(self, key: QuotaKey) -> None:
        self.key = key
        self._limits: dict[QuotaEntity, float] = {}
        self._found: dict[tuple[str, str], Limit | None] = {}

    @property
    def any(self) -> bool:
        return bool(self._limits)

    def set(self, entity: QuotaEntity, quotas: QuotasImage | None) -> None:
        limit = None if quotas is None else quotas.values.get(self.key)
        entity = tuple((kind, canonical(name) if kind is IP and name is not None else name) for kind, name in entity)
        if limit is None:
            self._limits.pop(entity, None)
        else:
            self._limits[entity] = limit
        self._found.clear()

    def load(self, quotas: Mapping[QuotaEntity, QuotasImage]) -> None:
        for entity, image in quotas.items():
            self.set(entity, image)

    def of(self, user: str, client_id: str) -> Limit | None:
        if len(client_id) > LONGEST_KEPT_ID:
            return self._find(user, client_id)
        key = (user, client_id)
        try:
            return self._found[key]
        except KeyError:
            if len(self._found) >= KEPT_LIMITS:
                self._found.clear()
            found = self._found[key] = self._find(user, client_id)
            return found

    def _find(self, user: str, client_id: str) -> Limit | None:
        # A client without an id has no quota of client ids.
        pairs = ((CLIENT_ID, client_id), (CLIENT_ID, DEFAULT)) if client_id else ()
        kept_id = shortened(client_id)
        for whose in (user, DEFAULT):
            for pair in pairs:
                value = self._limits.get((pair, (USER, whose)))
                if value is not None:
                    return Limit(value, user, kept_id)
            value = self._limits.get(((USER, whose),))
            if value is not None:
                return Limit(value, user, "")
        for pair in pairs:
            value = self._limits.get((pair,))
            if value is not None:
                return Limit(value, "", kept_id)
        return None

    def of_address(self, address: str) -> float | None:
        own = self._limits.get(((IP, address),))
        return self._limits.get(((IP, DEFAULT),)) if own is None else own


def shortened(client_id: str) -> str:
    """Rates and metrics are kept under it: a client may call itself anything, and another name each time."""
    if len(client_id) <= LONGEST_KEPT_ID:
        return client_id
    return f"{client_id[:KEPT_OF_LONGER_IDS]}...{sha256(client_id.encode()).hexdigest()}"
