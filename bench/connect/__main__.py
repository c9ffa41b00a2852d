"""How fast Connect brings data in: a file beside Kafka Connect's own file source, and tables of PostgreSQL.

    python -m bench.connect [--quick] [--only file table changing captured]

`file`: the same file through Moldau's worker and through Apache Kafka's, in turn, into one Moldau broker. `table`: a
table read in batches by its ids; `changing`: the same by time and id while another session changes and adds rows, and
at the end the last record of every id is compared with its row; `captured`: the same by change data capture. The clock
runs from the first record that can be read (committed ones alone) to the last, so that starts do not count; the start
has a column of its own.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, IsolationLevel, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from rich.console import Console
from rich.table import Table

from bench.measure import cpu_seconds, resident_mb
from bench.peers import Peer, Topics
from tests.connect.test_peer import Peer as KafkaConnect
from tests.support.connect import JSON, STRING, WorkerProcess, worker_properties
from tests.support.postgres import Postgres

CASES: Final = ("file", "table", "changing", "captured")
WORKERS: Final = ("moldau", "kafka-connect")
LINE_BYTES: Final = 100
GIVE_UP_SECONDS: Final = 900.0
JDBC_GOAL: Final = 100_000
FILE_GOAL: Final = 1.0
CHANGES_PER_SECOND: Final = 200
TABLE: Final = (
    "CREATE TABLE {name} (id BIGINT PRIMARY KEY, name TEXT, amount DOUBLE PRECISION, changed TIMESTAMP NOT NULL)"
)
FILLED: Final = (
    "INSERT INTO {name} SELECT n, 'a name of row ' || n, n * 0.5, timestamp '2024-01-01' + n * interval '1 ms' "
    "FROM generate_series(1, {rows}) n"
)
SETTINGS: Final = {"value.converter.schemas.enable": "false", "connector.poll.interval.ms": "100"}


@dataclass(frozen=True, slots=True)
class Copied:
    records: int
    records_per_second: float
    cpu_per_million: float
    """CPU seconds of the worker alone for a million records."""
    resident_mb: float
    first_record_seconds: float


class Seen:
    """How many records of a topic's only partition can be read: up to the last commit, with its markers."""

    def __init__(self, address: str, topic: str) -> None:
        self._admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
        self._asked = {TopicPartition(topic, 0): OffsetSpec.latest()}

    def __call__(self) -> int:
        (future,) = self._admin.list_offsets(self._asked, isolation_level=IsolationLevel.READ_COMMITTED).values()
        return int(future.result(60).offset)


def measure(what: str, seen: Callable[[], int], count: int, pid: Callable[[], int], began: float) -> Copied:
    def wait_for(least: int) -> int:
        while (now := seen()) < least:
            if time.monotonic() - began > GIVE_UP_SECONDS:
                raise SystemExit(f"{what} has brought {now} of {count} records in {GIVE_UP_SECONDS:.0f} s")
            time.sleep(0.01)
        return now

    first = wait_for(1)
    first_at, cpu = time.monotonic(), cpu_seconds(pid())
    wait_for(count)
    seconds, used = time.monotonic() - first_at, cpu_seconds(pid()) - cpu
    done = count - first
    if done <= 0:
        raise SystemExit(f"{what} brought all {count} records at once: take more")
    return Copied(count, done / seconds, used / done * 1e6, resident_mb(pid()), first_at - began)


def write_properties(path: Path, properties: dict[str, str]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return path.name


@contextmanager
def our_worker(folder: Path, broker: str, connector: dict[str, str]) -> Iterator[WorkerProcess]:
    folder.mkdir(parents=True)
    files = [
        write_properties(folder / "worker.properties", {**worker_properties(folder, broker), **SETTINGS}),
        write_properties(folder / "connector.properties", connector),
    ]
    worker = WorkerProcess(folder, ["connect", "standalone", *files])
    worker.start()
    try:
        yield worker
    finally:
        worker.stop()


# -- a file ----------------------------------------------------------------------------------------------------------


def file_case(folder: Path, broker: str, lines: int, worker: str) -> Copied:
    source = folder / "lines.txt"
    if not source.exists():
        with source.open("w") as out:
            out.writelines(f"{number:010} ".ljust(LINE_BYTES - 1, "x") + "\n" for number in range(lines))
    topic = f"file-{worker}"
    connector = {"name": topic, "connector.class": "FileStreamSource", "file": str(source), "topic": topic}
    seen = Seen(broker, topic)
    began = time.monotonic()
    if worker == "moldau":
        with our_worker(folder / worker, broker, connector) as ours:
            return measure(worker, seen, lines, lambda: running(ours), began)
    (folder / worker).mkdir()
    peer = KafkaConnect(folder / worker, broker)
    peer.start()
    try:
        status, answer = peer.ask("PUT", f"/connectors/{topic}/config", connector)
        if status not in (200, 201):
            raise SystemExit(f"Kafka Connect refuses the connector: {answer}")
        return measure(worker, seen, lines, lambda: peer.pid, began)
    finally:
        peer.stop()


def running(worker: WorkerProcess) -> int:
    assert worker.process is not None
    if worker.process.poll() is not None:
        raise SystemExit((worker.directory / "stderr").read_text()[-3000:])
    return worker.process.pid


# -- tables ----------------------------------------------------------------------------------------------------------


class Changer(threading.Thread):
    """Another session: each round changes some rows and adds one, in a transaction."""

    def __init__(self, url: str, table: str, rows: int) -> None:
        super().__init__(daemon=True)
        self._url, self._table, self._rows = url, table, rows
        self._ended = threading.Event()
        self.problem: Exception | None = None
        self.changes = 0
        self.added = 0

    def run(self) -> None:
        import psycopg

        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                while not self._ended.wait(1 / CHANGES_PER_SECOND):
                    number = self.changes * 7919 % self._rows + 1
                    connection.execute(
                        f"UPDATE {self._table} SET name = %s, changed = clock_timestamp() WHERE id = %s",
                        (f"change {self.changes}", number),
                    )
                    self.changes += 1
                    if self.changes % 10 == 0:
                        self.added += 1
                        connection.execute(
                            f"INSERT INTO {self._table} VALUES (%s, 'added', 0, clock_timestamp())",
                            (self._rows + self.added,),
                        )
        except psycopg.Error as error:
            self.problem = error

    def end(self) -> None:
        self._ended.set()
        self.join(60)
        if self.problem is not None:
            raise SystemExit(f"the session that changes rows ended: {self.problem}")


@contextmanager
def postgres(folder: Path) -> Iterator[str]:
    """With logical replication; without fsync, so the figures are those of the worker and not of the disk."""
    server = Postgres(folder)
    server.start()
    try:
        yield f"postgresql://postgres@/postgres?host={server.host}"
    finally:
        server.close()


def table_case(folder: Path, broker: str, url: str, rows: int, case: str) -> tuple[Copied, str]:
    import psycopg

    changing, name = case != "table", {"table": "steady"}.get(case, case)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(TABLE.format(name=name))
        connection.execute(FILLED.format(name=name, rows=rows))
        connection.execute(f"CREATE INDEX ON {name} (changed, id)")
    connector = {
        "name": name,
        "connector.class": "io.confluent.connect.jdbc.JdbcSourceConnector",
        "connection.url": url.replace("postgresql://", "postgresql+psycopg://"),
        "table.whitelist": name,
        "topic.prefix": "table-",
        "mode": "timestamp+incrementing" if changing else "incrementing",
        "incrementing.column.name": "id",
        "value.converter": JSON,
        "key.converter": STRING,
    }
    if case == "changing":
        connector |= {"timestamp.column.name": "changed", "timestamp.delay.interval.ms": "1000"}
    topic = f"table-{name}"
    if case == "captured":
        connector, topic = captured(name, url), f"table.public.{name}"
    changer = Changer(url, name, rows)
    seen, began = Seen(broker, topic), time.monotonic()
    with our_worker(folder / name, broker, connector) as worker:
        if changing:
            changer.start()
        found = measure(name, seen, rows, lambda: running(worker), began)
        if not changing:
            return found, ""
        changer.end()
        with psycopg.connect(url) as connection:
            wanted = {int(number): text for number, text in connection.execute(f"SELECT id, name FROM {name}")}
        last = last_of_each(broker, topic, wanted)
    told = f"{changer.changes:,} changes and {changer.added:,} new rows meanwhile; "
    wrong = sum(last.get(number) != text for number, text in wanted.items())
    return found, told + (f"{wrong:,} rows differ!" if wrong else "every row's last record is the row")


def captured(name: str, url: str) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": url.partition("host=")[2],
        "database.user": "postgres",
        "database.dbname": "postgres",
        "slot.name": name,
        "topic.prefix": "table",
        "table.include.list": f"public.{name}",
        "publication.autocreate.mode": "filtered",
        "snapshot.batch.rows": "100000",
        "value.converter": JSON,
        "key.converter": JSON,
        "key.converter.schemas.enable": "false",
    }


def last_of_each(broker: str, topic: str, wanted: dict[int, str]) -> dict[int, str]:
    """Read until every row is there as it is, or nothing comes any more."""
    consumer = Consumer(
        {"bootstrap.servers": broker, "group.id": "bench", "enable.partition.eof": True, "log_level": 0}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    last: dict[int, str] = {}
    quiet_since = time.monotonic()
    while time.monotonic() - quiet_since < 30:
        for message in consumer.consume(10_000, 0.5):
            error = message.error()
            if error is not None:
                if error.code() == KafkaError._PARTITION_EOF and last == wanted:
                    consumer.close()
                    return last
                continue
            row: dict[str, Any] = json.loads(message.value() or b"{}")
            row = row.get("after", row)
            last[int(row["id"])] = str(row["name"])
            quiet_since = time.monotonic()
    consumer.close()
    return last


# -- the run ---------------------------------------------------------------------------------------------------------


def row_of(case: str, worker: str, found: Copied, compared: str, goal: str, met: bool | None) -> list[str]:
    verdict = "" if met is None else "met" if met else "missed"
    return [
        case, worker, f"{found.records:,}", f"{found.records_per_second:,.0f}", f"{found.cpu_per_million:.2f}",
        f"{found.resident_mb:,.0f}", f"{found.first_record_seconds:.2f}", compared, goal, verdict,
    ]  # fmt: skip


def rows_of(cases: Sequence[str], folder: Path, broker: str, lines: int, rows: int) -> Iterator[list[str]]:
    if "file" in cases:
        files = {worker: file_case(folder, broker, lines, worker) for worker in WORKERS}
        ratio = files["moldau"].records_per_second / files["kafka-connect"].records_per_second
        yield row_of("file", "moldau", files["moldau"], f"{ratio:.2f}", f">= {FILE_GOAL}", ratio >= FILE_GOAL)
        yield row_of("file", "kafka-connect", files["kafka-connect"], "1.00", "", None)
    chosen = [case for case in cases if case != "file"]
    if not chosen:
        return
    with postgres(folder / "postgres") as url:
        for case in chosen:
            found, told = table_case(folder, broker, url, rows, case)
            goal = 0 if case == "captured" else JDBC_GOAL
            met = found.records_per_second >= goal and "differ" not in told
            yield row_of(case, "moldau", found, told, f">= {goal:,}/s" if goal else "no row differs", met)


def main(given: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.connect", description=__doc__)
    parser.add_argument("--lines", type=int, default=5_000_000, help=f"of the file, of {LINE_BYTES} bytes")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the tables")
    parser.add_argument("--quick", action="store_true", help="a tenth of both")
    parser.add_argument("--only", nargs="+", choices=CASES, default=list(CASES))
    options = parser.parse_args(given)
    share = 10 if options.quick else 1
    titles = (
        "case",
        "worker",
        "records",
        "records/s",
        "CPU s/million",
        "resident MB",
        "first record s",
        "ratio",
        "goal",
        "",
    )
    table = Table(*titles)
    with tempfile.TemporaryDirectory() as name, Peer.MOLDAU.broker(Path(name) / "broker") as broker:
        topics = Topics(broker)
        for topic in ("file-moldau", "file-kafka-connect", "table-steady", "table-changing", "table.public.captured"):
            topics.create(topic, 1)
        for row in rows_of(options.only, Path(name), broker.address, options.lines // share, options.rows // share):
            table.add_row(*row)
    Console(width=150).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
