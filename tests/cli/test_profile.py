"""Profiles: saved clusters, which of several sources counts, and what others may read."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from moldau.cli.connection import properties_from
from tests.cli.conftest import Moldau
from tests.support.command import Ran, run


def test_set_use_show_and_delete(address: str, tmp_path: Path) -> None:
    def moldau(*arguments: object) -> Ran:
        return run(*arguments, environment={"MOLDAU_CONFIG": str(tmp_path / "deep" / "profiles.toml")})

    assert "no profiles" in moldau("profile", "list").err
    assert moldau("profile", "set", "here", f"bootstrap.servers={address}").code == 0
    assert moldau("profile", "set", "there", "bootstrap.servers=127.0.0.1:1", "client.id=me").code == 0
    assert moldau("profile", "list").rows == [["*", "here", address], ["there", "127.0.0.1:1"]]
    assert moldau("topic", "list").code == 0
    assert moldau("topic", "list", "--profile", "there").code == 3
    assert moldau("profile", "use", "there").code == 0
    assert moldau("topic", "list").code == 3
    assert moldau("topic", "list", "-p", "here").code == 0
    assert moldau("profile", "set", "there", "client.id=").code == 0
    assert moldau("profile", "show", "there", "-o", "json").document == {"bootstrap.servers": "127.0.0.1:1"}
    assert moldau("profile", "delete", "there").code == 0
    found = moldau("profile", "list", "-o", "json").document
    assert found == [{"name": "here", "current": False, "bootstrap.servers": address}]


def test_passwords_are_for_the_owner_alone(moldau: Moldau, tmp_path: Path) -> None:
    login = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="s3cret";'
    settings = ("security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", f"sasl.jaas.config={login}")
    assert moldau("profile", "set", "safe", "bootstrap.servers=kafka:9093", *settings).code == 0
    assert stat.S_IMODE((tmp_path / "profiles.toml").stat().st_mode) == 0o600
    assert "s3cret" not in moldau("profile", "show", "safe").out
    assert "s3cret" in moldau("profile", "show", "safe", "--show-secrets").out


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    file = tmp_path / "profiles.toml"
    file.write_text(
        'current = "current"\n'
        '[profiles.current]\n"bootstrap.servers" = "current:1"\n"sasl.password" = "for current alone"\n'
        "[profiles.other]\nbootstrap.servers = 'other:1'\nclient.id = 'nested'\n"
    )
    return {"MOLDAU_CONFIG": str(file)}


def test_which_servers_count(environment: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=file:1\n")

    def servers(env: dict[str, str], **options: object) -> str:
        return properties_from(**options, environment=environment | env)["bootstrap.servers"]  # type: ignore[arg-type]

    by_variable = {"MOLDAU_BOOTSTRAP_SERVERS": "variable:1"}
    assert servers({}) == "current:1"
    assert servers({"MOLDAU_PROFILE": "other"}) == "other:1"
    assert servers(by_variable) == "variable:1"
    assert servers(by_variable | {"MOLDAU_PROFILE": "other"}) == "variable:1"
    assert servers(by_variable, profile="other") == "other:1"
    assert servers(by_variable, command_config=file) == "file:1"
    assert servers(by_variable, command_config=file, config=["bootstrap.servers=option:1"]) == "option:1"
    assert servers(by_variable, config=["bootstrap.servers=option:1"], bootstrap="argument:1") == "argument:1"
    assert properties_from(environment={"MOLDAU_CONFIG": "/dev/null/x"}) == {"bootstrap.servers": "localhost:9092"}


def test_a_password_is_not_sent_to_another_cluster(environment: dict[str, str]) -> None:
    assert "sasl.password" in properties_from(environment=environment)
    assert properties_from(bootstrap="elsewhere:1", environment=environment) == {"bootstrap.servers": "elsewhere:1"}


def test_dotted_keys_may_nest(environment: dict[str, str]) -> None:
    assert properties_from(profile="other", environment=environment)["client.id"] == "nested"
