"""From places to offsets, and from a checkpoint to what is there today."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from uuid import UUID

import pytest

from moldau.spark.errors import DataLoss, ForeignCheckpoint
from moldau.spark.option_table import OptionError
from moldau.spark.planning.catalog import TopicView
from moldau.spark.planning.offsets import EARLIEST, LATEST, At, AtOffsets, AtTime, AtTimes, PartitionOffsets, Position
from moldau.spark.planning.resolve import carry_on, resolve
from moldau.spark.planning.selecting import loss_handler
from moldau.types.ids import TopicPartition
from tests.fakes.spark_catalog import FakeLog

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LOGS = {A: FakeLog(10, 13, [100, 300, 200]), B: FakeLog(0, 1, [50])}
OLD, NEW = UUID(int=1), UUID(int=2)
fail = loss_handler(True)


class Table:
    def __init__(self, logs: Mapping[TopicPartition, FakeLog]) -> None:
        self.logs = logs

    def __call__(self, wanted: Mapping[TopicPartition, int], /) -> PartitionOffsets:
        return {place: self.logs[place].offset_at(time) for place, time in wanted.items()}

    def log_ends(self, places: Iterable[TopicPartition], /) -> PartitionOffsets:
        return {place: self.logs[place].end for place in places}


look = Table(LOGS)


def test_every_kind_of_place() -> None:
    assert resolve(At(EARLIEST), "o", [A, B], look, fail) == {A: 10, B: 0}
    assert resolve(At(LATEST), "o", [A, B], look, fail) == {A: 13, B: 1}
    assert resolve(AtTime(60), "o", [A], look, fail, no_match="error") == {A: 10}
    assert resolve(AtTimes({A: 150, B: 50}), "o", [A, B], look, fail) == {A: 11, B: 0}
    assert resolve(AtOffsets({A: 12, B: LATEST}), "o", [A, B], look, fail) == {A: 12, B: 1}


def test_a_time_after_the_last_record() -> None:
    assert resolve(AtTime(60), "o", [A, B], look, fail, no_match="latest") == {A: 10, B: 1}
    with pytest.raises(OptionError, match="no record at or after 60 in t-1"):
        resolve(AtTime(60), "startingTimestamp", [A, B], look, fail, no_match="error")


def test_every_partition_needs_its_place() -> None:
    with pytest.raises(OptionError, match="no place for t-1"):
        resolve(AtOffsets({A: 12}), "startingOffsets", [A, B], look, fail)
    with pytest.raises(OptionError, match="names t-1, which this query does not read"):
        resolve(AtTimes({A: 12, B: 1}), "startingOffsetsByTimestamp", [A], look, fail)


def test_an_offset_that_is_not_there_is_lost_data() -> None:
    for offset, nearest in ((9, 10), (14, 13)):
        with pytest.raises(DataLoss, match=f"offset {offset} of t-0, which holds 10 to 13"):
            resolve(AtOffsets({A: offset}), "startingOffsets", [A], look, fail)
        assert resolve(AtOffsets({A: offset}), "startingOffsets", [A], look, loss_handler(False)) == {A: nearest}


def test_an_offset_behind_the_last_stable_one_is_there() -> None:
    undecided = Table({A: FakeLog(0, 12, stable=10)})
    for offset in (10, 11, 12):
        assert resolve(AtOffsets({A: offset}), "startingOffsets", [A], undecided, fail) == {A: offset}
    with pytest.raises(DataLoss, match="offset 13 of t-0, which holds 0 to 12"):
        resolve(AtOffsets({A: 13}), "startingOffsets", [A], undecided, fail)
    assert resolve(AtOffsets({A: LATEST}), "startingOffsets", [A], undecided, fail) == {A: 10}


def carried(start: Position, topics: dict[str, TopicView], lost_fails: bool = True) -> PartitionOffsets:
    places = [TopicPartition(name, number) for name, view in topics.items() for number in view.leaders]
    return carry_on(start, topics, places, lambda place: place.topic in ("t", "u"), loss_handler(lost_fails))


def test_a_query_goes_on_and_finds_what_is_new() -> None:
    start = Position({A: 5}, {"t": OLD})
    today = {"t": TopicView(OLD, {0: 1, 1: 1}), "u": TopicView(NEW, {0: 1})}
    assert carried(start, today) == {A: 5, B: EARLIEST, TopicPartition("u", 0): EARLIEST}


def test_a_deleted_topic_is_lost_data() -> None:
    start = Position({A: 5, TopicPartition("u", 0): 1}, {"t": OLD})
    today = {"u": TopicView(None, {0: 1})}
    with pytest.raises(DataLoss, match="topic t was deleted; it had been read up to 0: 5"):
        carried(start, today)
    assert carried(start, today, lost_fails=False) == {TopicPartition("u", 0): 1}


def test_a_topic_that_was_created_anew_is_lost_data() -> None:
    start = Position({A: 5}, {"t": OLD})
    today = {"t": TopicView(NEW, {0: 1})}
    with pytest.raises(DataLoss, match="created anew"):
        carried(start, today)
    assert carried(start, today, lost_fails=False) == {A: EARLIEST}


def test_unknown_topic_ids_are_no_loss() -> None:
    assert carried(Position({A: 5}), {"t": TopicView(NEW, {0: 1})}) == {A: 5}
    assert carried(Position({A: 5}, {"t": OLD}), {"t": TopicView(None, {0: 1})}) == {A: 5}


def test_a_partition_that_is_gone_is_lost_data() -> None:
    with pytest.raises(DataLoss, match="t-1 are gone"):
        carried(Position({A: 5, B: 6}), {"t": TopicView(None, {0: 1})})


def test_the_checkpoint_of_another_query() -> None:
    strange = TopicPartition("x", 0)
    with pytest.raises(ForeignCheckpoint, match="belongs to another query"):
        carried(Position({strange: 5}), {"t": TopicView(None, {0: 1})}, lost_fails=False)
    with pytest.raises(DataLoss, match="does not read any more"):
        carried(Position({strange: 5, A: 1}), {"t": TopicView(None, {0: 1})})
    with pytest.raises(ForeignCheckpoint, match="did not write"):
        Position.from_json({"logOffset": 7})
    with pytest.raises(ForeignCheckpoint):
        Position.from_json({"version": 2, "offsets": {}})


def test_an_offset_of_sparks_own_connector_is_understood() -> None:
    assert Position.from_json({"t": {"0": 5, "1": 6}}).offsets == {A: 5, B: 6}
    assert Position.from_json({"version": {"0": 5}}).offsets == {TopicPartition("version", 0): 5}
