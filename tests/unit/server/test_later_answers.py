"""What a coordinator says at once or later, as a handler's answer."""

from __future__ import annotations

import asyncio

import pytest

from moldau.coordinators.deferred import Deferred
from moldau.server.coordination.futures import Later, respond
from moldau.types.errors import ErrorCode, KafkaError

REFUSAL = KafkaError(ErrorCode.NOT_COORDINATOR)


def asked(deferred: Deferred[int]) -> str | Later[str]:
    return respond(lambda: deferred, lambda value: f"value {value}", lambda error: error.code.name)


def test_what_is_known_is_answered_at_once() -> None:
    known: Deferred[int] = Deferred()
    known.succeed(1)
    assert asked(known) == "value 1"
    failed: Deferred[int] = Deferred()
    failed.fail(REFUSAL)
    assert asked(failed) == "NOT_COORDINATOR"


def test_a_request_that_is_refused() -> None:
    def refuse() -> Deferred[int]:
        raise REFUSAL

    assert respond(refuse, str, lambda error: error.code.name) == "NOT_COORDINATOR"


@pytest.mark.parametrize("fails", [False, True])
def test_what_comes_later_is_told_once_and_can_be_awaited(fails: bool) -> None:
    deferred: Deferred[int] = Deferred()
    answer = asked(deferred)
    assert isinstance(answer, Later)
    told: list[str] = []
    answer.when_done(lambda: told.append(answer.result()))
    assert told == []
    if fails:
        deferred.fail(REFUSAL)
    else:
        deferred.succeed(2)
    expected = "NOT_COORDINATOR" if fails else "value 2"
    assert told == [expected]

    async def awaited() -> str:
        return await answer

    assert asyncio.run(awaited()) == expected
