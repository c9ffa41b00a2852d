"""How a producer is told that another one has taken over its transactional id."""

from __future__ import annotations

from moldau.types.errors import ErrorCode

FENCED_IS_KNOWN_FROM = 2
"""The first version of AddPartitionsToTxn, AddOffsetsToTxn and EndTxn whose clients know PRODUCER_FENCED."""


def known_code(code: ErrorCode, api_version: int, fenced_from: int = FENCED_IS_KNOWN_FROM) -> ErrorCode:
    """Older clients know the epoch alone."""
    if code is ErrorCode.PRODUCER_FENCED and api_version < fenced_from:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code
