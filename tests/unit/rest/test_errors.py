"""Which code an error of librdkafka's becomes."""

from __future__ import annotations

import pytest

from moldau.rest.errors import delivery_code, of_name, of_v2


@pytest.mark.parametrize(
    ("name", "retriable", "code", "status"),
    [
        ("UNKNOWN_TOPIC_OR_PART", False, 40403, 404),
        ("_UNKNOWN_PARTITION", False, 40402, 404),
        ("GROUP_ID_NOT_FOUND", False, 40405, 404),
        ("_AUTHENTICATION", False, 40101, 401),
        ("SASL_AUTHENTICATION_FAILED", False, 40101, 401),
        ("TOPIC_AUTHORIZATION_FAILED", False, 40301, 403),
        ("CLUSTER_AUTHORIZATION_FAILED", False, 40301, 403),
        ("THROTTLING_QUOTA_EXCEEDED", True, 42901, 429),
        ("INVALID_PARTITIONS", False, 40002, 400),
        ("COORDINATOR_NOT_AVAILABLE", True, 50003, 500),
        ("_TIMED_OUT", False, 50003, 500),
        ("UNKNOWN", False, 50002, 500),
        ("_FATAL", False, 50002, 500),
    ],
)
def test_each_error_has_its_code(name: str, retriable: bool, code: int, status: int) -> None:
    found = of_name(name, "why", retriable, "orders")
    assert (found.code, found.status) == (code, status)
    assert name == "_UNKNOWN_PARTITION" or "orders" in found.message


@pytest.mark.parametrize(
    ("name", "retriable", "code"),
    [
        ("_AUTHENTICATION", False, 40101),
        ("TOPIC_AUTHORIZATION_FAILED", False, 40301),
        ("NOT_ENOUGH_REPLICAS", True, 50003),
        ("_MSG_TIMED_OUT", False, 50003),
        ("UNKNOWN", False, 50002),
    ],
)
def test_each_record_that_was_not_stored_has_its_code(name: str, retriable: bool, code: int) -> None:
    assert delivery_code(name, retriable) == code


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("UNKNOWN_TOPIC_OR_PART", 40401),
        ("TOPIC_EXCEPTION", 40401),
        ("_UNKNOWN_PARTITION", 40402),
        ("LEADER_NOT_AVAILABLE", 40404),
        ("NOT_LEADER_FOR_PARTITION", 50003),
        ("TOPIC_AUTHORIZATION_FAILED", 40301),
    ],
)
def test_v2_has_codes_of_its_own_for_topics(name: str, code: int) -> None:
    assert of_v2(of_name(name, "why", True, "orders")).code == code
