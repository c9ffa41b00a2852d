"""How long a client must wait before its next request. Only the unlimited manager exists so far: quotas plug in."""

from __future__ import annotations

from typing import Protocol

from moldau.security.context import RequestContext


class QuotaManager(Protocol):
    def limits(self, context: RequestContext) -> bool:
        """Whether any quota applies to this client at all."""
        ...

    def throttle_ms(self, context: RequestContext, request_bytes: int) -> int:
        """Called before a request is handled. Above 0, the answer carries the value and the connection is muted for
        it.
        """
        ...


class Unlimited:
    def limits(self, context: RequestContext) -> bool:
        return False

    def throttle_ms(self, context: RequestContext, request_bytes: int) -> int:
        return 0
