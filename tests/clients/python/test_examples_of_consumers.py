"""The books' patterns of reading and committing, with real kills where they promise to survive one."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Collection
from itertools import islice
from pathlib import Path

import pytest

from clients import batches_to_database, commit_modes, failed_records, feedback_form, hotel, long_tasks
from clients import offsets_in_database as offsets
from moldau import Producer
from moldau.clients.rebalancing import RebalanceListener
from moldau.clients.records import ConsumerRecord, TopicPartition
from moldau.testing.brokers import Kafka

IDLE = 3.0
BEGAN_MS = int(time.time() * 1000) - 60_000
EXAMPLES = Path(__file__).parents[3] / "examples"
KILLED_AT = """
import os, signal, sys
from clients import {example} as example

left = int(sys.argv[5])

def watch(step):
    global left
    left -= step == sys.argv[4]
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)

example.run(sys.argv[1], sys.argv[2], sys.argv[3], idle_seconds=30.0, watch=watch, **{more})
"""


def filled(kafka: Kafka, topic: str, count: int, partitions: int = 1) -> None:
    with kafka.producer(value_serializer="string") as producer:
        for number in range(count):
            producer.send(topic, str(number), partition=number % partitions, timestamp=BEGAN_MS + number)


def killed(program: str, *arguments: object) -> None:
    path = {**os.environ, "PYTHONPATH": str(EXAMPLES)}
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], env=path, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def committed(kafka: Kafka, group: str) -> dict[TopicPartition, int]:
    with kafka.admin() as admin:
        return {place: each.offset for place, each in admin.list_consumer_group_offsets(group).items()}


# -- databases ---------------------------------------------------------------------------------------------------


def test_each_record_is_once_in_the_database_wherever_the_program_is_killed(
    kafka: Kafka, wide_topic: str, tmp_path: Path
) -> None:
    """SEK-07."""
    filled(kafka, wide_topic, 60, partitions=3)
    path = str(tmp_path / "clicks.db")
    program = KILLED_AT.format(example="offsets_in_database", more={})
    for number, step in enumerate(offsets.STEPS):
        killed(program, kafka.bootstrap, wide_topic, path, step, 3 + number)
    offsets.run(kafka.bootstrap, wide_topic, path, idle_seconds=IDLE)
    rows = sqlite3.connect(path).execute("SELECT value FROM clicks").fetchall()
    assert sorted(int(value) for (value,) in rows) == list(range(60))


def test_a_batch_that_was_stored_and_not_committed_is_stored_again(kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """CMT-13."""
    least = batches_to_database.LEAST
    filled(kafka, topic, 3 * least)
    path = str(tmp_path / "clicks.db")
    program = KILLED_AT.format(example="batches_to_database", more={})
    repeated = 0
    for step in batches_to_database.STEPS:
        before = stored(path)
        killed(program, kafka.bootstrap, topic, path, step, 1)
        repeated += step == "stored"
        assert sum(stored(path).values()) - sum(before.values()) == (0 if step == "gathered" else least)
    batches_to_database.run(kafka.bootstrap, topic, path, idle_seconds=IDLE)
    found = stored(path)
    assert sorted(found) == list(range(3 * least))
    assert Counter(found.values()) == {1: 2 * least, 2: repeated * least}


def stored(path: str) -> Counter[int]:
    """How often each offset was stored."""
    database = sqlite3.connect(path)
    known = database.execute("SELECT name FROM sqlite_master WHERE name = 'clicks'").fetchone()
    rows = database.execute("SELECT number FROM clicks").fetchall() if known else []
    return Counter(number for (number,) in rows)


# -- commits and seeks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [commit_modes.synchronous, commit_modes.asynchronous, commit_modes.both])
def test_what_was_handled_is_committed_and_the_rest_comes_again(
    kafka: Kafka, topic: str, caplog: pytest.LogCaptureFixture, mode: Callable[..., None]
) -> None:
    """CMT-10, CO-32, CO-34, CO-35."""
    caplog.set_level(logging.INFO)
    filled(kafka, topic, 20)
    given = {**kafka.properties, "group.id": topic, "auto.offset.reset": "earliest", "max.poll.records": 5}
    seen: list[int] = []

    def handle(record: ConsumerRecord) -> None:
        if record.offset == 12 and 12 not in seen:
            seen.append(12)
            raise RuntimeError("it failed")
        seen.append(record.offset)

    with pytest.raises(RuntimeError):
        mode(given, topic, handle, IDLE)
    # Records of the batch in hand that were handled come again, but for the mode that commits each.
    again = committed(kafka, topic)[TopicPartition(topic, 0)]
    assert again <= 12
    mode(given, topic, handle, IDLE)
    assert sorted(set(seen)) == list(range(20))
    assert seen[13:] == list(range(again, 20))
    assert committed(kafka, topic) == {TopicPartition(topic, 0): 20}
    assert mode is commit_modes.synchronous or f"topic {topic}, partition 0, offset 20" in caplog.text


def test_an_automatic_commit_counts_what_was_asked_beyond(kafka: Kafka, topic: str) -> None:
    filled(kafka, topic, 20)
    given = {**kafka.properties, "group.id": topic, "auto.offset.reset": "earliest"}
    seen: list[int] = []

    def handle(record: ConsumerRecord) -> None:
        if record.offset == 12 and len(seen) == 12:
            seen.append(-1)
            raise RuntimeError("it failed")
        seen.append(record.offset)

    with pytest.raises(RuntimeError):
        commit_modes.automatic(given, topic, handle, IDLE)
    assert committed(kafka, topic) == {TopicPartition(topic, 0): 12}
    commit_modes.automatic(given, topic, handle, IDLE)
    assert seen == [*range(12), -1, *range(12, 20)]


def test_reading_begins_where_it_is_told(kafka: Kafka, topic: str) -> None:
    """CO-37, CO-38, CO-39, CO-40."""
    filled(kafka, topic, 20)
    place = TopicPartition(topic, 0)

    def first(begin: Callable[..., None]) -> int:
        return next(commit_modes.read_from(kafka.properties, place, begin, 20.0)).offset

    assert first(commit_modes.from_beginning) == 0
    assert first(commit_modes.from_offset(7)) == 7
    assert first(commit_modes.from_time(BEGAN_MS + 11)) == 11
    assert list(commit_modes.read_from(kafka.properties, place, commit_modes.from_end, 1.0)) == []
    assert list(commit_modes.read_from(kafka.properties, place, commit_modes.from_time(BEGAN_MS + 30), 1.0)) == []


# -- long tasks --------------------------------------------------------------------------------------------------


class Losses(RebalanceListener):
    def __init__(self) -> None:
        self.count = 0

    def on_partitions_revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.count += 1

    on_partitions_lost = on_partitions_revoked


def test_a_task_may_take_longer_than_members_may_be_silent(kafka: Kafka, topic: str) -> None:
    """THR-07."""
    filled(kafka, topic, 2)
    given = {**kafka.properties, "group.id": topic, "auto.offset.reset": "earliest", "session.timeout.ms": 6000}
    given |= {"max.poll.interval.ms": 6000, "heartbeat.interval.ms": 1000}
    seen: list[int] = []
    losses: list[int] = []
    listener = Losses()

    def task(record: ConsumerRecord) -> None:
        until = time.monotonic() + 8.0
        while record.offset == 0 and time.monotonic() < until:
            threading.Event().wait(0.1)
        seen.append(record.offset)
        losses.append(listener.count)
        if record.offset == 1 and seen.count(1) == 1:
            raise RuntimeError("it failed")

    with pytest.raises(RuntimeError):
        long_tasks.run(given, topic, task, listener=listener)
    assert (seen, losses) == ([0, 1], [0, 0])
    assert committed(kafka, topic) == {TopicPartition(topic, 0): 1}
    long_tasks.run(given, topic, task, most=1)
    assert seen == [0, 1, 1]
    assert committed(kafka, topic) == {TopicPartition(topic, 0): 2}


# -- producers, forms and topics ---------------------------------------------------------------------------------


def test_what_cannot_be_sent_stands_in_a_file_with_the_reason(kafka: Kafka, tmp_path: Path) -> None:
    """PER-04."""
    topic = kafka.topic(max_message_bytes=1000)
    errors = tmp_path / "failed.jsonl"
    alone: dict[str, object] = {**kafka.properties, "batch.num.messages": 1}  # a batch is refused whole
    values = ["tea", "x" * 5000, "coffee", "y" * 3_000_000, "milk"]
    assert failed_records.send(alone, topic, values, errors) == 3
    assert kafka.values(topic, 3) == [b"tea", b"coffee", b"milk"]
    told = errors.read_text().splitlines()
    assert len(told) == 2 and all('"code": "MSG_SIZE_TOO_LARGE"' in line for line in told)


def test_feedback_is_read_by_support_and_by_whoever_looks_for_trends(kafka: Kafka, topic: str) -> None:
    """PR-24, CO-16, CCF-03."""
    texts = [("rooms", "too small"), ("tea", "too cold"), ("tea", "too weak")]
    with Producer(kafka.properties, value_serializer="json") as producer:
        server = feedback_form.serve(producer, 0, topic)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            for subject, text in texts:
                body = urllib.parse.urlencode({"subject": subject, "text": text}).encode()
                with urllib.request.urlopen(address, body) as answer:
                    assert answer.read() == b"Thank you!"
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
    assert feedback_form.to_answer(kafka.bootstrap, topic, f"{topic}-support", IDLE) == [text for _, text in texts]
    assert feedback_form.to_answer(kafka.bootstrap, topic, f"{topic}-support", 1.0) == []
    assert feedback_form.trends(kafka.bootstrap, topic, f"{topic}-trends", IDLE) == {"tea": 2, "rooms": 1}


def test_billing_reads_the_bookings_of_each_guest_in_order_and_no_search(kafka: Kafka) -> None:
    """PER-05, PER-08."""
    searches, bookings = kafka.topic(partitions=3), kafka.topic(partitions=3)
    events: list[hotel.Event] = []
    for number in range(5000):
        events.append(hotel.Event("searched", f"guest-{number}", number % 100))
        if number % 250 == 0:
            events += [hotel.Event(kind, f"guest-{number}", number % 100) for kind in ("booked", "paid")]
    hotel.send(kafka.bootstrap, events, searches, bookings)
    found = list(islice(hotel.billed(kafka.bootstrap, bookings, 20.0, bookings), 40))
    assert len(found) < len(events) / 100
    of_guests: dict[str, list[str]] = {}
    for event in found:
        of_guests.setdefault(event.customer, []).append(event.kind)
    assert len(of_guests) == 20
    assert all(kinds == ["booked", "paid"] for kinds in of_guests.values())
