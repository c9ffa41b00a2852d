"""What the audit log says: refusals that are told as such, and what was allowed where somebody wants to know."""

from __future__ import annotations

import logging

import pytest

from moldau.security.authorizer import authorized_operations
from moldau.security.context import ClientIdentity, RequestContext
from moldau.security.standard import StandardAuthorizer
from moldau.types.acls import Operation, Resource

ADMIN = RequestContext(ClientIdentity("User:admin", "CLIENTS", "10.0.0.7"), "c", 19, 7, 1)
EVE = RequestContext(ClientIdentity("User:eve", "CLIENTS", "10.0.0.8"), "c", 1, 17, 1)
NAME = "moldau.security.authorizer"


@pytest.fixture
def authorizer() -> StandardAuthorizer:
    return StandardAuthorizer(["User:admin"])


def test_a_refusal_says_who_what_on_what_from_where(
    authorizer: StandardAuthorizer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, NAME):
        assert not authorizer.allows(EVE, Operation.READ, Resource.TOPIC, "t")
        assert not authorizer.allows(EVE, Operation.READ, Resource.TOPIC, "left-out", audited=False)
        assert authorizer.allows(ADMIN, Operation.CREATE, Resource.TOPIC, "t")
    (line,) = caplog.messages
    assert line == (
        "Principal = User:eve is Denied operation = READ from host = 10.0.0.8 on resource = Topic:LITERAL:t "
        "for request = Fetch with resourceRefCount = 1 based on rule DefaultDeny"
    )


def test_a_name_without_end_does_not_fill_the_log(
    authorizer: StandardAuthorizer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, NAME):
        authorizer.allows(EVE, Operation.READ, Resource.TOPIC, "t" * 300)
        authorizer.allows(EVE, Operation.READ, Resource.TOPIC, "t" * 30_000)
    whole, cut = caplog.messages
    assert f"Topic:LITERAL:{'t' * 300} for" in whole
    assert f"Topic:LITERAL:{'t' * 300}... (30000 characters) for" in cut


def test_at_the_level_debug_all_that_was_allowed_is_told(
    authorizer: StandardAuthorizer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, NAME):
        assert authorizer.allows(ADMIN, Operation.CREATE, Resource.CLUSTER, "kafka-cluster", audited=False)
        authorized_operations(authorizer, ADMIN, Resource.TOPIC, "t")
    (line,) = caplog.messages
    assert line == (
        "Principal = User:admin is Allowed operation = CREATE from host = 10.0.0.7 on resource = "
        "Cluster:LITERAL:kafka-cluster for request = CreateTopics with resourceRefCount = 1 based on rule SuperUser"
    )
