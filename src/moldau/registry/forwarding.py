"""A write that another instance has to do: the same request to the leader, and its answer back."""

from __future__ import annotations

import http.client
import ssl
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from moldau.registry.errors import RegistryError
from moldau.registry.shapes import TOLERANT

FORWARDED: Final = "x-forward"
OFFSET: Final = "x-registry-offset"
"""Up to where the follower has to read to see the write that it was answered."""
PASSED_ON: tuple[str, ...] = ("accept", "authorization", "content-type", "user-agent", TOLERANT)


class Forwarded(NamedTuple):
    status: int
    body: bytes
    media_type: str
    offset: int | None


def forward(
    url: str, method: str, target: str, headers: dict[str, str], body: bytes, seconds: float, tls: ssl.SSLContext | None
) -> Forwarded:
    """Blocking. `target`: path and query as they came."""
    where = urlsplit(url)
    made: http.client.HTTPConnection
    if where.scheme == "https":
        made = http.client.HTTPSConnection(where.hostname or "", where.port, timeout=seconds, context=tls)
    else:
        made = http.client.HTTPConnection(where.hostname or "", where.port, timeout=seconds)
    try:
        passed: dict[str, str] = {name: headers[name] for name in PASSED_ON if name in headers}
        made.request(method, target, body, {**passed, FORWARDED: "true"})
        answer = made.getresponse()
        offset = answer.getheader(OFFSET)
        kind = answer.getheader("content-type") or "application/json"
        return Forwarded(answer.status, answer.read(), kind, int(offset) if offset else None)
    except (OSError, http.client.HTTPException) as error:
        raise RegistryError(50003, f"Error while forwarding the request to the leader {url}: {error}") from None
    finally:
        made.close()
