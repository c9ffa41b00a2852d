"""The end of a transaction is written down, however often that is refused."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from moldau.coordinators.deferred import Deferred
from moldau.coordinators.transactions.machine import Markers, TransactionMachine
from moldau.server.coordination.transactions import LocalMarkers, TransactionCoordinator
from moldau.types.errors import ErrorCode, KafkaError
from moldau.types.ids import TopicPartition

MARKERS = Markers("id", 7, 3, 0, True, frozenset({TopicPartition("t", 0)}), 2)


class Router:
    def __init__(self) -> None:
        self.changes = 0

    async def write_all(self, markers: Markers) -> None:
        assert markers is MARKERS

    async def something_changes(self) -> None:
        self.changes += 1


def coordinator(router: Router) -> TransactionCoordinator:
    unused = cast(Any, None)
    return TransactionCoordinator(
        unused, unused, unused, unused, unused, unused, unused, unused, unused, cast(Any, router), broker_id=1
    )


@pytest.mark.parametrize(
    ("codes", "tries", "changes"),
    [
        ([ErrorCode.NONE], 1, 0),
        ([ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NONE], 3, 2),
        ([ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE], 2, 1),
        ([ErrorCode.NOT_COORDINATOR, ErrorCode.NONE], 1, 0),
    ],
    ids=["written", "too few in sync", "refused for another reason", "somebody else coordinates"],
)
def test_an_end_is_tried_again_until_it_stands_or_is_somebody_elses(
    codes: list[ErrorCode], tries: int, changes: int
) -> None:
    """Else the owner of the transaction would be told for ever that it is still being ended."""

    async def scene() -> None:
        router = Router()
        transactions = coordinator(router)
        tried = []

        def write(partition: int, operation: object) -> Deferred[None]:
            code = codes[len(tried)]
            tried.append(partition)
            answer: Deferred[None] = Deferred()
            if code is ErrorCode.NONE:
                answer.succeed(None)
            else:
                answer.fail(KafkaError(code))
            return answer

        transactions.service.runtime.write = write  # type: ignore[method-assign, assignment]
        await transactions._write_markers(4, MARKERS)
        assert (tried, router.changes) == ([4] * tries, changes)

    asyncio.run(scene())


def test_what_a_shard_has_sent_ends_with_its_life() -> None:
    """The next life, here or elsewhere, sends its own: an answer to this one must not be taken for one to that."""

    class Unanswered(Router):
        async def write_all(self, markers: Markers) -> None:
            await asyncio.Event().wait()

    async def scene() -> None:
        sender = LocalMarkers(coordinator(Unanswered()), 4)
        unused = cast(Any, None)
        machine = TransactionMachine(unused, sender, unused, unused, 3)
        sender.send(MARKERS)
        (sending,) = sender._sending
        await asyncio.sleep(0)
        machine.unloaded()
        await asyncio.gather(sending, return_exceptions=True)
        assert sending.cancelled()

    asyncio.run(scene())
