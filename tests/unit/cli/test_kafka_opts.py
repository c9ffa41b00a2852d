"""The files that KAFKA_OPTS names: what a command takes from there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from moldau.cli.jaas_file import use_kerberos_file, with_client_login
from moldau.cli.zookeeper.client import security_of

FLAG = "-Djava.security.krb5.conf=/var/krb.conf"


def test_kerberos_has_its_file_unless_the_system_says_otherwise() -> None:
    named = {"KAFKA_OPTS": f"-Xmx1g {FLAG} -Dsun.security.krb5.debug=true"}
    told = {"KAFKA_OPTS": FLAG, "KRB5_CONFIG": "/x"}
    other = {"KAFKA_OPTS": "-Xmx1g"}
    for environment in (named, told, other):
        use_kerberos_file(environment)
    assert named["KRB5_CONFIG"] == "/var/krb.conf"
    assert told["KRB5_CONFIG"] == "/x"
    assert "KRB5_CONFIG" not in other


@pytest.mark.parametrize(
    ("properties", "is_used"),
    [
        ({"security.protocol": "SASL_PLAINTEXT"}, True),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}, True),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN"}, False),
        ({"security.protocol": "SSL"}, False),
    ],
)
def test_a_client_takes_it_where_it_logs_in_with_kerberos(properties: dict[str, str], is_used: bool) -> None:
    environment = {"KAFKA_OPTS": FLAG}
    with_client_login(properties, environment)
    assert ("KRB5_CONFIG" in environment) == is_used


@pytest.mark.parametrize(("module", "is_used"), [("Krb5LoginModule", True), ("DigestLoginModule", False)])
def test_so_does_a_client_of_zookeeper(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, is_used: bool
) -> None:
    file = tmp_path / "jaas.conf"
    file.write_text(f'Client {{ {module} required username="a" password="b"; }};')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={file} {FLAG}")
    monkeypatch.setenv("KRB5_CONFIG", "")
    monkeypatch.delenv("KRB5_CONFIG")
    security_of({})
    assert (os.environ.get("KRB5_CONFIG") == "/var/krb.conf") == is_used
