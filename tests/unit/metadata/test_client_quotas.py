"""What may be a client's limit; Apache Kafka's answers to the rest are recorded in `tests/conformance`."""

from __future__ import annotations

from math import inf, nan

import pytest

from moldau.metadata.controller.client_quotas import QuotaAlteration, alter_client_quotas
from moldau.metadata.image import EMPTY_IMAGE
from moldau.types.errors import ErrorCode
from moldau.types.quotas import QuotaKey


@pytest.mark.parametrize("limit", [nan, inf, -inf])
@pytest.mark.parametrize("key", QuotaKey)
def test_what_is_no_number_limits_nobody(key: QuotaKey, limit: float) -> None:
    entity = [("ip", "192.0.2.1")] if key is QuotaKey.CONNECTION_CREATION_RATE else [("user", "u")]
    decision = alter_client_quotas(EMPTY_IMAGE, [QuotaAlteration(entity, [(key, limit)])], validate_only=False)
    (refused,) = decision.answer
    assert refused is not None and refused.code is ErrorCode.INVALID_REQUEST
    assert not decision.operations
