"""A worker's properties file: Kafka Connect's names, and Spark's."""

from __future__ import annotations

import os
import ssl
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from moldau.config.definition import ConfigError, Value
from moldau.config.providers import PROVIDERS, resolved
from moldau.config.service_tables import ServiceSettings, parse_settings, read_table
from moldau.connect.configuration import CONVERTER_KEYS, WorkerDefaults, with_prefix
from moldau.connect.worker.signing import HASHES
from moldau.web import WebSettings

SETTINGS: Final = read_table(Path(__file__).with_name("settings.tsv"))
LISTENERS: Final = "http://:8083"
CONNECTION: Final = ("security.", "sasl.", "ssl.", "client.dns.")
OF_LISTENERS: Final = ("ssl.client.authentication", "ssl.client.auth")
NEEDED: Final = ("group.id", "config.storage.topic", "offset.storage.topic", "status.storage.topic")


@dataclass(frozen=True, slots=True)
class WorkerSettings(ServiceSettings):
    web: WebSettings
    properties: Mapping[str, str]
    distributed: bool
    standalone_id: str = ""
    providers: Mapping[str, str] = field(default_factory=dict)
    """The settings config.providers, with which connectors' values that stand elsewhere are looked up too."""

    @classmethod
    def of(cls, properties: Mapping[str, str], *, distributed: bool) -> WorkerSettings:
        """Raises ConfigError, and ProviderError for a value that stands elsewhere and is not there."""
        providers = {name: value for name, value in properties.items() if name.startswith(PROVIDERS)}
        properties = {
            name: value for name, value in resolved(properties, os.environ).items() if not name.startswith(PROVIDERS)
        }
        values = parse_settings(SETTINGS, properties)
        needed = ["key.converter", "value.converter", *(NEEDED if distributed else ["offset.storage.file.filename"])]
        missing = [name for name in needed if not properties.get(name)]
        if missing:
            raise ConfigError(missing[0], None, "", f"Missing required configuration {', '.join(missing)}")
        check_algorithms(values)
        check_admin(properties)
        listeners = {
            key: value
            for key, value in properties.items()
            if not key.startswith("ssl.") or "https" in properties.get("listeners", "")
        }
        worker = "" if distributed else worker_id(Path(properties["offset.storage.file.filename"]))
        return cls(values, WebSettings.of(listeners, LISTENERS), properties, distributed, worker, providers)

    def looked_up(self, config: Mapping[str, str]) -> dict[str, str]:
        """A connector's, with what `${file:…}` and the like refer to. Raises ProviderError."""
        if not self.providers:
            return dict(config)
        own = {name: value for name, value in config.items() if not name.startswith(PROVIDERS)}
        found = resolved({**own, **self.providers}, os.environ)
        return {name: value for name, value in found.items() if not name.startswith(PROVIDERS)}

    def tls_to_others(self) -> ssl.SSLContext | None:
        """How this worker looks at others: it checks their certificates, and shows its own. Raises ConfigError."""
        if all(each.scheme != "https" for each in self.web.listeners):
            return None
        keys = self.web.text("ssl.keystore.location")
        try:
            context = ssl.create_default_context(cafile=self.web.text("ssl.truststore.location") or None)
            context.check_hostname = self.properties.get("ssl.endpoint.identification.algorithm", "https") != ""
            context.load_cert_chain(keys, password=self.web.text("ssl.key.password") or None)
        except OSError as error:
            raise ConfigError("ssl.keystore.location", keys, f"PEM files are expected: {error}") from None
        return context

    @property
    def serves_admin(self) -> bool:
        return self.properties.get("admin.listeners") != ""

    @property
    def kafka(self) -> dict[str, str]:
        found = {
            name: value
            for name, value in self.properties.items()
            if name.startswith(CONNECTION) and name not in OF_LISTENERS
        }
        return {**found, "bootstrap.servers": ",".join(self.list("bootstrap.servers"))}

    @property
    def group(self) -> str:
        return self.text("group.id") if self.distributed else "connect-standalone"

    @property
    def spark(self) -> dict[str, str]:
        return {name: value for name, value in self.properties.items() if name.startswith("spark.")}

    @property
    def defaults(self) -> WorkerDefaults:
        def prefixed(prefix: str) -> dict[str, str]:
            return {name: value for name, value in with_prefix(self.properties, prefix).items() if value is not None}

        return WorkerDefaults(
            converters={name: value for name, value in self.properties.items() if name.startswith(CONVERTER_KEYS)},
            kafka=self.kafka,
            producer=prefixed("producer."),
            consumer=prefixed("consumer."),
            group=self.group,
            offsets_topic=self.text("offset.storage.topic"),
            offsets_prefix=f"{self.standalone_id}/" if self.standalone_id else "",
            poll_ms=self.number("connector.poll.interval.ms"),
            admin={name: value for name, value in prefixed("admin.").items() if not name.startswith("listeners")},
            makes_topics=self.flag("topic.creation.enable"),
        )


def check_admin(properties: Mapping[str, str]) -> None:
    """What is meant to be served elsewhere is not to be open to everybody here."""
    wanted, served = properties.get("admin.listeners"), properties.get("listeners", LISTENERS)
    if wanted and set(split(wanted)) != set(split(served)):
        reason = "empty (/admin is not served), or the same as listeners; other listeners are not known here"
        raise ConfigError("admin.listeners", wanted, reason)


def split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def check_algorithms(values: Mapping[str, Value]) -> None:
    """Of requests between workers."""
    taken, signs = values["inter.worker.verification.algorithms"], "inter.worker.signature.algorithm"
    assert isinstance(taken, tuple)
    for name in ("inter.worker.key.generation.algorithm", signs):
        if values[name] not in HASHES:
            raise ConfigError(name, str(values[name]), f"one of {', '.join(HASHES)}")
    if values[signs] not in taken or not set(taken) <= set(HASHES):
        reason = f"some of {', '.join(HASHES)}, with {values[signs]}, which {signs} names"
        raise ConfigError("inter.worker.verification.algorithms", ",".join(taken), reason)


def worker_id(path: Path, new_uuid: Callable[[], uuid.UUID] = uuid.uuid4) -> str:
    """Of a standalone worker: what its file says; a new one if there is no file."""
    try:
        found = path.read_text().strip()
    except FileNotFoundError:
        found = ""
    except UnicodeDecodeError:
        raise ConfigError(
            "offset.storage.file.filename",
            str(path),
            "a file of Kafka Connect, which cannot be read here: name another one",
        ) from None
    if found:
        return found
    made = str(new_uuid())
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{made}\n")
    return made
