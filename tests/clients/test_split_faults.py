"""A Spark task whose data, leader or broker goes away: exact rows, or an error that names the cause."""

from __future__ import annotations

import threading
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient

from moldau.spark.errors import ClusterUnavailable, DataLoss, SourceError
from moldau.spark.fetching.read_settings import ReadSettings
from moldau.spark.split import Split
from tests.clients.conftest import StartBroker
from tests.support.admin import admin_client, create_topic, delete_records, delete_topic
from tests.support.process import free_port
from tests.support.segments import partition_folder, segment_files
from tests.support.split_reading import (
    LANES,
    PATHS,
    SECONDS,
    WIRE,
    batches_through,
    rows_of,
    split_of,
    task_rows,
)
from tests.support.waiting import wait_until

COUNT = 400
every_path = pytest.mark.parametrize("path", PATHS)
SMALL = ReadSettings(
    timeout_seconds=4 * SECONDS, fetch_bytes=2000, batch_bytes=4000, budget_bytes=10_000, far_budget_bytes=10_000
)


def fill(address: str, topic: str, count: int = COUNT) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": address, "log_level": 0, "batch.num.messages": 10})
    for index in range(count):
        producer.produce(topic, b"value %d" % index + b"." * 100, partition=0)
    assert producer.flush(SECONDS) == 0


def offsets(address: str, split: Split, path: str = WIRE, **changes: Any) -> list[int]:
    return [row[0] for row in task_rows(address, split, ["offset"], SMALL, path, **changes)]


@every_path
def test_expired_records_are_data_loss(address: str, admin: AdminClient, topic: str, path: str) -> None:
    create_topic(admin, topic)
    fill(address, topic)
    delete_records(admin, topic, before=100)
    split = split_of(address, topic, 50, 150)
    with pytest.raises(DataLoss, match=r"offsets 50 to 99 are gone, the log begins at 100.*failOnDataLoss"):
        offsets(address, split, path)
    assert offsets(address, split, path, fail_on_data_loss=False) == list(range(100, 150))
    whole = split_of(address, topic, 10, 60)
    with pytest.raises(DataLoss, match="offsets 10 to 59 are gone"):
        offsets(address, whole, path)
    assert offsets(address, whole, path, fail_on_data_loss=False) == []


@every_path
@pytest.mark.parametrize("fails", [True, False])
def test_records_that_expire_while_they_are_read(
    address: str, admin: AdminClient, topic: str, fails: bool, path: str
) -> None:
    create_topic(admin, topic)
    fill(address, topic)
    settings = ReadSettings(
        fail_on_data_loss=fails, fetch_bytes=2000, batch_bytes=2000, budget_bytes=1, far_budget_bytes=8
    )
    batches = batches_through(path, address, split_of(address, topic, 0, COUNT), settings, ["offset"])
    found = [row[0] for row in rows_of(next(batches))]
    delete_records(admin, topic, before=390)
    if fails:
        with pytest.raises(DataLoss, match="are gone, the log begins at 390"):
            list(batches)
        return
    found += [row[0] for batch in batches for row in rows_of(batch)]
    before = [offset for offset in found if offset < 390]
    assert before == list(range(len(before))) and len(before) < 390
    assert found[len(before) :] == list(range(390, COUNT))


@every_path
def test_a_log_that_ends_before_the_split(address: str, admin: AdminClient, topic: str, path: str) -> None:
    create_topic(admin, topic)
    fill(address, topic, 20)
    beyond = split_of(address, topic, 30, 40)
    with pytest.raises(DataLoss, match="offset 30 is wanted, but the log ends at 20"):
        offsets(address, beyond, path)
    assert offsets(address, beyond, path, fail_on_data_loss=False) == []
    across = split_of(address, topic, 10, 40)
    with pytest.raises(DataLoss, match="the log ends at 20, before the wanted end 40"):
        offsets(address, across, path, timeout_seconds=0.5, max_wait_ms=20)
    short = {"timeout_seconds": 0.5, "max_wait_ms": 20}
    assert offsets(address, across, path, fail_on_data_loss=False, **short) == list(range(10, 20))


@every_path
def test_another_topic_of_the_same_name(address: str, admin: AdminClient, topic: str, path: str) -> None:
    create_topic(admin, topic)
    fill(address, topic, 20)
    planned = split_of(address, topic, 0, 20)
    delete_topic(admin, topic)
    create_topic(admin, topic)
    fill(address, topic, 20)
    with pytest.raises(DataLoss, match="deleted and created again"):
        offsets(address, planned, path)
    assert offsets(address, planned, path, fail_on_data_loss=False) == [], "rows of another topic are not these rows"
    assert offsets(address, split_of(address, topic, 0, 20), path) == list(range(20))


@every_path
def test_a_topic_that_is_gone(address: str, admin: AdminClient, topic: str, path: str) -> None:
    create_topic(admin, topic)
    fill(address, topic, 20)
    planned = split_of(address, topic, 0, 20)
    delete_topic(admin, topic)
    with pytest.raises(DataLoss, match="the topic does not exist any more, offset 0 was to be read"):
        offsets(address, planned, path, missing_seconds=0.3)
    assert offsets(address, planned, path, missing_seconds=0.3, fail_on_data_loss=False) == []


@every_path
def test_a_broker_that_is_killed_and_comes_back(own_broker: StartBroker, path: str) -> None:
    broker = own_broker()
    create_topic(admin_client(broker.address), "events")
    fill(broker.address, "events")
    split = split_of(broker.address, "events", 3, COUNT - 3)
    batches = batches_through(path, broker.address, split, SMALL, ["offset"])
    found = [row[0] for row in rows_of(next(batches))]
    broker.kill()
    # The reader waits in a thread: a broker started from one would die with it.
    reading = threading.Thread(target=lambda: found.extend(row[0] for batch in batches for row in rows_of(batch)))
    reading.start()
    broker.start()
    reading.join()
    assert found == list(range(3, COUNT - 3))


@every_path
def test_no_broker_at_all(path: str) -> None:
    port = free_port()
    split = Split("absent", None, 0, 7, 9)
    with pytest.raises(ClusterUnavailable, match=rf"absent-0 at offset 7: .*127\.0\.0\.1:{port}.*api\.timeout"):
        task_rows(f"127.0.0.1:{port}", split, path=path, patience_seconds=0.3)


@every_path
def test_damage_on_disk_is_found_by_the_checksum(own_broker: StartBroker, path: str) -> None:
    broker = own_broker()
    create_topic(admin_client(broker.address), "damaged")
    fill(broker.address, "damaged", 1)
    (segment,) = segment_files(partition_folder(broker.data, "damaged"))
    data = bytearray(segment.read_bytes())
    data[data.index(b"value 0")] = ord("V")
    segment.write_bytes(data)
    split = split_of(broker.address, "damaged", 0, 1)
    with pytest.raises(SourceError, match=r"damaged-0.*CRC"):
        task_rows(broker.address, split, path=path)
    ((value,),) = task_rows(broker.address, split, ["value"], path=path, check_crcs=False)
    assert value.startswith(b"Value 0")


@pytest.mark.parametrize(("path", "threads"), [(WIRE, 1), (LANES, 3)])
def test_a_reader_that_stops_early_leaves_no_thread(
    address: str, admin: AdminClient, topic: str, path: str, threads: int
) -> None:
    create_topic(admin, topic)
    fill(address, topic)
    batches: Any = batches_through(path, address, split_of(address, topic, 0, COUNT), SMALL, ["value"])
    next(batches)
    wait_until(lambda: len(fetch_threads()) == threads, "answers are fetched ahead")
    batches.close()
    wait_until(lambda: not fetch_threads(), "the threads that fetch ahead have ended")
    assert len(offsets(address, split_of(address, topic, 0, COUNT))) == COUNT


def fetch_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "moldau-fetch"]
