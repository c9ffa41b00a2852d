"""UpdateFeatures, versions 0 to 2: changes the finalized levels of features, or only says whether they could be.

Version 0 cannot go down: it knows no kinds of updates, and Apache Kafka ignores its flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from moldau.metadata.controller.features import FeatureUpdate, UpgradeType, update_features
from moldau.security.authorizer import Operation, Resource
from moldau.security.context import RequestContext
from moldau.server.cluster_access import needs
from moldau.server.registry import Api
from moldau.types.acls import CLUSTER_NAME
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.apis import ApiKey
from moldau.wire.messages.update_features import UpdatableFeatureResult, UpdateFeaturesRequest, UpdateFeaturesResponse

if TYPE_CHECKING:
    from moldau.server.broker import Broker

KINDS_FROM = 1
FINE = "NONE"


async def handle(broker: Broker, context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    if not broker.authorizer.allows(context, Operation.ALTER, Resource.CLUSTER, CLUSTER_NAME):
        return UpdateFeaturesResponse(
            error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED, error_message=needs(context, Operation.ALTER)
        )
    has_kinds = context.api_version >= KINDS_FROM
    updates = [
        FeatureUpdate(one.feature, one.max_version_level, one.upgrade_type if has_kinds else UpgradeType.UPGRADE)
        for one in request.feature_updates
    ]
    try:
        await broker.controller.decide(
            lambda image: update_features(
                image, updates, broker.node_id, validate_only=has_kinds and request.validate_only
            )
        )
    except KafkaError as error:
        if error.code is ErrorCode.NOT_CONTROLLER:
            raise
        return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
    return UpdateFeaturesResponse(
        error_message=None,
        results=[UpdatableFeatureResult(feature=update.name, error_message=FINE) for update in updates],
    )


API = Api(ApiKey.UPDATE_FEATURES, 0, 2, UpdateFeaturesRequest, handle)
