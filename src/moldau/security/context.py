"""Whom a request comes from: what an authorizer, a quota manager and a log line need to know."""

from __future__ import annotations

from dataclasses import dataclass

ANONYMOUS = "User:ANONYMOUS"


@dataclass(slots=True)
class ClientIdentity:
    """Facts of a connection; software name and version arrive with ApiVersions."""

    principal: str
    listener: str
    address: str
    software_name: str = "unknown"
    software_version: str = "unknown"
    broker_id: int | None = None
    """Whose connection it is, if another broker of the cluster opened it and may act for the cluster."""


@dataclass(slots=True)
class RequestContext:
    client: ClientIdentity
    client_id: str
    api_key: int
    api_version: int
    correlation_id: int
