"""Which replica a consumer is sent to."""

from __future__ import annotations

import pytest

from moldau.replication.selectors import RACK_AWARE, RackAware, ReplicaView, selector_of

LEADER = ReplicaView(1, "a", 10, 0)
NEAR = ReplicaView(2, "b", 9, 5)
NEARER = ReplicaView(3, "b", 10, 50)
NEAREST = ReplicaView(4, "b", 10, 5)


@pytest.mark.parametrize(
    ("rack", "followers", "chosen"),
    [
        ("b", (NEAR, NEARER, NEAREST), 4),
        ("b", (NEAR,), 2),
        ("a", (NEAR, ReplicaView(5, "a", 10, 0)), 1),
        ("c", (NEAR,), 1),
        ("", (ReplicaView(2, "", 10, 0),), 1),
    ],
)
def test_the_replica_in_the_clients_rack_that_is_least_behind(
    rack: str, followers: tuple[ReplicaView, ...], chosen: int
) -> None:
    assert RackAware().select(rack, LEADER, followers) == chosen


def test_only_kafkas_own_selector_is_known() -> None:
    assert selector_of(None) is None
    assert isinstance(selector_of(RACK_AWARE), RackAware)
    with pytest.raises(ValueError, match=r"com\.example\.Mine is not known"):
        selector_of("com.example.Mine")
