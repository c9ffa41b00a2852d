"""Settings of converters: those of a registry are the clients', and those that nobody knows are told."""

from __future__ import annotations

import logging

import pytest

from moldau.connect.configuration import WorkerDefaults, make_converter
from moldau.connect.registered import RegisteredConverter

AVRO = "io.confluent.connect.avro.AvroConverter"


def converter(**settings: str) -> RegisteredConverter:
    given = {
        "value.converter": AVRO,
        "value.converter.schema.registry.url": "https://a:8081,https://b:8081/",
        **{f"value.converter.{name.replace('_', '.')}": text for name, text in settings.items()},
    }
    made = make_converter(given, "value.converter", WorkerDefaults({}, {}, {}, {}, "group", "offsets"))
    assert isinstance(made, RegisteredConverter)
    return made


def test_a_registry_is_reached_as_by_other_clients() -> None:
    found = converter(
        schema_registry_ssl_truststore_location="/t.p12",
        schema_registry_ssl_truststore_password="changeit",
        bearer_auth_token="t0k",
        basic_auth_user_info="a:b",
    ).registry
    assert found.urls == ("https://a:8081", "https://b:8081")
    assert dict(found.settings) == {
        "schema.registry.ssl.truststore.location": "/t.p12",
        "schema.registry.ssl.truststore.password": "changeit",
        "bearer.auth.token": "t0k",
    }
    named = converter(basic_auth_user_info="a:b", basic_auth_credentials_source="USER_INFO").registry
    assert dict(named.settings) == {"basic.auth.user.info": "a:b"}


def test_settings_that_a_converter_does_not_know_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        converter(schema_registry_ssl_trustore_location="/t.p12", auto_register_schemas="false")
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.endswith("have no effect: schema.registry.ssl.trustore.location")
