"""The end of a transaction that meets somebody else's InitProducerId."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from moldau.client.cluster import Cluster
from moldau.client.errors import Fenced
from moldau.client.settings import Address, ClientSettings
from moldau.client.transactions import Transactions
from moldau.types.errors import ErrorCode, KafkaError
from moldau.wire.messages.end_txn import EndTxnResponse

NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Transactions]:
    """A coordinator that answers EndTxn with these codes, and with the last one for ever."""

    def build(*codes: ErrorCode, seconds: float = 5.0) -> Transactions:
        left = list(codes)

        def answer(*_: Any, **__: Any) -> EndTxnResponse:
            return EndTxnResponse(error_code=left.pop(0) if len(left) > 1 else left[0])

        cluster = Cluster(ClientSettings((Address("broker", 1),), backoff_seconds=0.001, total_seconds=seconds))
        monkeypatch.setattr(cluster, "to_coordinator", answer)
        return Transactions(cluster, "id", 60_000, time.monotonic)

    return build


def test_an_end_that_meets_an_initialisation_is_asked_again(answering: Callable[..., Transactions]) -> None:
    """Apache Kafka says UNKNOWN_SERVER_ERROR for as long as that is pending; then it says who has won."""
    answering(UNKNOWN, UNKNOWN, NONE).end(commit=True)
    with pytest.raises(Fenced, match="INVALID_PRODUCER_EPOCH"):
        answering(UNKNOWN, ErrorCode.INVALID_PRODUCER_EPOCH).end(commit=True)


def test_a_coordinator_that_knows_no_better_is_named(answering: Callable[..., Transactions]) -> None:
    with pytest.raises(KafkaError, match="EndTxn of id: UNKNOWN_SERVER_ERROR"):
        answering(UNKNOWN, seconds=0.0).end(commit=True)
