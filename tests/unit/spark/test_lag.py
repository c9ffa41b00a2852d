"""What a session's listener says when it cannot publish consumed offsets."""

from __future__ import annotations

import json
import logging

import pytest

from moldau.spark.planning.lag import lag_target, publish_progress
from moldau.spark.planning.offsets import Position
from moldau.types.ids import TopicPartition


def test_a_login_that_is_missing_is_told_once_for_each_query(caplog: pytest.LogCaptureFixture) -> None:
    target = lag_target("h:1", "SASL_SSL", "team")
    end = json.dumps(Position({TopicPartition("t", 0): 5}, lag_target=target).to_json())
    with caplog.at_level(logging.INFO):
        for query in ("needs-a-login", "needs-a-login", "another-that-does"):
            assert publish_progress(query, end) is None
    assert [record.getMessage().split(" are not published")[0] for record in caplog.records] == [
        "consumed offsets of query 'needs-a-login'",
        "consumed offsets of query 'another-that-does'",
    ]
    assert "SASL_SSL" in caplog.text
    assert "kafka.group.id" in caplog.text
    assert "session(lag=" in caplog.text


def test_offsets_of_other_sources_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        assert publish_progress("q", "17") is None
        assert publish_progress("q", json.dumps(Position({TopicPartition("t", 0): 5}).to_json())) is None
    assert caplog.records == []
