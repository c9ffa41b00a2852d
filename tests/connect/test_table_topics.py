"""The topic of positions, read by a thread: what it does while the brokers are away, and when it has died."""

from __future__ import annotations

from pathlib import Path

import pytest

from moldau.connect.worker.positions import PositionTable, PositionTables
from moldau.connect.worker.topics import TopicUnavailable
from tests.support.broker import Broker
from tests.support.waiting import wait_until

SECONDS = 60.0


def test_a_table_is_read_once_the_brokers_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """They go away between the look at the topic and the reading."""
    with Broker(tmp_path / "broker") as broker:
        assert isinstance(broker, Broker)
        monkeypatch.setattr("moldau.connect.worker.topics.AGAIN_SECONDS", 0.1)
        tables = PositionTables({"bootstrap.servers": broker.address}, 1, 1)
        try:
            tables.table("positions").set("a", [({"n": 1}, {"at": 1})])
            broker.kill()
            made = PositionTable({"bootstrap.servers": broker.address}, "positions")
            made.table._seconds = 1.0
            made.table.start()
            wait_until(lambda: "positions cannot be looked at yet" in caplog.text, "it looks in vain", SECONDS)
            with pytest.raises(TopicUnavailable):
                made.of_connector("a")
            broker.start()
            made.table._seconds = 30.0
            assert made.of_connector("a") == [({"n": 1}, {"at": 1})]
            assert not made.table.is_dead
            made.table.close()
        finally:
            tables.close()


def test_a_table_whose_reading_has_ended_is_opened_anew(tmp_path: Path) -> None:
    with Broker(tmp_path / "broker") as broker:
        assert isinstance(broker, Broker)
        tables = PositionTables({"bootstrap.servers": broker.address}, 1, 1)
        try:
            table = tables.table("positions")
            table.set("a", [({"n": 1}, {"at": 1})])

            def fail(key: bytes | None, value: bytes | None) -> None:
                raise MemoryError("no room for it")

            table.table._apply = fail
            with pytest.raises(TopicUnavailable, match="no room for it"):
                table.set("a", [({"n": 1}, {"at": 2})])
            again = tables.table("positions")
            assert again is not table
            assert again.of_connector("a") == [({"n": 1}, {"at": 2})]
        finally:
            tables.close()
