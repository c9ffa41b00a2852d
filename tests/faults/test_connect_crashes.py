"""A worker with many connectors at once, while it, its Spark tasks, the broker and the database are killed at random.

At the end every target equals its source, each change once and in order. `test_connect_sinks` does the same with the
sinks to MongoDB and to a bulk API.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import sqlite3
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar, Final

import deltalake
import psutil
import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from pyiceberg.catalog import load_catalog

from moldau.clients.admin import Admin
from moldau.connect.connectors.archive_source import ArchiveSource
from moldau.connect.interface import SourceRecord
from tests.cli.books import FILES_THROUGH_CONNECT
from tests.support.broker import Broker
from tests.support.bulk_server import BulkServer, Fault, busy
from tests.support.connect import JSON, SECONDS, STRING, WorkerProcess, worker_properties
from tests.support.postgres import Database, Postgres
from tests.support.process import BrokerProcess
from tests.support.spark_cluster import StandaloneCluster, command_of
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("connect-sinks")

BYTES: Final = "org.apache.kafka.connect.converters.ByteArrayConverter"
LONGER: Final = 4 * SECONDS
PYTHON_WORKER: Final = ("pyspark.daemon", "moldau.spark.daemon")
SETTLED: Final = 60
PLAIN_JSON: Final = {"value.converter": JSON, "value.converter.schemas.enable": "false"}


def read_whole(broker: str, topic: str) -> list[Message]:
    """What is committed now."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "crash-reader",
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    found: list[Message] = []
    ended: set[int] = set()
    known = consumer.list_topics(topic, 60).topics[topic].partitions
    consumer.subscribe([topic])

    def look() -> bool:
        for message in consumer.consume(1000, 0.2):
            error = message.error()
            if error is None:
                found.append(message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add(message.partition() or 0)
        return len(ended) == len(known)

    try:
        wait_until(look, f"the end of {topic}", SECONDS, 0)
    finally:
        consumer.close()
    return found


class World(ABC):
    """What a worker's connectors read and write."""

    KINDS: tuple[str, ...] = ("worker", "task", "broker")
    TOPICS: ClassVar[dict[str, int]]
    spark = "local[4]"

    def __init__(self, folder: Path, broker: BrokerProcess, chance: random.Random) -> None:
        self.folder = folder
        self.broker = broker
        self.chance = chance
        self.rounds = 0

    @abstractmethod
    def connectors(self) -> list[dict[str, str]]: ...

    @abstractmethod
    def write(self) -> None:
        """More into every source."""

    @abstractmethod
    def signs(self) -> list[Callable[[], int]]:
        """Numbers that grow as the connectors get on."""

    @abstractmethod
    def differences(self) -> list[str]:
        """Between sources and targets."""

    def other_fails(self) -> None:
        raise NotImplementedError

    def worker(self, contents: list[dict[str, str]]) -> WorkerProcess:
        """`contents` of its properties files."""
        files = [properties_file(self.folder, each.get("name", "worker"), each) for each in contents]
        return WorkerProcess(self.folder, ["connect", "standalone", *files])


class Lines(World):
    """A file through a topic into another, by tasks on a Spark cluster."""

    KINDS = ("worker", "other", "broker")
    TOPICS: ClassVar = {"lines": 1}
    LINES = 2000

    def __init__(self, folder: Path, broker: BrokerProcess, chance: random.Random, cluster: StandaloneCluster) -> None:
        super().__init__(folder, broker, chance)
        self.cluster = cluster
        self.spark = cluster.address
        self.source, self.sink = folder / "test.txt", folder / "test.sink.txt"
        self.source.touch()

    def connectors(self) -> list[dict[str, str]]:
        return [
            {"name": "in", "connector.class": "FileStreamSource", "file": str(self.source), "topic": "lines",
             "batch.bytes": "5000"},
            {"name": "out", "connector.class": "FileStreamSink", "file": str(self.sink), "topics": "lines"},
        ]  # fmt: skip

    def worker(self, contents: list[dict[str, str]]) -> WorkerProcess:
        """Started as it is printed."""
        for name, content in zip(FILES_THROUGH_CONNECT.split()[1:], contents, strict=True):
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            properties_file(self.folder, name.removesuffix(".properties"), content)
        return WorkerProcess.printed(self.folder, FILES_THROUGH_CONNECT)

    def write(self) -> None:
        with self.source.open("a") as file:
            file.writelines(f"line {self.rounds}/{each:05}\n" for each in range(self.LINES))

    def signs(self) -> list[Callable[[], int]]:
        return [lambda: self.sink.stat().st_size if self.sink.exists() else 0]

    def other_fails(self) -> None:
        """An executor, with its Python workers."""
        victims = wait_until(self.cluster.executors, "an executor", SECONDS)
        with contextlib.suppress(psutil.NoSuchProcess):
            self.chance.choice(victims).kill()

    def differences(self) -> list[str]:
        wanted = self.source.read_text()
        found = [] if self.sink.exists() and self.sink.read_text() == wanted else ["the file's copy"]
        if [value_of(each) for each in read_whole(self.broker.address, "lines")] != wanted.splitlines():
            found.append("the topic's lines")
        return found


class FilesAndTables(World):
    """Files through topics, tables through topics into other databases and back, every change of a table."""

    KINDS = (*World.KINDS, "other")
    TOPICS: ClassVar = {"lines": 1, "app-logs": 1, "db-items": 1, "db-stamps": 1}
    LINES = 1500

    def __init__(self, folder: Path, broker: BrokerProcess, chance: random.Random, database: Database) -> None:
        super().__init__(folder, broker, chance)
        self.database = database
        self.source, self.sink = folder / "test.txt", folder / "test.sink.txt"
        self.source.touch()
        self.spool = folder / "spool"
        self.spool.mkdir()
        self.spooled: list[str] = []
        self.versions: dict[int, int] = {}
        self.next_order = 0
        database.run(
            "CREATE TABLE items (id SERIAL PRIMARY KEY, name TEXT NOT NULL)",
            "CREATE TABLE orders (id INT PRIMARY KEY, version INT NOT NULL)",
            "CREATE TABLE idle (id INT PRIMARY KEY)",
            "CREATE TABLE stamps (id SERIAL PRIMARY KEY, version INT NOT NULL, changed TIMESTAMP NOT NULL)",
        )

    def connectors(self) -> list[dict[str, str]]:
        url = f"postgresql+psycopg://postgres@/{self.database.name}?host={self.database.server.host}"
        return [
            {"name": "in", "connector.class": "FileStreamSource", "file": str(self.source), "topic": "lines",
             "batch.bytes": "5000"},
            {"name": "out", "connector.class": "FileStreamSink", "file": str(self.sink), "topics": "lines"},
            {"name": "spool", "connector.class": "SpoolDirectorySource", "spoolDir": str(self.spool),
             "topic": "app-logs", "batch.bytes": "5000"},
            {"name": "items", "connector.class": "JdbcSource", "connection.url": url, "table.whitelist": "items",
             "mode": "incrementing", "topic.prefix": "db-", "batch.max.rows": "100", "value.converter": JSON},
            {"name": "copy", "connector.class": "JdbcSink", "connection.url": f"jdbc:sqlite:{self.folder}/copy.db",
             "topics": "db-items", "table.name.format": "copies", "auto.create": "true", "value.converter": JSON},
            {"name": "stamps", "connector.class": "JdbcSource", "connection.url": url, "table.whitelist": "stamps",
             "mode": "timestamp", "timestamp.column.name": "changed", "topic.prefix": "db-", "value.converter": JSON},
            {"name": "mirror", "connector.class": "JdbcSink", "connection.url": url, "topics": "db-stamps",
             "table.name.format": "mirrored", "auto.create": "true", "insert.mode": "upsert",
             "pk.mode": "record_value", "pk.fields": "id", "value.converter": JSON},
            {"name": "changes", "connector.class": "PostgresConnector", **self.database.config(),
             "table.include.list": r"public\.(orders|idle)", "publication.autocreate.mode": "filtered",
             "snapshot.batch.rows": "50", **PLAIN_JSON, "key.converter": JSON, "key.converter.schemas.enable": "false"},
        ]  # fmt: skip

    def write(self) -> None:
        number = self.rounds
        with self.source.open("a") as file:
            file.writelines(f"line {number}/{each:05}\n" for each in range(self.LINES))
        lines = [f"log {number}/{each:05}" for each in range(self.LINES)]
        hidden = self.folder / f"app-{number:03}.log"
        hidden.write_text("".join(f"{line}\n" for line in lines))
        hidden.rename(self.spool / hidden.name)
        self.spooled += lines
        self.database.run(
            f"INSERT INTO items (name) SELECT 'item ' || n FROM generate_series(1, {self.LINES}) n",
            f"UPDATE stamps SET version = version + 1, changed = clock_timestamp() WHERE id % 3 = {number % 3}",
            "INSERT INTO stamps (version, changed) SELECT 0, clock_timestamp() FROM generate_series(1, 300)",
        )
        statements = []
        for _ in range(150):
            order = self.chance.choice([self.next_order, *self.versions] if self.versions else [self.next_order])
            if order == self.next_order:
                self.next_order += 1
                self.versions[order] = 0
                statements.append(f"INSERT INTO orders VALUES ({order}, 0)")
            elif self.chance.random() < 0.2:
                del self.versions[order]
                statements.append(f"DELETE FROM orders WHERE id = {order}")
            else:
                self.versions[order] += 1
                statements.append(f"UPDATE orders SET version = version + 1 WHERE id = {order}")
            if self.chance.random() < 0.5:
                self.next_order += 1
                self.versions[self.next_order - 1] = 0
                statements.append(f"INSERT INTO orders VALUES ({self.next_order - 1}, 0)")
        self.database.run(*statements)

    def signs(self) -> list[Callable[[], int]]:
        return [
            lambda: self.sink.stat().st_size if self.sink.exists() else 0,
            lambda: len(list(self.spool.glob("*.COMPLETED"))),
            self._copied,
        ]

    def _copied(self) -> int:
        path = self.folder / "copy.db"
        if not path.exists():
            return 0
        with closing(sqlite3.connect(path, timeout=60)) as copies, contextlib.suppress(sqlite3.OperationalError):
            return int(copies.execute("SELECT count(*) FROM copies").fetchone()[0])
        return 0

    def other_fails(self) -> None:
        self.database.server.crash()

    def differences(self) -> list[str]:
        found = []
        if not self.sink.exists() or self.sink.read_text() != self.source.read_text():
            found.append("the file's copy")
        if [value_of(each) for each in read_whole(self.broker.address, "app-logs")] != self.spooled:
            found.append("lines of the spooled files")
        wanted = [tuple(row) for row in self.database.run("SELECT id, name FROM items ORDER BY id")]
        with closing(sqlite3.connect(self.folder / "copy.db", timeout=60)) as copies:
            if copies.execute("SELECT id, name FROM copies ORDER BY id").fetchall() != wanted:
                found.append("rows of the table's copy")
        return [*found, *self._stamped(), *self._changes()]

    def _stamped(self) -> Iterator[str]:
        """What changed twice between two looks came once, but nothing comes a second time."""
        tables = [self.database.run(f"SELECT id, version FROM {name} ORDER BY id") for name in ("stamps", "mirrored")]
        if tables[0] != tables[1]:
            yield "rows of the mirrored table"
        payloads = [json.loads(each.value() or b"")["payload"] for each in read_whole(self.broker.address, "db-stamps")]
        seen = [(each["id"], each["version"]) for each in payloads]
        if len(set(seen)) < len(seen):
            yield f"{len(seen) - len(set(seen))} rows with a time came again"

    def _changes(self) -> Iterator[str]:
        """Of each row: versions without a gap or a repetition, up to what it is, or its end."""
        seen: dict[int, list[Any]] = {}
        for message in read_whole(self.broker.address, "shop.public.orders"):
            event = None if message.value() is None else json.loads(message.value() or b"")
            key = json.loads(message.key() or b"")["id"]
            row = (event or {}).get("after")
            seen.setdefault(key, []).append("tombstone" if event is None else row["version"] if row else "end")
        for key, events in seen.items():
            versions = [each for each in events if isinstance(each, int)]
            tail = [] if key in self.versions else ["end", "tombstone"]
            if events != [*versions, *tail] or (versions and versions != list(range(versions[0], versions[-1] + 1))):
                yield f"changes of {key}: {events}"
            elif key in self.versions and versions[-1] != self.versions[key]:
                yield f"{key} is {self.versions[key]}, its last change {versions[-1]}"
        if missing := set(self.versions) - set(seen):
            yield f"no change of {sorted(missing)}"


class Archives(World):
    """A topic to an archive and from there to another topic; to Delta, Iceberg and an HTTP API."""

    KINDS = (*World.KINDS, "other")
    TOPICS: ClassVar = {"orders": 2, "orders-restored": 2}
    RECORDS = 1500

    def __init__(self, folder: Path, broker: BrokerProcess, chance: random.Random, api: BulkServer) -> None:
        super().__init__(folder, broker, chance)
        self.api = api
        self.sent: dict[int, list[tuple[bytes, bytes | None, Any]]] = {0: [], 1: []}
        (folder / "lake").mkdir()
        self.iceberg = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/lake",
        }

    def connectors(self) -> list[dict[str, str]]:
        raw = {"key.converter": BYTES, "value.converter": BYTES}
        reading = {"topics": "orders", "key.converter": STRING, **PLAIN_JSON}
        catalog = {f"iceberg.catalog.{name}": value for name, value in self.iceberg.items()}
        return [
            {"name": "archive", "connector.class": "ArchiveSink", "topics": "orders", "tasks.max": "2",
             "url": str(self.folder / "archive"), "flush.size": "400", **raw},
            {"name": "reload", "connector.class": "ArchiveSource", "archive.topics": "orders",
             "url": str(self.folder / "archive"), **raw},
            {"name": "delta", "connector.class": "DeltaSink", "table.url": str(self.folder / "delta"), **reading},
            {"name": "iceberg", "connector.class": "IcebergSink", "iceberg.tables": "shop.orders",
             "iceberg.tables.auto-create-enabled": "true", **catalog, **reading},
            {"name": "http", "connector.class": "HttpSink", "request.method": "PUT", "retry.backoff.ms": "10",
             "http.api.url": f"{self.api.url}/orders/${{key}}", **reading},
        ]  # fmt: skip

    def write(self) -> None:
        producer = Producer({"bootstrap.servers": self.broker.address, "linger.ms": 5})
        for number in range(self.RECORDS):
            partition = self.chance.randrange(2)
            key = f"k{partition}-{self.chance.randrange(100)}".encode()
            value = json.dumps({"n": number, "round": self.rounds}).encode()
            headers: list[tuple[str, str | bytes | None]] = [("round", b"%d" % self.rounds)]
            producer.produce("orders", value, key, partition, headers=headers)
            self.sent[partition].append((key, value, headers))
        assert producer.flush(120) == 0

    def signs(self) -> list[Callable[[], int]]:
        return [
            lambda: len(self.api.requests),
            lambda: len(list((self.folder / "archive").rglob("*.parquet"))),
            lambda: len(list((self.folder / "delta").rglob("*.json"))),
            lambda: len(list((self.folder / "lake").rglob("*.metadata.json"))),
        ]

    def other_fails(self) -> None:
        self.api.faults += [self.chance.choice([busy(503), Fault(cut="before"), Fault(cut="after")]) for _ in range(9)]

    def differences(self) -> list[str]:
        found = []
        restored: dict[int, list[Any]] = {0: [], 1: []}
        for each in read_whole(self.broker.address, "orders-restored"):
            restored[each.partition() or 0].append((each.key(), each.value(), each.headers()))
        times = [{one.value(): one.timestamp() for one in read_whole(self.broker.address, at)} for at in self.TOPICS]
        if restored != self.sent or times[0] != times[1]:
            found.append("what came back from the archive")
        wanted = sorted(
            (partition, offset, json.loads(value or b"")["n"])
            for partition, sent in self.sent.items()
            for offset, (_, value, _) in enumerate(sent)
        )
        delta = deltalake.DeltaTable(str(self.folder / "delta")).to_pyarrow_table()
        iceberg = load_catalog("iceberg", **self.iceberg).load_table("shop.orders").scan().to_arrow()
        for name, table in (("delta", delta), ("iceberg", iceberg)):
            rows = sorted((row["kafka_partition"], row["kafka_offset"], row["n"]) for row in table.to_pylist())
            if rows != wanted:
                found.append(f"rows of {name}: {len(rows)} and not {len(wanted)}")
        last = {f"PUT /orders/{key.decode()}": value for sent in self.sent.values() for key, value, _ in sent}
        if {path: json.loads(body) for path, body in self.api.received.items()} != {
            path: json.loads(value or b"") for path, value in last.items()
        }:
            found.append("what was put under the keys")
        return found


def value_of(message: Message) -> str:
    return (message.value() or b"").decode()


def properties_file(folder: Path, name: str, content: dict[str, str]) -> str:
    path = folder / f"{name}.properties"
    path.write_text("".join(f"{key}={value}\n" for key, value in content.items()))
    return path.name


def started(world: World, broker: BrokerProcess) -> WorkerProcess:
    settings = worker_properties(world.folder, broker.address, spark_master=world.spark)
    settings |= {"connector.restart.backoff.max.ms": "2000"}
    worker = world.worker([settings, *world.connectors()])
    worker.start()
    return worker


def python_workers(worker: WorkerProcess) -> list[psutil.Process]:
    assert worker.process is not None
    found = []
    with contextlib.suppress(psutil.NoSuchProcess):
        for each in psutil.Process(worker.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                if each.name() != "java" and any(name in command_of(each) for name in PYTHON_WORKER):
                    found.append(each)
    return found


def kill(kind: str, world: World, worker: WorkerProcess, broker: BrokerProcess) -> None:
    match kind:
        case "worker":
            worker.kill()
            worker.start()
        case "broker":
            broker.kill()
            broker.start()
        case "task":
            victims = wait_until(lambda: python_workers(worker), "a Python process of Spark", SECONDS)
            with contextlib.suppress(psutil.NoSuchProcess):
                world.chance.choice(victims).kill()
        case _:
            world.other_fails()


def crash(world: World, broker: BrokerProcess, kills: int) -> None:
    """Kinds come in turn, in another order each time."""
    with Admin({"bootstrap.servers": broker.address}) as admin:
        for topic, partitions in world.TOPICS.items():
            admin.create_topic(topic, partitions)
    world.write()
    worker = started(world, broker)
    kinds: list[str] = []
    try:
        for _ in range(kills):
            if not kinds:
                kinds = world.chance.sample(world.KINDS, len(world.KINDS))
            sign = world.chance.choice(world.signs())
            before = sign()
            world.rounds += 1
            world.write()
            wait_until(lambda sign=sign, before=before: sign() > before, "they get on", LONGER, 0.001)  # type: ignore[misc]
            kill(kinds.pop(), world, worker, broker)
        worker.wait_until_ready()
        wait_until(lambda: not safely(world), "targets that equal their sources", LONGER, 1.0)
        assert worker.stop() == 0
        assert world.differences() == []
    except AssertionError as error:
        error.add_note(f"{safely(world)}\n{told(world)}")
        raise
    finally:
        if worker.process is not None:
            worker.kill()


def safely(world: World) -> list[str]:
    """Targets that are not there yet differ."""
    try:
        return world.differences()
    except Exception as error:
        return [repr(error)]


def told(world: World) -> str:
    lines = (world.folder / "stderr").read_text(errors="replace").splitlines()
    return "\n".join(lines[-SETTLED:])


ROUNDS: Final = [pytest.param(4, 1, id="each kind once")] + [
    pytest.param(20, seed, id=f"20 kills, seed {seed}", marks=[pytest.mark.chaos, pytest.mark.timeout(3600)])
    for seed in (2, 3)
]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kills", "seed"), ROUNDS)
def test_files_and_tables_arrive_whole(tmp_path: Path, kills: int, seed: int) -> None:
    server = Postgres(tmp_path / "postgres")
    server.start()
    try:
        with Broker(tmp_path / "broker") as broker, server.database("shop") as database:
            crash(FilesAndTables(tmp_path, broker, random.Random(seed), database), broker, kills)
    finally:
        server.close()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kills", "seed"), ROUNDS)
def test_archives_tables_of_lakes_and_an_api_hold_everything(tmp_path: Path, kills: int, seed: int) -> None:
    with Broker(tmp_path / "broker") as broker, BulkServer() as api:
        crash(Archives(tmp_path, broker, random.Random(seed), api), broker, kills)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("kills", "seed"),
    [
        pytest.param(20, 2, id="20 kills", marks=[pytest.mark.chaos, pytest.mark.timeout(3600)]),
    ],
)
def test_lines_arrive_whole_by_tasks_on_a_spark_cluster(tmp_path: Path, kills: int, seed: int) -> None:
    """`spark.master=spark://…`: the worker is the driver alone."""
    with Broker(tmp_path / "broker") as broker, StandaloneCluster(tmp_path / "cluster") as cluster:
        crash(Lines(tmp_path, broker, random.Random(seed), cluster), broker, kills)


def can_mount(folder: Path) -> bool:
    """Whether this is root with the right to mount (containers often keep it back)."""
    if os.geteuid() != 0:
        return False
    with mounted(folder, "1m") as done:
        return done


@contextlib.contextmanager
def mounted(folder: Path, size: str) -> Iterator[bool]:
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, check=False).returncode == 0
    try:
        yield done
    finally:
        if done:
            subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.timeout(600)
def test_a_full_disk_is_told_and_nothing_is_missing_when_there_is_room(tmp_path: Path) -> None:
    """With a real disk of two megabytes where that can be had."""
    disk = tmp_path / "disk"
    if not can_mount(disk):
        pytest.skip("a small disk needs root and the right to mount")
    lines = [f"{number:04} ".ljust(1000, "x") for number in range(4000)]
    with Broker(tmp_path / "broker") as broker, mounted(disk, "2m"):
        producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5})
        for line in lines:
            producer.produce("lines", line, partition=0)
        assert producer.flush(60) == 0
        out, archive = disk / "out.txt", {"url": str(disk / "archive"), "parquet.codec": "none"}
        connectors = [
            {"name": "out", "connector.class": "FileStreamSink", "file": str(out), "topics": "lines"},
            {"name": "archive", "connector.class": "ArchiveSink", "topics": "lines", **archive},
            {"name": "copy", "connector.class": "JdbcSink", "connection.url": f"jdbc:sqlite:{disk}/copy.db",
             "topics": "lines", "auto.create": "true", "transforms": "row",
             "transforms.row.type": "org.apache.kafka.connect.transforms.HoistField$Value",
             "transforms.row.field": "line"},
        ]  # fmt: skip
        settings = worker_properties(tmp_path, broker.address, spark_master="local[2]")
        files = [properties_file(tmp_path, "worker", settings | {"connector.restart.backoff.max.ms": "2000"})]
        files += [properties_file(tmp_path, each["name"], each) for each in connectors]
        worker = WorkerProcess(tmp_path, ["connect", "standalone", *files])
        worker.start()
        try:
            worker.wait_until_ready()
            for name, said in (("out", "No space left"), ("archive", "No space left"), ("copy", "is full")):
                wait_until(lambda name=name: "FAILED" in worker.states(name), f"{name} fails", SECONDS)  # type: ignore[misc]
                assert said in worker.task_trace(name), name
            subprocess.run(["mount", "-o", "remount,size=64m", str(disk)], check=True)
            # Who came last found no room even for the file itself.
            wait_until(lambda: out.exists() and out.read_text().splitlines() == lines, "each line once", SECONDS, 0.2)
            wait_until(lambda: rows(disk / "copy.db") == lines, "every row, once", SECONDS, 0.2)
            wait_until(lambda: archived(disk / "archive") == lines, "the archive has all", SECONDS, 0.2)
            assert worker.stop() == 0
        finally:
            worker.kill()


def rows(path: Path) -> list[str]:
    with closing(sqlite3.connect(path, timeout=60)) as copies, contextlib.suppress(sqlite3.OperationalError):
        return [line for (line,) in copies.execute("SELECT line FROM lines ORDER BY line")]
    return []


def archived(folder: Path) -> list[str]:
    """By what the manifest says."""
    source = ArchiveSource({"name": "reading", **ArchiveSource.CONFIG.checked({"url": str(folder)})})
    try:
        (stream,) = source.streams()
        end = source.latest(stream, None)
        assert end is not None
        batches: Any = source.read(stream, None, end)
        return [value for batch in batches for value in texts(batch)]
    except (FileNotFoundError, ValueError):
        return []
    finally:
        source.close()


def texts(batch: Any) -> list[str]:
    """Of Arrow's batches, or of single records."""
    if isinstance(batch, SourceRecord):
        return [batch.value]
    return [each.decode() if isinstance(each, bytes) else each for each in batch.column("value").to_pylist()]
