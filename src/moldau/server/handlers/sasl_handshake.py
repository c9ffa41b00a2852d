"""SaslHandshake, versions 0 and 1, where no login is under way: on a listener without SASL, or after a login that has
no end. A login itself is the gate's business, before any handler is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker


def handle(broker: Broker, context: RequestContext, request: SaslHandshakeRequest) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)


API = Api(ApiKey.SASL_HANDSHAKE, 0, 1, SaslHandshakeRequest, handle)
