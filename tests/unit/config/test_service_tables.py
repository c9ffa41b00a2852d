"""Settings of services: older names, slips, and values that make no sense."""

from __future__ import annotations

import logging

import pytest

from moldau.config.definition import ConfigError
from moldau.config.service_tables import parse_settings, renamed, tell_unknown
from moldau.registry.node import KNOWN, OLDER, PREFIX, RegistrySettings
from moldau.rest import settings as rest
from moldau.web import WEB_SETTINGS

REGISTRY = {"kafkastore.bootstrap.servers": "b:9092"}


def test_a_slip_is_told_with_what_may_be_meant(caplog: pytest.LogCaptureFixture) -> None:
    given = ["schema.compatability.level", "listeners", "kafkastore.security.protocol", "ssl.keystore.password", "zzz"]
    tell_unknown(given, KNOWN, (PREFIX,))
    assert [record.getMessage() for record in caplog.records] == [
        "the setting schema.compatability.level is not known, and ignored: is schema.compatibility.level meant?",
        "the setting zzz is not known, and ignored",
    ]
    caplog.clear()
    tell_unknown(["client.sasl.mechanism", "bootstrap.servers", "tail.max"], rest.KNOWN, rest.PREFIXES)
    assert not caplog.records


def test_older_names_are_taken(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    given = {"avro.compatibility.level": "full", "master.eligibility": "false", **REGISTRY}
    values = RegistrySettings.of(given).values
    assert (values["schema.compatibility.level"], values["leader.eligibility"]) == ("full", False)
    assert "the setting master.eligibility is called leader.eligibility now" in caplog.text
    assert renamed({"master.eligibility": "false", "leader.eligibility": "true"}, OLDER) == {
        "leader.eligibility": "true"
    }


@pytest.mark.parametrize(
    "wrong",
    [{"schema.workers": "0"}, {"schema.timeout.ms": "-1"}, {"max.request.bytes": "0"}, {"kafkastore.timeout.ms": "0"}],
)
def test_numbers_have_bounds(wrong: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        RegistrySettings.of({**REGISTRY, **wrong})


def test_defaults_are_within_the_bounds() -> None:
    for table in (WEB_SETTINGS, rest.SETTINGS):
        texts = {name: each.default for name, each in table.items() if each.default is not None}
        assert parse_settings(table, texts) == parse_settings(table, {})
