"""SaslAuthenticate, versions 0 to 2, where no login is under way (see sasl_handshake)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

OUT_OF_PLACE = "SaslAuthenticate request received after successful authentication"


def handle(broker: Broker, context: RequestContext, request: SaslAuthenticateRequest) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=OUT_OF_PLACE)


API = Api(ApiKey.SASL_AUTHENTICATE, 0, 2, SaslAuthenticateRequest, handle)
