"""Which access rules, roles and quotas a set of changes brings or takes away."""

from __future__ import annotations

from types import MappingProxyType
from uuid import UUID

from moldau.metadata import codec, paths, security_codec
from moldau.metadata.image import AclImage, QuotasImage, RoleImage
from moldau.metadata.store import Versioned
from moldau.types.quotas import DEFAULT, QuotaEntity, quota_entity


class SecurityChanges:
    """None stands for deleted."""

    def __init__(self) -> None:
        self.acls: dict[UUID, AclImage | None] = {}
        self.roles: dict[str, RoleImage | None] = {}
        self.quotas: dict[QuotaEntity, QuotasImage | None] = {}

    def take(self, path: str, entry: Versioned | None) -> None:
        """Raises BadEntryError."""
        _, kind, name = path.split("/")
        if kind == "acls":
            self.acls[_uuid(path, name)] = None if entry is None else _acl(path, entry)
        elif kind == "roles":
            self.roles[paths.unescaped(name)] = None if entry is None else _role(path, entry)
        else:
            self.quotas[entity_of(name)] = None if entry is None else _quotas(path, entry)


def entity_of(part: str) -> QuotaEntity:
    """What `paths.quotas` wrote into a path."""
    names: dict[str, str | None] = {}
    for each in part.split(","):
        kind, named, name = each.partition(":")
        names[kind] = paths.unescaped(name) if named else DEFAULT
    return quota_entity(names)


def _uuid(path: str, text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError as error:
        raise codec.BadEntryError(path, f"{text!r} is not a UUID") from error


def _acl(path: str, entry: Versioned) -> AclImage:
    return AclImage(security_codec.decode_acl(path, entry.value), entry.version)


def _role(path: str, entry: Versioned) -> RoleImage:
    return RoleImage(security_codec.decode_role(path, entry.value), entry.version)


def _quotas(path: str, entry: Versioned) -> QuotasImage:
    _, values, unknown = security_codec.decode_quotas(path, entry.value)
    return QuotasImage(MappingProxyType(values), entry.version, unknown)
