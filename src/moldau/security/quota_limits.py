"""Which limit holds for whom. Kafka's order: what says more of a client is stronger; users come before client ids."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from hashlib import sha256
from typing import Final, NamedTuple
from urllib.parse import quote

from moldau.metadata.image import QuotasImage
from moldau.types.addresses import canonical, is_address
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
        self._by_host: dict[str, float] = {}
        self._addresses: Mapping[str, Sequence[str]] = {}
        self._of_hosts: dict[str, float] = {}

    @property
    def any(self) -> bool:
        return bool(self._limits)

    def set(self, entity: QuotaEntity, quotas: QuotasImage | None) -> None:
        limit = None if quotas is None else quotas.values.get(self.key)
        entity = tuple((kind, canonical(name) if kind == IP and name is not None else name) for kind, name in entity)
        if limit is None:
            self._limits.pop(entity, None)
        else:
            self._limits[entity] = limit
        self._found.clear()
        (kind, name), *_ = entity
        if kind == IP and name is not None and not is_address(name):
            self._set_of_host(name, limit)

    def _set_of_host(self, name: str, limit: float | None) -> None:
        if limit is None:
            self._by_host.pop(name, None)
        else:
            self._by_host[name] = limit
        self._resolve()

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
        """What is said of the address itself is stronger than what is said of a host that has it."""
        own = self._limits.get(((IP, address),), self._of_hosts.get(address))
        return self._limits.get(((IP, DEFAULT),)) if own is None else own

    @property
    def hosts(self) -> Collection[str]:
        """Those that are named, and limit nobody until `looked_up` tells their addresses."""
        return self._by_host

    def looked_up(self, addresses: Mapping[str, Sequence[str]]) -> None:
        self._addresses = addresses
        self._resolve()

    def _resolve(self) -> None:
        self._of_hosts = {
            address: limit for name, limit in self._by_host.items() for address in self._addresses.get(name, ())
        }


def shortened(client_id: str) -> str:
    """Rates and metrics are kept under it: a client may call itself anything, and another name each time."""
    if len(client_id) <= LONGEST_KEPT_ID:
        return client_id
    return f"{client_id[:KEPT_OF_LONGER_IDS]}...{sha256(client_id.encode()).hexdigest()}"
