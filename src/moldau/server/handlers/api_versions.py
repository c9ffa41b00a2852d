"""ApiVersions, versions 0 to 4: what this broker serves, and the features it supports and has finalized.

Who calls itself a broker of ours, and may act for the cluster, is also told of what brokers say among themselves. The
answer never has tagged fields in its header, and a version we do not know is answered in version 0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from moldau.security.context import RequestContext
from moldau.server.cluster_access import acts_for_cluster
from moldau.server.peers.opening import BROKER_SOFTWARE
from moldau.server.registry import Api
from moldau.types.errors import ErrorCode
from moldau.wire.apis import ApiKey
from moldau.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

SOFTWARE_NAMED_FROM = 3
OWN_SOFTWARE = "moldau"
LONGEST_SOFTWARE_KEPT = 255
"""Of a name or a version: it stays with the connection, and strangers may say it too."""
SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def handle(broker: Broker, context: RequestContext, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if context.api_version >= SOFTWARE_NAMED_FROM:
        names = (request.client_software_name, request.client_software_version)
        if not all(SOFTWARE.fullmatch(name) for name in names):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.client.software_name, context.client.software_version = (name[:LONGEST_SOFTWARE_KEPT] for name in names)
    software = context.client.software_name
    is_broker = software == BROKER_SOFTWARE and acts_for_cluster(broker, context)
    return broker.announced_versions(context.api_version, to_broker=is_broker, to_own=software == OWN_SOFTWARE)


def refuse_version(api: Api) -> ApiVersionsResponse:
    """A newer client learns from it which version to ask again with."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[api.announced])


API = Api(ApiKey.API_VERSIONS, 0, 4, ApiVersionsRequest, handle, refuse_version=refuse_version)
