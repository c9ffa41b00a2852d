"""Where a sink goes on whose committed offsets are no longer in the topic."""

from __future__ import annotations

import pytest

from moldau.connect.configuration import WorkerDefaults, make_job
from moldau.connect.task import Job
from moldau.connect.worker.group_offsets import BEGINNING, END, OffsetsGone, Place, begins
from moldau.types.ids import TopicPartition

CONVERTERS = dict.fromkeys(("key.converter", "value.converter"), "StringConverter")
KEPT, DELETED, SHORTER, FRESH = (TopicPartition("t", number) for number in range(4))
PLACES = {
    KEPT: Place(5, 5, 9),
    DELETED: Place(5, 8, 20),
    SHORTER: Place(7, 0, 3),
    FRESH: Place(None, 4, 9),
}


def job(**overrides: str) -> Job:
    config = {"name": "out", "connector.class": "FileStreamSink", "file": "f", "topics": "t"}
    config |= {f"consumer.override.{name.replace('_', '.')}": value for name, value in overrides.items()}
    return make_job(config, WorkerDefaults(CONVERTERS, {}, {}, {}, "g", "offsets"))


def test_it_goes_on_where_its_consumers_policy_says_and_tells_what_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    assert begins(job(), PLACES) == {KEPT: 5, DELETED: BEGINNING, SHORTER: BEGINNING, FRESH: BEGINNING}
    deleted, shorter = [record.getMessage() for record in caplog.records]
    assert deleted == (
        "connect-out: t-1 begins at offset 8 now: 3 offsets from 5 on were deleted before they were read; "
        "it goes on at 8 (auto.offset.reset=earliest)"
    )
    assert shorter == (
        "connect-out: t-2 ends at offset 3, before the committed offset 7: the topic was made anew, or has lost its "
        "end; it goes on at 0 (auto.offset.reset=earliest)"
    )
    caplog.clear()
    latest = begins(job(auto_offset_reset="latest"), PLACES)
    assert latest == {KEPT: 5, DELETED: END, SHORTER: END, FRESH: END}
    assert "it goes on at 20 (auto.offset.reset=latest)" in caplog.text


def test_without_a_policy_nothing_is_skipped() -> None:
    with pytest.raises(
        OffsetsGone, match=r"t-1 begins at offset 8 now.*; t-2 ends.*; there is no committed offset of t-3"
    ):
        begins(job(auto_offset_reset="none"), PLACES)
    assert begins(job(auto_offset_reset="none"), {KEPT: PLACES[KEPT]}) == {KEPT: 5}
    with pytest.raises(ValueError, match=r"by_duration:PT1H is not known here: earliest, latest or none"):
        begins(job(auto_offset_reset="by_duration:PT1H"), PLACES)


def test_what_the_worker_does_itself_is_nothing_to_the_reader() -> None:
    made = job(auto_offset_reset="latest", group_id="mine", enable_auto_commit="false", max_partition_fetch_bytes="5")
    assert made.kafka_options(made.consumer) == {"kafka.max.partition.fetch.bytes": "5"}
    assert made.sink_group == "mine"
