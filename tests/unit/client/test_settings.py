"""Client settings from Kafka's property names."""

from pathlib import Path

import pytest

from moldau.client.errors import SettingError
from moldau.client.librdkafka import translate
from moldau.client.login import jaas_fields
from moldau.client.settings import Address, ClientSettings, parse_addresses
from moldau.client.ticket_source import TicketSource, ticket_source
from moldau.client.tls import context_for

STORES = Path(__file__).parents[1] / "tls" / "data"
HERE = {"bootstrap.servers": "localhost:9092"}


def test_addresses() -> None:
    found = parse_addresses(" a:1, PLAINTEXT://b:2 ,[::1]:3,")
    assert found == (Address("a", 1), Address("b", 2), Address("::1", 3))
    assert str(found[2]) == "[::1]:3"


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:nine", "host:70000"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(SettingError, match=r"bootstrap\.servers"):
        parse_addresses(text)


def test_times_are_milliseconds() -> None:
    settings = ClientSettings.from_properties({**HERE, "request.timeout.ms": "1500"})
    assert settings.request_seconds == 1.5


def test_a_time_that_is_no_number_is_named() -> None:
    with pytest.raises(SettingError, match=r"request\.timeout\.ms: '5s'"):
        ClientSettings.from_properties({**HERE, "request.timeout.ms": "5s"})


def test_credentials_come_from_the_login_module_line() -> None:
    jaas = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="al\\"ice" password="a;b=c";'
    settings = ClientSettings.from_properties(
        {**HERE, "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas}
    )
    assert settings.sasl is not None
    assert settings.tls is not None
    assert (settings.sasl.username, settings.sasl.password) == ('al"ice', "a;b=c")
    assert "a;b=c" not in repr(settings)


@pytest.mark.parametrize(
    "fields",
    ["username=alice password=a=b;", "username='alice' password='a=b';", 'username = "alice"\n password=a=b ;'],
)
def test_values_of_the_login_module_line_may_stand_without_quotes(fields: str) -> None:
    jaas = f"org.apache.kafka.common.security.scram.ScramLoginModule required {fields}"
    properties = {"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas}
    settings = ClientSettings.from_properties({**HERE, **properties})
    assert settings.sasl is not None
    assert (settings.sasl.username, settings.sasl.password) == ("alice", "a=b")
    assert translate(properties)["sasl.username"] == "alice", "librdkafka is told the same"
    assert translate(properties)["sasl.password"] == "a=b"


@pytest.mark.parametrize("key", ["sasl.mechanism", "sasl.mechanisms"])
def test_a_mechanism_that_nobody_knows_is_named_with_those_that_are_known(key: str) -> None:
    properties = {**HERE, "security.protocol": "SASL_PLAINTEXT", key: "SCRAM-SHA-1", "sasl.username": "alice"}
    for read in (ClientSettings.from_properties, translate):
        with pytest.raises(SettingError, match=r"sasl\.mechanism: 'SCRAM-SHA-1' is none of PLAIN, .*BEARER, GSSAPI"):
            read(properties)


def test_mechanisms_of_librdkafka_are_left_to_it() -> None:
    settings = ClientSettings.from_properties(
        {**HERE, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    )
    assert settings.needs_librdkafka


def test_a_mechanism_without_credentials_is_refused() -> None:
    with pytest.raises(SettingError, match="username"):
        ClientSettings.from_properties({**HERE, "security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-256"})


@pytest.mark.parametrize("kind", ["jks", "p12"])
def test_java_stores_are_read(kind: str) -> None:
    settings = ClientSettings.from_properties(
        {
            **HERE,
            "security.protocol": "SSL",
            "ssl.truststore.location": str(STORES / f"trust.{kind}"),
            "ssl.truststore.password": "changeit",
            "ssl.keystore.location": str(STORES / f"broker.{kind}"),
            "ssl.keystore.password": "changeit",
            "ssl.key.password": "keypass12",
        }
    )
    assert settings.tls is not None
    assert "PRIVATE" not in repr(settings) and "changeit" not in repr(settings)
    context = context_for(settings.tls)
    assert [dict(pair[0] for pair in found["subject"])["commonName"] for found in context.get_ca_certs()] == ["Test CA"]


def test_a_store_that_cannot_be_read_is_named() -> None:
    with pytest.raises(SettingError, match=r"ssl\.truststore\.location: trust\.jks: No such file"):
        ClientSettings.from_properties({**HERE, "security.protocol": "SSL", "ssl.truststore.location": "trust.jks"})


def test_an_unknown_protocol_is_named() -> None:
    with pytest.raises(SettingError, match="TLS"):
        ClientSettings.from_properties({**HERE, "security.protocol": "TLS"})


KRB5 = "com.sun.security.auth.module.Krb5LoginModule required "


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, TicketSource()),
        ({"sasl.kerberos.service.name": "moldau"}, TicketSource("moldau")),
        (
            {"sasl.jaas.config": KRB5 + 'useKeyTab=true storeKey=true keyTab="/k" principal="a@R" serviceName="s";'},
            TicketSource("s", "a@R", "/k"),
        ),
        ({"sasl.jaas.config": KRB5 + "useKeyTab=true;"}, TicketSource(keytab="")),
        ({"sasl.jaas.config": KRB5 + 'useTicketCache=true useKeyTab=false keyTab="/k";'}, TicketSource()),
        ({"sasl.jaas.config": KRB5 + 'useTicketCache=true ticketCache="/t";'}, TicketSource(cache="/t")),
        ({"sasl.kerberos.keytab": "/k", "sasl.kerberos.principal": "a"}, TicketSource("kafka", "a", "/k")),
    ],
)
def test_where_tickets_come_from(properties: dict[str, str], expected: TicketSource) -> None:
    assert ticket_source(properties, jaas_fields(properties.get("sasl.jaas.config", ""))) == expected


def test_two_names_of_the_service_contradict_each_other() -> None:
    with pytest.raises(SettingError, match=r"sasl\.kerberos\.service\.name: 'a' contradicts serviceName='b'"):
        ticket_source({"sasl.kerberos.service.name": "a"}, {"serviceName": "b"})
