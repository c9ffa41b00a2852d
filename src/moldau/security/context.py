"""Whom a request comes from: what an authorizer, a quota manager and a log line need to know."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

ANONYMOUS = "User:ANONYMOUS"


@dataclass(frozen=True, slots=True)
class Introduction:
    """Which broker, and which life of it, somebody says to be. `is_trusted`: only brokers could say so."""

    broker_id: int
    incarnation: UUID
    is_trusted: bool


@dataclass(slots=True)
class ClientIdentity:
    """Facts of a connection; software name and version arrive with ApiVersions."""

    principal: str
    listener: str
    address: str
    software_name: str = "unknown"
    software_version: str = "unknown"
    by_token: bool = False
    """Whether a delegation token stood for the user."""
    introduction: Introduction | None = None
    broker_id: int | None = None
    """Whose connection it is, if a broker that is registered has introduced itself and may act for the cluster."""
    is_exempt: bool = False
    """Whether neither quotas nor the limit of idle connections hold: they are not for brokers among themselves."""


@dataclass(slots=True)
class RequestContext:
    client: ClientIdentity
    client_id: str
    api_key: int
    api_version: int
    correlation_id: int
