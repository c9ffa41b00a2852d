"""Two registries that ask for certificates and logins: what one hands on to the other, and whoever asks them both."""

from __future__ import annotations

import base64
import json
import pickle
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError

import pytest

from moldau import Consumer, Producer
from moldau.client.errors import SettingError
from moldau.clients.registered import Avro
from moldau.clients.schema_registry import RegistryFailed, SchemaRegistry
from moldau.connect.converter_names import find_converter
from moldau.connect.registered import RegisteredConverter
from moldau.spark.values.plan import ValuePlan, read_plan
from moldau.spark.values.registry import RegistryError
from tests.support.broker import Broker
from tests.support.command import run
from tests.support.registry import QUICK, Registry
from tests.support.registry_stores import LOGIN, PASSWORD, made_stores, secured_settings
from tests.support.rest import Proxy
from tests.support.waiting import wait_until

pytestmark = pytest.mark.xdist_group("registry")

USER = {"type": "record", "name": "User", "fields": [{"name": "x", "type": "int"}]}
BASIC = f"Basic {base64.b64encode(LOGIN.encode()).decode()}"


@dataclass(frozen=True)
class Secured:
    broker: Broker
    registries: tuple[Registry, Registry]
    stores: Path
    """With ca.pem, registry.pem, ann.pem, and what Java's keytool would make of them."""

    @property
    def urls(self) -> str:
        return ",".join(each.url for each in self.registries)

    def properties(self, **ssl_settings: str) -> dict[str, str]:
        named = {f"schema.registry.ssl.{name.replace('_', '.')}": value for name, value in ssl_settings.items()}
        return {"schema.registry.url": self.urls, "basic.auth.user.info": LOGIN, **named}

    @property
    def pem(self) -> dict[str, str]:
        return self.properties(
            truststore_location=str(self.stores / "ca.pem"), keystore_location=str(self.stores / "ann.pem")
        )


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    stores = made_stores(folder / "stores")
    settings = {**secured_settings(stores), "inter.instance.protocol": "https", **QUICK}
    with (
        Broker(folder / "broker", {"group.initial.rebalance.delay.ms": 0}) as broker,
        Registry(folder / "a", broker.address, settings) as one,
        Registry(folder / "b", broker.address, settings) as other,
    ):
        for each in (one, other):
            each.tls = ssl.create_default_context(cafile=str(stores / "ca.pem"))
            each.tls.load_cert_chain(stores / "ann.pem")
        yield Secured(broker, (one, other), stores)


def register(registry: Registry, subject: str, schema: Any, **headers: str) -> tuple[int, Any]:
    headers = headers or {"Authorization": BASIC}
    return registry.ask("POST", f"/subjects/{subject}/versions", {"schema": json.dumps(schema)}, **headers)


def test_writes_are_handed_on_with_a_certificate_and_the_login(secured: Secured) -> None:
    """SX-17, at the registry. One of the two does not lead."""
    for number, registry in enumerate(secured.registries):
        status, made = register(registry, f"s{number}", {"type": "fixed", "name": "F", "size": number + 1})
        assert (status, made.get("version")) == (200, 1), made
        for each in secured.registries:
            wait_until(
                lambda at=each, wanted=made["id"]: (
                    at.ask("GET", f"/schemas/ids/{wanted}", Authorization=BASIC)[0] == 200
                ),  # type: ignore[misc]
                "both have the schema",
            )
        assert register(registry, f"s{number}", "int", Authorization="Basic eDp5")[0] == 401
        assert registry.ask("GET", "/subjects")[0] == 401


def test_nobody_is_answered_without_a_certificate(secured: Secured) -> None:
    registry = secured.registries[0]
    stranger = Registry(registry.directory, registry.broker)
    stranger.url, stranger.tls = registry.url, ssl.create_default_context(cafile=str(secured.stores / "ca.pem"))
    with pytest.raises((URLError, OSError)):
        stranger.ask("GET", "/subjects", Authorization=BASIC)


every_store = pytest.mark.parametrize(
    "stores",
    [
        {"truststore_location": "ca.pem", "keystore_location": "ann.pem"},
        {"truststore_location": "trusted.p12", "truststore_password": PASSWORD,
         "keystore_location": "ann.p12", "keystore_password": PASSWORD},
        {"ca_location": "ca.pem", "certificate_location": "ann-certificate.pem", "key_location": "ann-key.pem"},
    ],
    ids=["PEM", "PKCS12", "as in Python"],
)  # fmt: skip


def placed_in(folder: Path, stores: dict[str, str]) -> dict[str, str]:
    return {name: str(folder / value) if name.endswith("location") else value for name, value in stores.items()}


@every_store
def test_python_s_serializers_ask_with_the_stores_of_java(secured: Secured, stores: dict[str, str]) -> None:
    placed = placed_in(secured.stores, stores)
    topic = f"t-{'-'.join(stores)}".replace("_", "-")
    properties = {"bootstrap.servers": secured.broker.address, **secured.properties(**placed)}
    with Producer(properties, value_serializer=Avro(USER)) as producer:
        producer.send(topic, {"x": 7}).result(30)
    reading = {"group.id": topic, "auto.offset.reset": "earliest"}
    with Consumer({**properties, **reading}, value_deserializer=Avro()) as consumer:
        consumer.subscribe([topic])
        assert next(iter(consumer)).value == {"x": 7}


@every_store
def test_spark_and_connect_s_converters_ask_with_them_too(secured: Secured, stores: dict[str, str]) -> None:
    properties = secured.properties(**placed_in(secured.stores, stores))
    subject = f"spark-{'-'.join(stores)}".replace("_", "-")
    assert register(secured.registries[0], f"{subject}-value", USER)[0] == 200
    plan = read_plan({**properties, "value.format": "avro", "subscribe": subject})
    assert plan.registry is not None and plan.value.kind is not None
    assert plan.value.kind.simpleString() == "struct<x:int>"
    travelled: ValuePlan = pickle.loads(pickle.dumps(plan))
    assert travelled.registry is not None
    assert json.loads(travelled.registry.latest(f"{subject}-value")) == USER
    made = find_converter("io.confluent.connect.avro.AvroConverter")
    assert issubclass(made, RegisteredConverter)
    given = {**properties, "basic.auth.credentials.source": "USER_INFO"}
    converter = made(made.CONFIG.checked(given))
    assert isinstance(converter, RegisteredConverter)
    assert json.loads(converter.registry.latest(f"{subject}-value")) == USER
    stranger = made(made.CONFIG.checked(properties))
    assert isinstance(stranger, RegisteredConverter)
    with pytest.raises(RegistryError, match="401"):
        stranger.registry.latest(f"{subject}-value")


def test_the_login_may_stand_in_the_address(secured: Secured) -> None:
    urls = ",".join(each.url.replace("://", "://ann:se%3Acret@") for each in secured.registries)
    given = {**secured.pem, "schema.registry.url": urls}
    del given["basic.auth.user.info"]
    assert isinstance(SchemaRegistry.of(given).ask_any("/subjects"), list)


def test_what_is_wrong_with_the_certificates_is_told(secured: Secured) -> None:
    url = secured.registries[0].url
    with pytest.raises(RegistryFailed, match="certificate verify failed"):
        SchemaRegistry.of({"schema.registry.url": url}).ask_any("/subjects")
    trusting = SchemaRegistry.of(secured.properties(truststore_location=str(secured.stores / "ca.pem")))
    with pytest.raises(RegistryFailed, match="does one run there"):
        trusting.ask_any("/subjects")
    for store, problem in (("gone.p12", "No such file"), ("passwords", "password")):
        with pytest.raises(SettingError, match=rf"schema\.registry\.ssl\.truststore\.location: .*{problem}"):
            SchemaRegistry.of(secured.properties(truststore_location=str(secured.stores / store)))


def test_the_command_line_asks_with_them_too(secured: Secured, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("".join(f"{key}={value}\n" for key, value in secured.pem.items()))
    (tmp_path / "n.avsc").write_text('"long"')
    url = {"MOLDAU_REGISTRY": secured.registries[1].url}
    options = ("--command-config", tmp_path / "client.properties")
    assert run("registry", "register", "by-hand", tmp_path / "n.avsc", *options, environment=url).code == 0
    assert "by-hand" in run("registry", "list", *options, environment=url).out
    assert "CERTIFICATE_VERIFY_FAILED" in run("registry", "list", environment=url).complaint
    there = ("by-hand", "-b", secured.broker.address, *options)
    written = run("produce", *there, "--value-schema", tmp_path / "n.avsc", stdin="5\n", environment=url)
    assert written.code == 0, written
    assert run("consume", *there, "--decode", "value", environment=url).out == "5\n"


def test_the_rest_proxy_asks_with_them_too(secured: Secured, tmp_path: Path) -> None:
    with Proxy(tmp_path / "rest", secured.broker.address, secured.pem) as proxy:
        body = {"value_schema": json.dumps(USER), "records": [{"value": {"x": 3}}]}
        answer = proxy.ask("POST", "/topics/by-rest", body, "application/vnd.kafka.avro.v2+json")
        assert (answer.status, answer.body["offsets"][0]["offset"]) == (200, 0)
