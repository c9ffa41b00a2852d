"""The process of one registry instance: real clocks, threads and sockets are made here."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaException

from moldau.client.librdkafka import translate
from moldau.client.settings import ClientSettings
from moldau.config.definition import ConfigError
from moldau.config.service_tables import ServiceSettings, parse_settings, read_table, renamed
from moldau.metrics import Metrics
from moldau.registry.api import make_api
from moldau.registry.canonical import Canonical
from moldau.registry.election import Election, Identity, Timing
from moldau.registry.log import SchemaLog
from moldau.registry.registry import Registry
from moldau.registry.rules import Rules
from moldau.registry.state import State
from moldau.schemas.levels import LEVELS
from moldau.schemas.workshop import Workshop
from moldau.web import Service, WebSettings
from moldau.web import settings as web_settings
from moldau.web.settings import EVERYWHERE

log = logging.getLogger(__name__)

SETTINGS: Final = read_table(Path(__file__).with_name("settings.tsv"))
LISTENERS: Final = "http://localhost:8081"
PREFIX: Final = "kafkastore."
OLDER: Final = {
    "avro.compatibility.level": "schema.compatibility.level",
    "master.eligibility": "leader.eligibility",
    "schema.registry.inter.instance.protocol": "inter.instance.protocol",
}
KNOWN: Final = frozenset({*SETTINGS, *OLDER, *web_settings.KNOWN})
NOT_OF_THE_CLIENT: Final = ("topic", "timeout.ms", "init.timeout.ms", "topic.replication.factor", "bootstrap.servers")


@dataclass(frozen=True, slots=True)
class RegistrySettings(ServiceSettings):
    web: WebSettings
    client: Mapping[str, str]
    """The connection to Kafka, under Java's names."""

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RegistrySettings:
        properties = renamed(properties, OLDER)
        values = parse_settings(SETTINGS, properties)
        servers = values["kafkastore.bootstrap.servers"]
        if not servers:
            raise ConfigError("kafkastore.bootstrap.servers", None, "the addresses of the brokers are needed")
        if str(values["schema.compatibility.level"]).upper() not in LEVELS:
            raise ConfigError(
                "schema.compatibility.level", str(values["schema.compatibility.level"]), ", ".join(LEVELS)
            )
        assert isinstance(servers, tuple)
        own = {f"{PREFIX}{name}" for name in NOT_OF_THE_CLIENT}
        client = {
            name[len(PREFIX) :]: text
            for name, text in properties.items()
            if name.startswith(PREFIX) and name not in own
        }
        protocols = {server.split("://")[0] for server in servers if "://" in server}
        if protocols and "security.protocol" not in client:
            client["security.protocol"] = protocols.pop()
        client["bootstrap.servers"] = ",".join(server.split("://")[-1] for server in servers)
        return cls(values, WebSettings.of(properties, LISTENERS), client)


@asynccontextmanager
async def running(settings: RegistrySettings) -> AsyncIterator[tuple[Service, Registry]]:
    """An instance that listens, reads, and takes part in the election."""
    metrics = Metrics()
    state = State()
    seconds = settings.number("kafkastore.timeout.ms") / 1000
    group = str(settings.values["schema.registry.group.id"])
    schema_log = SchemaLog(
        translate(settings.client), str(settings.values["kafkastore.topic"]), group, state, seconds, metrics
    )
    schema_seconds = settings.number("schema.timeout.ms") / 1000
    workshop = Workshop(settings.number("schema.workers"), schema_seconds, patience=schema_seconds)
    canonical = Canonical(state, workshop)
    level = str(settings.values["schema.compatibility.level"]).upper()
    rules = Rules(state, canonical, level, mode_mutable=bool(settings.values["mode.mutability"]))
    registry = Registry(state, rules, canonical, schema_log, seconds, trusting(settings.web))
    metrics.gauge(lambda: int(registry.leads), "moldau.registry", "Election", "Leads")
    metrics.gauge(lambda: len(state.subjects), "moldau.registry", "State", "Subjects")
    try:
        await asyncio.to_thread(prepared, schema_log, settings)
        schema_log.start()
        api = make_api(registry)
        async with Service(api, settings.web, metrics, time.time, lambda: registry.not_ready) as service:
            election = Election(*election_parts(settings, service, group), registry.leader_changed)
            registry.doubt = election.look_again
            election.start()
            try:
                yield service, registry
            finally:
                await asyncio.to_thread(election.close, seconds)
    finally:
        await asyncio.to_thread(schema_log.close)
        workshop.close()


def prepared(schema_log: SchemaLog, settings: RegistrySettings) -> None:
    """Waits for the brokers, within the time that a start may take."""
    deadline = time.monotonic() + settings.number("kafkastore.init.timeout.ms") / 1000
    while True:
        try:
            return schema_log.prepare(settings.number("kafkastore.topic.replication.factor"))
        except KafkaException as error:
            if time.monotonic() > deadline:
                raise
            log.warning("the brokers are not there yet: %s", error)


def election_parts(settings: RegistrySettings, service: Service, group: str) -> tuple[Any, str, Identity, Timing]:
    scheme = str(settings.values["inter.instance.protocol"])
    fitting = [each for each in service.listeners if each.scheme == scheme] or list(service.listeners)
    named = settings.web.text("host.name")
    host = named or (socket.gethostname() if fitting[0].host in EVERYWHERE else fitting[0].host)
    me = Identity(host, fitting[0].port, bool(settings.values["leader.eligibility"]), fitting[0].scheme)
    timing = Timing(
        settings.number("kafkagroup.session.timeout.ms"),
        settings.number("kafkagroup.rebalance.timeout.ms"),
        settings.number("kafkagroup.heartbeat.interval.ms") / 1000,
    )
    wait_ms = timing.rebalance_ms + timing.session_ms + 5000
    client = ClientSettings.from_properties({"request.timeout.ms": str(wait_ms), **settings.client})
    return client, group, me, timing


def trusting(web: WebSettings) -> ssl.SSLContext | None:
    """How the leader's certificate is checked when a write is handed on, and what it is shown where it asks for one."""
    if not web.text("ssl.truststore.location") and not web.text("ssl.keystore.location"):
        return None
    own = bool(web.text("ssl.truststore.location"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if own else ssl.create_default_context()
    web.load_stores(context)
    return context


async def serve(settings: RegistrySettings, ready: Callable[[str], None]) -> None:
    """Until SIGTERM; `ready` gets the addresses once the topic is read and a leader is known."""
    async with running(settings) as (service, registry):
        await registry.until_ready()
        ready(",".join(map(str, service.listeners)))
        await service.run_until_stopped()
