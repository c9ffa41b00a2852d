"""Changing and finding the quotas of clients, with Apache Kafka's checks and words."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isinf, isnan
from typing import Final

from moldau.metadata import paths, security_codec
from moldau.metadata.controller.decision import Decision
from moldau.metadata.image import ClusterImage
from moldau.metadata.store import ABSENT, Delete, Operation, Put
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.quotas import EntityType, QuotaEntity, QuotaKey, quota_entity

EXACT, DEFAULT_NAME, SPECIFIED = 0, 1, 2
"""How a filter means a type: this name, the default, or whatever names it."""

LONG_MAX: Final = float(2**63 - 1)
INT_MAX: Final = float(2**31 - 1)
WHOLE_NUMBERS: Final[Mapping[str, tuple[float, str]]] = {
    QuotaKey.PRODUCER_BYTE_RATE: (LONG_MAX, "a LONG"),
    QuotaKey.CONSUMER_BYTE_RATE: (LONG_MAX, "a LONG"),
    QuotaKey.CONNECTION_CREATION_RATE: (INT_MAX, "an INT"),
}
USER_KEYS: Final = frozenset(QuotaKey) - {QuotaKey.CONNECTION_CREATION_RATE}
IP_KEYS: Final = frozenset({QuotaKey.CONNECTION_CREATION_RATE})
_HOST_NAME: Final = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*\.?")


@dataclass(frozen=True, slots=True)
class QuotaAlteration:
    """Types with names, and limits by key; None removes."""

    entity: Sequence[tuple[str, str | None]]
    changes: Sequence[tuple[str, float | None]]


@dataclass(frozen=True, slots=True)
class QuotaFilter:
    """`match_type` is as a client sent it."""

    entity_type: str
    match_type: int
    match: str | None


def alter_client_quotas(
    image: ClusterImage, alterations: Sequence[QuotaAlteration], *, validate_only: bool
) -> Decision[list[KafkaError | None]]:
    """One by one: None, or why it was not done."""
    results: list[KafkaError | None] = []
    operations: dict[QuotaEntity, Operation] = {}
    seen: set[QuotaEntity] = set()
    for wanted in alterations:
        try:
            entity = checked_entity(wanted.entity)
            changes = _checked_changes(entity, wanted.changes)
            if entity in seen:
                raise _invalid(f"Ignoring duplicate entity {_as_java(entity)}")
            seen.add(entity)
        except KafkaError as error:
            results.append(error)
            continue
        operation = _operation(image, entity, changes)
        if operation is not None:
            operations[entity] = operation
        results.append(None)
    return Decision([] if validate_only else list(operations.values()), results)


def _operation(image: ClusterImage, entity: QuotaEntity, changes: Mapping[str, float | None]) -> Operation | None:
    present = image.quotas.get(entity)
    before = {} if present is None else dict(present.values)
    after = {key: limit for key, limit in {**before, **changes}.items() if limit is not None}
    if after == before:
        return None
    path = paths.quotas(entity)
    if present is None:
        return Put(path, security_codec.encode_quotas(entity, after), ABSENT)
    if not after:
        return Delete(path, present.version)
    return Put(path, security_codec.encode_quotas(entity, after, present.unknown), present.version)


def checked_entity(named: Sequence[tuple[str, str | None]]) -> QuotaEntity:
    """Raises INVALID_REQUEST."""
    if not named:
        raise _invalid("Invalid empty client quota entity")
    names: dict[str, str | None] = {}
    for kind, name in named:
        if kind in names:
            raise _invalid(f"Invalid client quota entity, duplicate entity entry {kind}")
        if kind not in EntityType.__members__.values():
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        names[kind] = name
    if EntityType.IP in names:
        if len(names) > 1:
            raise _invalid("Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId")
        address = names[EntityType.IP]
        if address is not None and not is_host(address):
            raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return quota_entity(names)


def is_host(text: str) -> bool:
    """An address, or what may be a host's name; whether it resolves is not asked: each broker asks what it
    stands for when it hears of the quota."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        looks_like_address = re.fullmatch(r"[0-9.]+", text) is not None
        return not looks_like_address and _HOST_NAME.fullmatch(text) is not None
    return True


def _checked_changes(entity: QuotaEntity, changes: Sequence[tuple[str, float | None]]) -> dict[str, float | None]:
    allowed = IP_KEYS if entity[0][0] == EntityType.IP else USER_KEYS
    checked: dict[str, float | None] = {}
    for key, limit in changes:
        if key in checked:
            raise _invalid(f"Duplicate quota key {key} not updating quota for this entity {_as_java(entity)}")
        if limit is not None:
            _check_limit(key, limit, allowed)
        checked[key] = limit
    return checked


def _check_limit(key: str, limit: float, allowed: frozenset[QuotaKey]) -> None:
    if key not in allowed:
        raise _invalid(f"Invalid configuration key {key}")
    if isnan(limit):  # Apache Kafka keeps it, and compares with it ever after
        raise _invalid(f"Quota {key} must be a number")
    if limit <= 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    whole = WHOLE_NUMBERS.get(key)
    if whole is None:
        if isinf(limit):
            raise _invalid(f"Quota {key} must be finite")
        return
    highest, kind = whole
    if limit > highest:
        raise _invalid(f"Proposed value for {key} is too large for {kind}.")
    if abs(limit % 1.0) > 1e-6:
        raise _invalid(f"{key} cannot be a fractional value.")


def find_client_quotas(
    image: ClusterImage, filters: Sequence[QuotaFilter], *, strict: bool
) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
    """Raises INVALID_REQUEST, UNSUPPORTED_VERSION. `strict` leaves out entities with types that no filter names."""
    exact: dict[str, str | None] = {}
    specified: set[str] = set()
    for each in filters:
        _take_filter(each, exact, specified)
    if EntityType.IP in {*exact, *specified} and {EntityType.USER, EntityType.CLIENT_ID} & {*exact, *specified}:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with user or "
            "clientId filter component."
        )
    found = []
    for entity, quotas in image.quotas.items():
        names = dict(entity)
        if (
            all(kind in names and names[kind] == name for kind, name in exact.items())
            and specified <= names.keys()
            and not (strict and len(names) != len(exact) + len(specified))
        ):
            found.append((entity, quotas.values))
    return found


def _take_filter(wanted: QuotaFilter, exact: dict[str, str | None], specified: set[str]) -> None:
    kind = wanted.entity_type
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in exact or kind in specified:
        raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in EntityType.__members__.values():
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if wanted.match_type == EXACT:
        if wanted.match is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        exact[kind] = wanted.match
    elif wanted.match_type == DEFAULT_NAME:
        if wanted.match is not None:
            raise _invalid("Request specified MATCH_TYPE_DEFAULT, but also specified a match string.")
        exact[kind] = None
    elif wanted.match_type == SPECIFIED:
        if wanted.match is not None:
            raise _invalid("Request specified MATCH_TYPE_SPECIFIED, but also specified a match string.")
        specified.add(kind)
    else:
        raise _invalid(f"Unknown match type {wanted.match_type}")


def _as_java(entity: QuotaEntity) -> str:
    named = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{named}}})"


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
