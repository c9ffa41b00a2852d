"""From options, environment and profiles to a cluster.

Which properties count, the later ones winning:

    1. a profile: the one of --profile, else MOLDAU_PROFILE, else the current one of `moldau profile use`; the current
       one counts only where nothing else names servers, since its password is not for another cluster
    2. MOLDAU_BOOTSTRAP_SERVERS, unless --profile was given
    3. --command-config FILE, a properties file as Kafka's tools take it
    4. --config KEY=VALUE, as often as wanted
    5. --bootstrap-server

Without any of them: localhost:9092. Property names are Java's; librdkafka's are taken as well.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from moldau.cli.output import UNREACHABLE, WRONG_USAGE, CommandError, warn, warn_of_readers
from moldau.cli.profile import profiles

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Producer
    from confluent_kafka.admin import AdminClient

    from moldau.client.cluster import Cluster
    from moldau.client.settings import Address, ClientSettings

SERVERS: Final = "bootstrap.servers"
DEFAULT_SERVERS: Final = "localhost:9092"
SERVERS_VARIABLE: Final = "MOLDAU_BOOTSTRAP_SERVERS"
PROFILE_VARIABLE: Final = "MOLDAU_PROFILE"
JAAS_VARIABLE: Final = "KAFKA_OPTS"
PROVIDERS_SETTING: Final = "config.providers"
REACH_SECONDS: Final = 10.0
"""How long a silent broker is waited for; `default.api.timeout.ms` shortens it. One that refuses is told at once."""
CALL_SECONDS: Final = 30.0
OF_REGISTRIES: Final = ("schema.registry.", "basic.auth.", "bearer.auth.")
"""How properties begin that are for the schema registry, and not for Kafka's clients."""
LOOK_SECONDS: Final = 0.5
# Trying again would not help: the connection stands, but its settings are wrong.
HOPELESS: Final = ("_AUTHENTICATION", "_SSL", "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM")
HOPELESS_WORDS: Final = ("in state SSL_HANDSHAKE", "verify that security.protocol")


def properties_from(
    bootstrap: str | None = None,
    profile: str | None = None,
    config: Sequence[str] = (),
    command_config: Path | None = None,
    environment: Mapping[str, str] | None = None,
    look_at: Callable[[Path, Mapping[str, str]], None] = lambda path, found: None,
) -> dict[str, str]:
    """The properties of the wanted cluster, as the head of this file orders them. `look_at` is shown the file's."""
    environment = os.environ if environment is None else environment
    given: dict[str, str] = {}
    if command_config:
        given = read_properties(command_config)
        look_at(command_config, given)
    given |= pairs(config, "--config")
    if bootstrap is not None:
        given[SERVERS] = bootstrap
    from_environment = environment.get(SERVERS_VARIABLE)
    wanted = profile or environment.get(PROFILE_VARIABLE)
    if wanted:
        base = dict(profiles.load(environment).get(wanted))
    elif SERVERS in given or from_environment:
        base = {}
    else:
        known = profiles.load(environment)
        base = dict(known.get(known.current)) if known.current else {}
    if from_environment and not profile:
        base[SERVERS] = from_environment
    return {SERVERS: DEFAULT_SERVERS} | base | given


def looked_up(path: Path, properties: Mapping[str, str]) -> dict[str, str]:
    """With what `${file:…}` and the like refer to."""
    from moldau.config.providers import ProviderError, resolved

    try:
        found = resolved(properties, os.environ)
    except ProviderError as error:
        raise CommandError(f"{path}: {error}", exit_code=WRONG_USAGE) from None
    del found[PROVIDERS_SETTING]
    return found


def with_login(properties: Mapping[str, str]) -> dict[str, str]:
    """With the login of a JAAS file, as Kafka's users give it to their tools, where nothing else says it."""
    if JAAS_VARIABLE not in os.environ:
        return dict(properties)
    from moldau.cli.jaas_file import JaasFileError, with_client_login
    from moldau.client.errors import SettingError

    try:
        return with_client_login(properties)
    except (JaasFileError, SettingError) as error:
        raise CommandError(str(error), exit_code=WRONG_USAGE) from None


def read_properties(path: Path) -> dict[str, str]:
    """A properties file as Kafka's tools take it."""
    from moldau.config.properties import PropertiesError, read

    try:
        found = read(path)
        return found if PROVIDERS_SETTING not in found else looked_up(path, found)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}", exit_code=WRONG_USAGE) from error
    except PropertiesError as error:
        raise CommandError(f"{path} is not a properties file: {error}", exit_code=WRONG_USAGE) from error


def pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    """KEY=VALUE texts of a repeated option."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise CommandError(f"{option} {text!r}: expected KEY=VALUE", exit_code=WRONG_USAGE)
        found[key.strip()] = value.strip()
    return found


class Connection:
    """One cluster for the length of a command. Nothing is connected before it is used."""

    def __init__(self, properties: Mapping[str, str], lenient: bool = False, reach_seconds: float = REACH_SECONDS):
        self.registry = {name: value for name, value in properties.items() if name.startswith(OF_REGISTRIES)}
        self.properties = with_login({name: value for name, value in properties.items() if name not in self.registry})
        self.reach_seconds = min(reach_seconds, _patience(self.properties))
        self._lenient = lenient
        """Unknown properties are warned about, as Java's clients do, instead of refused."""
        self._admin: AdminClient | None = None
        self._wire: Cluster | None = None
        self._last_errors: list[KafkaError] = []

    @property
    def servers(self) -> str:
        return self.properties[SERVERS]

    @property
    def addresses(self) -> tuple[Address, ...]:
        from moldau.client.errors import SettingError
        from moldau.client.settings import parse_addresses

        try:
            return parse_addresses(self.servers)
        except SettingError as error:
            raise CommandError(str(error), exit_code=WRONG_USAGE) from None

    def settings(self, **more: Any) -> dict[str, Any]:
        """librdkafka's settings, with more of them added."""
        from moldau.client.errors import SettingError
        from moldau.client.librdkafka import translate

        try:
            return {"client.id": "moldau", **translate(self.properties), **more}
        except SettingError as error:
            raise CommandError(str(error), exit_code=WRONG_USAGE) from None

    def admin(self) -> AdminClient:
        """librdkafka's admin client, after a broker has answered it."""
        if self._admin is None:
            self.probe()
            from confluent_kafka.admin import AdminClient

            made = self._make(AdminClient, {"error_cb": self._last_errors.append})
            self._await_broker(made)
            self._admin = made
        return self._admin

    def reach(self) -> None:
        """Until a broker has answered."""
        self.admin()

    def producer(self, **more: Any) -> Producer:
        """A producer for a cluster that was reached."""
        from confluent_kafka import Producer

        self.reach()
        made: Producer = self._make(Producer, more)
        return made

    def consumer(self, **more: Any) -> Consumer:
        """A consumer for a cluster that was reached; `group.id` is the caller's."""
        from confluent_kafka import Consumer

        self.reach()
        made: Consumer = self._make(Consumer, more)
        return made

    def wire(self) -> Cluster:
        """Our own client, for the calls that librdkafka's admin client lacks."""
        if self._wire is None:
            self.probe()
            from moldau.client.cluster import Cluster
            from moldau.client.ticket_source import MISSING

            settings = self._client_settings()
            if settings.sasl is not None and settings.needs_librdkafka:
                if settings.sasl.mechanism == "GSSAPI":
                    raise CommandError(f"sasl.mechanism: {MISSING}", exit_code=WRONG_USAGE)
                raise CommandError(
                    f"this needs calls that librdkafka lacks, and our own client knows no {settings.sasl.mechanism}",
                    "use a listener with PLAIN, SCRAM or TLS certificates",
                    WRONG_USAGE,
                )
            self._wire = Cluster(settings)
        return self._wire

    @property
    def needs_librdkafka(self) -> bool:
        """Whether the login is one that only librdkafka knows."""
        return self._client_settings().needs_librdkafka

    def _client_settings(self) -> ClientSettings:
        from moldau.client.errors import SettingError
        from moldau.client.settings import ClientSettings

        try:
            return ClientSettings.from_properties(self.properties)
        except SettingError as error:
            raise CommandError(str(error), exit_code=WRONG_USAGE) from None

    def wire_is_possible(self, otherwise: str) -> bool:
        """For what only adds to what a command shows; warns where our own client cannot be used."""
        try:
            self.wire()
        except CommandError as error:
            warn(f"{otherwise}: {error}")
            return False
        return True

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()

    def probe(self) -> None:
        """A plain connect to the servers, so that a wrong address is told at once and with its cause."""
        causes = []
        deadline = time.monotonic() + self.reach_seconds
        for left, address in zip(range(len(self.addresses), 0, -1), self.addresses, strict=True):
            try:
                # Each gets its share of the time: one that swallows everything must not hide those behind it.
                _dial(address, max(LOOK_SECONDS, (deadline - time.monotonic()) / left))
            except OSError as error:
                causes.append(f"{address}: {_cause(error)}")
            else:
                return
        raise self._unreachable(", ".join(causes))

    def check(self) -> None:
        """Whether a client takes these properties; nothing is connected."""
        from confluent_kafka import Producer

        assert self.addresses
        self._make(Producer, {})

    def _make(self, kind: Any, more: Mapping[str, Any]) -> Any:
        """A client of librdkafka, which names one unknown property at a time."""
        from confluent_kafka import KafkaException

        from moldau.client.librdkafka import NO_PROVIDER, without_mechanism

        _require_files(self.properties)
        settings = self.settings(**more)
        while True:
            try:
                return kind(settings)
            except KafkaException as error:
                problem = str(error.args[0].str())
                if NO_PROVIDER in problem:
                    raise CommandError(str(without_mechanism(self.properties)), exit_code=WRONG_USAGE) from None
                unknown = problem.partition('No such configuration property: "')[2].removesuffix('"')
                if not (self._lenient and unknown in settings):
                    hint = "--config is for the client; settings of topics and brokers go with --set" if unknown else ""
                    raise CommandError(f"client property refused: {problem}", hint, WRONG_USAGE) from None
                del settings[unknown]
                warn(f"the property {unknown} is not known here and was left out")

    def _await_broker(self, admin: AdminClient) -> None:
        """The first answer, looked for in short turns: Ctrl-C is heard, and refused credentials end it at once."""
        from concurrent.futures import TimeoutError as NotYet

        from confluent_kafka import KafkaException

        answer = admin.describe_cluster(request_timeout=self.reach_seconds)
        while True:
            try:
                answer.result(LOOK_SECONDS)
            except NotYet:
                admin.poll(0)
                if hopeless := [seen for seen in self._last_errors if _hopeless(seen)]:
                    raise self._unreachable(str(hopeless[0].str())) from None
            except KafkaException as error:
                admin.poll(0)
                raise self._unreachable(str([*self._last_errors, error.args[0]][0].str())) from None
            else:
                return

    def _unreachable(self, cause: str) -> CommandError:
        hint = f"check --bootstrap-server, --profile and {SERVERS_VARIABLE}, and that the broker runs"
        return CommandError(f"no broker answers at {self.servers} ({cause})", hint, UNREACHABLE)


def _hopeless(seen: KafkaError) -> bool:
    return seen.name() in HOPELESS or any(words in seen.str() for words in HOPELESS_WORDS)


def _require_files(properties: Mapping[str, str]) -> None:
    """librdkafka would tell of a missing certificate in OpenSSL's words."""
    for key, value in properties.items():
        if key.endswith(".location") and value != "probe" and not Path(value).exists():
            raise CommandError(f"{key}: there is no {value}", exit_code=WRONG_USAGE)


def _patience(properties: Mapping[str, str]) -> float:
    text = properties.get("default.api.timeout.ms", str(round(REACH_SECONDS * 1000)))
    if not text.isdigit():
        raise CommandError(f"default.api.timeout.ms: {text!r} is no whole number", exit_code=WRONG_USAGE)
    return int(text) / 1000


def _dial(address: Address, seconds: float) -> None:
    """Connect in a thread that can be left alone: nothing bounds how long the system looks up a name."""
    ended: list[OSError | None] = []

    def dial() -> None:
        try:
            socket.create_connection((address.host, address.port), seconds).close()
        except OSError as error:
            ended.append(error)
        else:
            ended.append(None)

    dialling = threading.Thread(target=dial, daemon=True)
    dialling.start()
    dialling.join(seconds)
    problem = ended[0] if ended else TimeoutError()
    if problem is not None:
        raise problem


def _cause(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)


def connect(
    bootstrap: str | None = None,
    profile: str | None = None,
    config: Sequence[str] = (),
    command_config: Path | None = None,
) -> Connection:
    """The cluster that the common options name."""
    return Connection(properties_from(bootstrap, profile, config, command_config, look_at=warn_of_readers))
