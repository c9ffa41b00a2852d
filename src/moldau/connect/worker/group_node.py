"""A worker of a group: connectors are shared, configurations and states lie in Connect's topics.

A worker may believe that it owns a connector when another has taken it over already. No harm: a source that starts
fences whoever wrote before (`moldau.connect.exactness`), a sink's target knows what it holds. Only one worker writes
the config topic: its transactional id belongs to the group, so whoever leads fences the leader before.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from starlette.responses import Response

from moldau.client.librdkafka import translate
from moldau.client.membership import GroupSettings, Member, Membership
from moldau.client.settings import ClientSettings
from moldau.connect.worker import group, records
from moldau.connect.worker.errors import NotLeader, no_connector
from moldau.connect.worker.forwarding import Forwarder
from moldau.connect.worker.forwarding import send as send_request
from moldau.connect.worker.group import Assignment
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.node import (
    READY,
    Late,
    Worker,
    address_of,
    backoff_of,
    find_cluster_id,
    make_spark,
    make_tables,
    use_plugins,
)
from moldau.connect.worker.records import Record, decoded
from moldau.connect.worker.rest import make_api
from moldau.connect.worker.runner import Runner
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.signing import SessionKey, check_signed, signed
from moldau.connect.worker.state import Configs, Statuses
from moldau.connect.worker.topics import Fenced, NotWriting, TopicTable, TopicUnavailable
from moldau.metrics import Metrics
from moldau.web import Service

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

PROTOCOL_TYPE: Final = "connect"
PROTOCOL: Final = "moldau"
ONE: Final = 1
CLOSE_SECONDS: Final = 15.0
FORBIDDEN: Final = 403


class TopicStore:
    """Configurations and states in their topics."""

    def __init__(self, settings: WorkerSettings, told: Callable[[Record], None], seconds: float = 30.0) -> None:
        """`seconds`: how long the brokers may take."""
        self.configs = Configs()
        self.statuses = Statuses()
        self.changed = threading.Condition(threading.RLock())
        self.fenced: Callable[[], None] = lambda: None
        self._told = told
        self._settings = settings
        kafka = translate(settings.kafka)
        writer = f"connect-cluster-{settings.group}"
        configs, statuses = settings.text("config.storage.topic"), settings.text("status.storage.topic")
        self.config_table = TopicTable(kafka, configs, self._config, seconds, writer)
        self.status_table = TopicTable(kafka, statuses, self._status, seconds)
        self._early: list[Record] = []
        self._reading_first = True

    def open(self) -> None:
        """Reads both to the end."""
        self.config_table.prepare(ONE, self._settings.number("config.storage.replication.factor"))
        self.status_table.prepare(
            self._settings.number("status.storage.partitions"),
            self._settings.number("status.storage.replication.factor"),
        )
        self.status_table.start()
        self.config_table.start()
        self.status_table.catch_up()
        self.config_table.catch_up()
        self._reading_first = False

    def close(self) -> None:
        self.config_table.close()
        self.status_table.close()

    def _config(self, key: bytes | None, value: bytes | None) -> None:
        record = decoded(key, value)
        with self.changed:
            self.configs.apply(record)
            self.changed.notify_all()
        if not self._reading_first:
            self._told(record)

    def _status(self, key: bytes | None, value: bytes | None) -> None:
        with self.changed:
            self.statuses.apply(decoded(key, value))
            self.changed.notify_all()

    def write_configs(self, records: Sequence[Record]) -> None:
        try:
            self.config_table.write([record.encoded() for record in records])
        except Fenced:
            self.fenced()
            raise NotLeader from None
        except NotWriting:
            raise NotLeader from None

    def write_statuses(self, records: Sequence[Record]) -> None:
        if records:
            self.status_table.write([record.encoded() for record in records])


class GroupWorker(Member):
    """This worker's place in the group, and what follows from it."""

    def __init__(self, settings: WorkerSettings, store: TopicStore, wall_ms: Callable[[], int]) -> None:
        self._settings = settings
        self._wall_ms = wall_ms
        self._store = store
        self.url = ""
        self.assignment = Assignment()
        self.generation = -1
        self.changed: Callable[[], None] = lambda: None
        self.membership: Membership | None = None
        self._asked = 0
        self.has_leader = threading.Event()
        store.fenced = self.fenced

    def join(self) -> None:
        number = self._settings.number
        wait_ms = number("rebalance.timeout.ms") + number("session.timeout.ms") + 5000
        client = ClientSettings.from_properties({"request.timeout.ms": str(wait_ms), **self._settings.kafka})
        group_settings = GroupSettings(
            self._settings.group,
            PROTOCOL_TYPE,
            PROTOCOL,
            number("session.timeout.ms"),
            number("rebalance.timeout.ms"),
            number("heartbeat.interval.ms") / 1000,
        )
        self.membership = Membership(client, group_settings, self)
        self.membership.start()

    @property
    def leader(self) -> str | None:
        return self.assignment.leader or None

    def owner(self, connector: str) -> str | None:
        return self.assignment.owner(connector)

    def not_ready(self) -> str | None:
        return None if self.leader else "no leader is known"

    @property
    def mine(self) -> set[str]:
        return self.assignment.of(self.url)

    def check_leads(self) -> None:
        """Opens the config topic for writing again, if that has failed."""
        if self.leader != self.url:
            raise NotLeader
        self._lead(anew=False)

    def _lead(self, *, anew: bool) -> None:
        self._store.config_table.lead(anew)
        key, now_ms = self._store.configs.session_key, self._wall_ms()
        if key is None or now_ms - key.created_ms >= self._settings.number("inter.worker.key.ttl.ms"):
            size = self._settings.values["inter.worker.key.size"]
            algorithm = self._settings.text("inter.worker.key.generation.algorithm")
            made = SessionKey.made(algorithm, size if isinstance(size, int) else None, now_ms)
            self._store.write_configs([records.session_key_record(made)])

    def fenced(self) -> None:
        """Another worker writes, by right or because it knows no better: the group has to say who leads."""
        if self.leader == self.url:
            self.assignment = Assignment("", self.assignment.workers)
            self._share_again()

    def follow(self, record: Record) -> None:
        """A connector came or went: it is shared out again."""
        names = set(self._store.configs.connectors)
        shared = {name for names in self.assignment.workers.values() for name in names}
        if names != shared and self.leader == self.url:
            self._share_again()

    def _share_again(self) -> None:
        if self.membership is not None:
            self._asked += 1
            self.membership.rejoin()

    # -- by the membership ---------------------------------------------------------------------------------------------

    def described(self) -> bytes:
        return group.described(self.url, self.mine, self._asked)

    def assign(self, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        self._store.config_table.catch_up()
        content = group.shared(members, set(self._store.configs.connectors)).to_bytes()
        return dict.fromkeys(members, content)

    def assigned(self, content: bytes, generation: int) -> None:
        self.assignment, self.generation = Assignment.from_bytes(content), generation
        log.info("generation %d: leader %s, mine %s", generation, self.leader, sorted(self.mine))
        try:
            if self.leader == self.url:
                # Even who led before may have missed a generation in which another did.
                self._lead(anew=True)
            else:
                self._store.config_table.resign()
                self._store.config_table.catch_up()
        except (TopicUnavailable, NotLeader) as error:
            log.warning("the config topic: %s", error)
        self.has_leader.set()
        self.changed()

    def lost(self) -> None:
        self.assignment = Assignment()
        self.changed()


@asynccontextmanager
async def distributed(
    settings: WorkerSettings, spark: Callable[[], SparkSession] | None = None
) -> AsyncIterator[Worker]:
    use_plugins(settings.list("plugin.path"))
    tables = make_tables(settings)
    late = Late(lambda: herder)
    member: GroupWorker

    def told(record: Record) -> None:
        member.follow(record)
        late.follow(record)

    def wall_ms() -> int:
        return int(time.time() * 1000)

    tls = settings.tls_to_others()
    store = TopicStore(settings, told)
    member = GroupWorker(settings, store, wall_ms)
    runner = Runner(
        spark or (lambda: make_spark(settings)), settings.defaults, tables, late, backoff_of(settings),
        settings.looked_up,
    )  # fmt: skip
    herder = GroupHerder(
        settings,
        store,
        runner,
        "",
        lambda: member.mine,
        lambda: member.generation,
        member.check_leads,
        wall_ms,
    )
    herder.leader, herder.tls, herder.catch_up = lambda: member.leader, tls, store.config_table.catch_up
    cluster_id = await asyncio.to_thread(find_cluster_id, settings)
    api = make_api(
        herder,
        tables,
        Forwarder(lambda: member.leader, member.owner, tls),
        lambda: cluster_id,
        lambda: ("healthy", READY) if member.leader else ("starting", "Worker is joining the group."),
    )
    await asyncio.to_thread(store.open)
    try:
        async with Service(api, settings.web, Metrics(), time.time, member.not_ready) as service:
            herder.worker = address_of(settings, service)
            scheme = service.listeners[0].scheme
            member.url = f"{settings.text('rest.advertised.listener') or scheme}://{herder.worker}"
            member.changed = herder.follow
            runner.start()
            member.join()
            yield Worker(service, herder, runner, lambda: asyncio.to_thread(member.has_leader.wait), member)
    finally:
        await asyncio.to_thread(runner.close)
        if member.membership is not None:
            await asyncio.to_thread(member.membership.close, CLOSE_SECONDS)
        await asyncio.to_thread(tables.close)
        await asyncio.to_thread(store.close)


class GroupHerder(Herder):
    """Writes of a worker that does not lead go to the one that does."""

    leader: Callable[[], str | None]
    tls: ssl.SSLContext | None
    catch_up: Callable[[], None]

    def put_tasks(self, name: str, configs: list[dict[str, str]]) -> None:
        try:
            self._check_leads()
            super().put_tasks(name, configs)
            return
        except NotLeader:
            url = self.leader()
        if url is None:
            raise TopicUnavailable("no worker leads the group now: the tasks cannot be told")
        answer = self._send(url, name, json.dumps(configs).encode())
        if answer.status_code == FORBIDDEN:
            self.catch_up()  # with a session key that is another now
            answer = self._send(url, name, json.dumps(configs).encode())
        if answer.status_code >= 300:
            raise TopicUnavailable(f"{url} did not take the tasks of {name}: {bytes(answer.body)!r}")

    def _send(self, url: str, name: str, body: bytes) -> Response:
        algorithm = self._settings.text("inter.worker.signature.algorithm")
        headers = {"content-type": "application/json", **signed(self.store.configs.session_key, algorithm, body)}
        target = f"/connectors/{quote(name, safe='')}/tasks?forward=false"
        return send_request(url, "POST", target, headers, body, self.tls)

    def take_tasks(self, name: str, configs: list[dict[str, str]], headers: Mapping[str, str], body: bytes) -> None:
        self._check_between_workers(name, headers, body)
        super().put_tasks(name, configs)

    def fence(self, name: str, headers: Mapping[str, str], body: bytes) -> None:
        self._check_between_workers(name, headers, body)

    def _check_between_workers(self, name: str, headers: Mapping[str, str], body: bytes) -> None:
        key, allowed = self.store.configs.session_key, self._settings.list("inter.worker.verification.algorithms")
        if key is None:
            self._check_leads()  # writes one
        check_signed(key, allowed, headers, body)
        self._check_leads()
        if name not in self.store.configs.connectors:
            raise no_connector(name)


async def serve_distributed(settings: WorkerSettings, ready: Callable[[str], None]) -> None:
    """Until SIGTERM; `ready` gets the addresses once it has joined the group."""
    async with distributed(settings) as worker:
        await worker.joined()
        ready(",".join(map(str, worker.service.listeners)))
        await worker.run_until_stopped()
