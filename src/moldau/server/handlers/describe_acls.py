"""DescribeAcls, versions 1 to 3. There is no authorizer that keeps access rules, and Kafka without one answers so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.security.context import RequestContext
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

NO_AUTHORIZER = "No Authorizer is configured on the broker"


def handle(broker: Broker, context: RequestContext, request: DescribeAclsRequest) -> DescribeAclsResponse:
    return DescribeAclsResponse(error_code=ErrorCode.SECURITY_DISABLED, error_message=NO_AUTHORIZER)


API = Api(ApiKey.DESCRIBE_ACLS, 1, 3, DescribeAclsRequest, handle)
