"""Settings with Confluent's keys, and the properties of each kind of client that follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from moldau.client.errors import SettingError
from moldau.clients.schema_registry import SchemaRegistry
from moldau.config.definition import ConfigError
from moldau.config.service_tables import ServiceSettings, parse_settings, read_table
from moldau.web import WebSettings
from moldau.web import settings as web_settings

SETTINGS: Final = read_table(Path(__file__).with_name("settings.tsv"))
LISTENERS: Final = "http://localhost:8082"
PREFIXES: Final = ("client.", "producer.", "consumer.", "admin.")
OWN: Final = frozenset({*SETTINGS, "producer.threads", "consumer.iterator.timeout.ms", "consumer.iterator.backoff.ms"})
"""Not the clients', whatever they begin with."""
KNOWN: Final = frozenset({*OWN, *web_settings.KNOWN})


@dataclass(frozen=True, slots=True)
class RestSettings(ServiceSettings):
    web: WebSettings
    properties: Mapping[str, str]

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> RestSettings:
        found = cls(parse_settings(SETTINGS, properties), WebSettings.of(properties, LISTENERS), properties)
        if not found.list("bootstrap.servers"):
            raise ConfigError("bootstrap.servers", None, "the addresses of the brokers are needed")
        if found.flag("client.credentials.from.http") and found.web.password_file is not None:
            raise ConfigError(
                "client.credentials.from.http", "true", "it excludes authentication.method=BASIC: the cluster logs in"
            )
        return found

    def asking(self, registry: str) -> RestSettings:
        """The same with this schema registry."""
        return RestSettings.of({**self.properties, "schema.registry.url": registry})

    def seconds(self, name: str) -> float:
        return self.number(name) / 1000

    def registry(self) -> SchemaRegistry | None:
        """The one whose schemas are used; None where no address is given. Raises ConfigError."""
        if not self.list("schema.registry.url"):
            return None
        try:
            return SchemaRegistry.of(self.properties)
        except SettingError as error:
            problem = str(error).removeprefix(f"{error.key}: ")
            raise ConfigError(error.key, self.properties.get(error.key), problem) from None

    def client(self, kind: str) -> dict[str, str]:
        """Java's properties for a client of one kind: producer, consumer or admin."""
        servers = self.list("bootstrap.servers")
        found = {"bootstrap.servers": ",".join(server.split("://")[-1] for server in servers)}
        protocols = {server.split("://")[0] for server in servers if "://" in server}
        if protocols:
            found["security.protocol"] = protocols.pop()
        for prefix in ("client.", f"{kind}."):
            found |= {
                name[len(prefix) :]: text
                for name, text in self.properties.items()
                if name.startswith(prefix) and name not in OWN
            }
        return found
