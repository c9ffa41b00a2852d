"""How a handler module declares itself: key, versions, and what is called. Adding an API is adding one module with an
`API`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from moldau.security.context import RequestContext
from moldau.wire.apis import ApiKey
from moldau.wire.messages.api_versions import ApiVersion
from moldau.wire.schema import Message

if TYPE_CHECKING:
    from moldau.server.broker import Broker
    from moldau.server.connection import Frame, Shortcut, Slot

#: From this size on a request is read in turns; the densest ones that are smaller hold some thousand elements.
LARGE_REQUEST_BYTES = 16 * 1024

#: The two ways to answer; `handlers/__init__` says when to take which.
Handle = Callable[["Broker", RequestContext, Any], Message | Awaitable[Message]]
RawHandle = Callable[["Broker", RequestContext, "Frame", int, "Slot"], None]


@dataclass(frozen=True, slots=True)
class Api:
    key: ApiKey
    first: int
    last: int
    request: type[Message]
    handle: Handle | None = None
    raw: RawHandle | None = None
    #: What is asked before anybody parses a request of this kind, whatever its size.
    shortcut: Callable[[Broker], Shortcut] | None = None
    #: Produce may start before the answers of earlier Produce requests on the connection are known.
    pipelined: bool = False
    #: Versions that are announced (old clients infer features from them) but answered with UNSUPPORTED_VERSION.
    refused_below: int = 0
    #: What is answered, in version 0, to versions that are not served; without it they close the connection.
    refuse_version: Callable[[Api], Message] | None = None
    #: Spoken by brokers among themselves: announced to no client, and served only to whoever may act for the cluster.
    between_brokers: bool = False
    #: Not of Kafka's protocol: announced only to clients that are ours, and served to whoever knows of it.
    is_own: bool = False

    @property
    def announced(self) -> ApiVersion:
        return ApiVersion(api_key=self.key, min_version=self.first, max_version=self.last)
