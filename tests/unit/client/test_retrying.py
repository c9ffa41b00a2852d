"""What passes is tried again, first silently, until its time is over."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moldau.client.cluster import LONGEST_BACKOFF_SECONDS, Cluster
from moldau.client.errors import ConnectionLost
from moldau.client.settings import ClientSettings, parse_addresses
from moldau.types.errors import ErrorCode, KafkaError

SECONDS = 30.0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


def cluster(clock: Clock) -> Cluster:
    return Cluster(ClientSettings(parse_addresses("nowhere:1")), monotonic=lambda: clock.now, sleep=clock.sleep)


def failing(times: int, error: Exception) -> Callable[[], int]:
    left = iter(range(times))

    def action() -> int:
        if next(left, None) is None:
            return 7
        raise error

    return action


@pytest.mark.parametrize("error", [ConnectionLost("away"), KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)])
def test_what_passes_is_tried_again_after_growing_pauses(error: Exception) -> None:
    clock = Clock()
    assert cluster(clock).retrying(failing(6, error), SECONDS) == 7
    assert clock.pauses == sorted(clock.pauses)
    assert clock.pauses[0] < clock.pauses[-1] == LONGEST_BACKOFF_SECONDS


def test_what_does_not_pass_is_raised_at_once() -> None:
    clock = Clock()
    with pytest.raises(KafkaError, match="TOPIC_AUTHORIZATION_FAILED"):
        cluster(clock).retrying(failing(1, KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)), SECONDS)
    assert clock.pauses == []


def test_the_last_cause_is_raised_when_the_time_is_over(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    with pytest.raises(ConnectionLost, match="away"):
        cluster(clock).retrying(failing(1000, ConnectionLost("away")), SECONDS)
    assert clock.now <= 100.0 + SECONDS
    assert [record.getMessage() for record in caplog.records] == ["still trying, for 24 s more: away"]


def test_what_takes_a_moment_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    assert cluster(Clock()).retrying(failing(3, ConnectionLost("away")), SECONDS) == 7
    assert caplog.records == []
