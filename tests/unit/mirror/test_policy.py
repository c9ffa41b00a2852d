"""Names of copies, as Java's two policies make them."""

from __future__ import annotations

import pytest

from moldau.mirror.policy import IDENTITY, Policy


def test_a_name_tells_where_records_come_from() -> None:
    policy = Policy()
    assert policy.remote("us", "orders") == "us.orders"
    assert policy.origin("us.orders") == "us"
    assert policy.upstream("eu.us.orders") == "us.orders"
    assert policy.original("eu.us.orders") == "orders"
    assert policy.origin("orders") is None and policy.upstream("orders") is None


@pytest.mark.parametrize(
    ("topic", "circle"), [("eu.orders", True), ("us.eu.orders", True), ("orders", False), ("us.orders", False)]
)
def test_what_came_from_a_cluster_does_not_go_back(topic: str, circle: bool) -> None:
    assert Policy().comes_from(topic, "eu") is circle


def test_another_separator() -> None:
    policy = Policy(separator="__", internal_separator="__")
    assert policy.remote("us", "orders") == "us__orders"
    assert policy.offset_syncs("eu") == "mm2-offset-syncs__eu__internal"
    assert policy.checkpoints("us") == "us__checkpoints__internal"
    assert policy.is_internal("us__checkpoints__internal")
    assert Policy(separator="__", internal_separator=".").checkpoints("us") == "us.checkpoints.internal"


def test_identity_keeps_names_but_for_heartbeats() -> None:
    policy = Policy(IDENTITY, source="us")
    assert policy.remote("us", "orders") == "orders"
    assert policy.remote("us", "heartbeats") == "us.heartbeats"
    assert policy.upstream("orders") == "orders" and policy.original("orders") == "orders"
    assert not policy.comes_from("orders", "eu")
    assert policy.is_heartbeats("asia.heartbeats")
