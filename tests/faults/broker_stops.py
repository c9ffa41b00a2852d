"""Stops the broker under a running exactly-once query, for less than the query's patience each time.

The query runs with `local[2]`, where the first task that fails fails the query, and every task in a Python worker of
its own, so that each of them meets the broker for the first time. Events keep coming while the broker is away. The
query must live through all of it, started once, and its output, read committed, must hold each id once and nothing
else.

    python -m tests.faults.broker_stops --stops 5 [--least 20] [--most 30] [--seed N] [--keep DIRECTORY]
"""

from __future__ import annotations

import argparse
import os
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import confluent_kafka

from tests.faults.spark_chaos import PARTITIONS, SETTLE_SECONDS, SOURCE, TARGET, Job
from tests.peers.choice import new_broker
from tests.support.admin import admin_client, create_topic
from tests.support.process import BrokerProcess, free_port
from tests.support.sink import read_committed
from tests.support.waiting import wait_until

FRESH_WORKERS = "--conf spark.python.worker.reuse=false pyspark-shell"
EVENTS_PER_SECOND = 50


class Feed:
    """Events that come whether or not there is a broker to take them."""

    def __init__(self, address: str) -> None:
        self.events = 0
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": address, "enable.idempotence": True, "log_level": 0, "linger.ms": 100}
        )
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.wait(1 / EVENTS_PER_SECOND):
            text = f"{self.events}".encode()
            self._producer.produce(SOURCE, text, key=text)
            self._producer.poll(0)
            self.events += 1

    def stop(self) -> None:
        self._over.set()
        self._thread.join()
        assert self._producer.flush(SETTLE_SECONDS) == 0


class Query:
    """The job, which nobody starts again."""

    def __init__(self, broker: BrokerProcess, folder: Path) -> None:
        self._broker = broker
        self._job = Job(["local[2]", broker.address, SOURCE, TARGET, str(folder / "checkpoint")], folder / "job.log")
        os.environ["PYSPARK_SUBMIT_ARGS"] = FRESH_WORKERS
        try:
            self._job.ensure()
        finally:
            del os.environ["PYSPARK_SUBMIT_ARGS"]

    def check(self) -> None:
        assert self._job.is_running, f"the query has failed\n{self._job.output()}"

    def await_results(self, least: int) -> Counter[str]:
        def there() -> bool:
            self.check()
            return read_committed(self._broker.address, TARGET).total() >= least

        wait_until(there, f"{least} results\n{self._job.output()}", SETTLE_SECONDS, pause=0.5)
        return read_committed(self._broker.address, TARGET)

    def kill(self) -> None:
        self._job.kill()


def run(stops: int, away: tuple[float, float], seed: int, folder: Path, say: Callable[[str], None]) -> str:
    chosen = random.Random(seed)
    broker = new_broker(folder / "broker", {}, free_port())
    broker.start()
    for topic in (SOURCE, TARGET):
        create_topic(admin_client(broker.address), topic, PARTITIONS)
    feed = Feed(broker.address)
    query = Query(broker, folder)
    try:
        query.await_results(1)
        for number in range(stops):
            threading.Event().wait(chosen.uniform(0, 5))
            how = chosen.choice((broker.stop, broker.kill))
            how()
            seconds = chosen.uniform(*away)
            threading.Event().wait(seconds)
            query.check()
            before = feed.events
            broker.start()
            query.await_results(before)
            say(f"{number + 1}: away for {seconds:.1f} s ({how.__name__}), and {before} results are there")
        feed.stop()
        found = query.await_results(feed.events)
        expected = Counter(f"seen-{number}" for number in range(feed.events))
        assert found == expected, f"missing: {list(expected - found)[:5]}, surplus: {list(found - expected)[:5]}"
        return f"{stops} stops, one start of the query, {found.total()} results, each exactly once"
    finally:
        feed.stop()
        query.kill()
        broker.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--stops", type=int, default=5)
    parser.add_argument("--least", type=float, default=20.0, help="seconds")
    parser.add_argument("--most", type=float, default=30.0, help="seconds")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 32))
    parser.add_argument("--keep", type=Path, help="a folder for logs that stays")
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)

    def say(line: str) -> None:
        print(line, flush=True)

    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(run(options.stops, (options.least, options.most), options.seed, folder, say))


if __name__ == "__main__":
    main()
