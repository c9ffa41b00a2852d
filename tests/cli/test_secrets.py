"""Secrets never show: not in the list of processes, in answers, in logs, in errors."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from tests.cli.kafka_tools.player import our_tool
from tests.support.broker import Broker
from tests.support.command import run
from tests.support.process import free_port

PASSWORD = "never-to-be-seen"
PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"


@pytest.fixture(scope="module")
def port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, port: int) -> Iterator[Broker]:
    folder = tmp_path_factory.mktemp("secrets")
    (folder / "secrets.properties").write_text(f"admin={PASSWORD}\n")
    module = 'PlainLoginModule required user_admin="${file:' + str(folder / "secrets.properties") + ':admin}";'
    settings = {
        "config.providers": "file",
        "config.providers.file.class": PROVIDER,
        "listeners": f"PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": module,
        "sasl.jaas.config": module,
        "delegation.token.secret.key": "${file:" + str(folder / "secrets.properties") + ":admin}",
    }
    with Broker(folder / "broker", settings) as running:
        yield running
    assert PASSWORD not in running.output()


def test_the_looked_up_password_lets_in_and_is_shown_nowhere(broker: Broker, port: int, tmp_path: Path) -> None:
    login = {"sasl.mechanism": "PLAIN", "sasl.username": "admin", "sasl.password": PASSWORD}
    address = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT"}
    admin = AdminClient(address | login)
    assert admin.list_topics(timeout=10).cluster_id
    command_lines = "".join(
        Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        for pid in os.listdir("/proc")
        if pid.isdigit() and Path(f"/proc/{pid}/cmdline").exists()
    )
    assert "moldau" in command_lines and PASSWORD not in command_lines
    resource = ConfigResource(ResourceType.BROKER, "1")
    found = admin.describe_configs([resource])[resource].result(10)
    assert "listener.name.client.plain.sasl.jaas.config" in found or "sasl.jaas.config" in found
    assert not any(PASSWORD in f"{entry.value}{entry.synonyms}" for entry in found.values())


def test_a_client_looks_its_password_up_too(broker: Broker, port: int, tmp_path: Path) -> None:
    (tmp_path / "client.secrets").write_text(f"password={PASSWORD}\n")
    file = tmp_path / "client.properties"
    file.write_text(
        f"bootstrap.servers=127.0.0.1:{port}\nsecurity.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f"config.providers=file\nconfig.providers.file.class={PROVIDER}\n"
        "sasl.jaas.config=PlainLoginModule required username=admin "
        f'password="${{file:{tmp_path}/client.secrets:password}}";\n'
    )
    assert run("topic", "list", "--command-config", file).code == 0
    (tmp_path / "client.secrets").write_text("other=x\n")
    assert "has no key password" in run("topic", "list", "--command-config", file).complaint


def test_a_file_with_passwords_that_others_may_read_is_told(tmp_path: Path) -> None:
    """SX-13."""
    file = tmp_path / "server.properties"
    lines = [
        "listeners=SASL_PLAINTEXT://127.0.0.1:99999",
        f"sasl.jaas.config=PlainLoginModule required user_a={PASSWORD}",
    ]
    file.write_text("\n".join([*lines, ""]))
    done = run("broker", "start", "--config", file)
    assert done.code == 2
    assert PASSWORD not in done.err + done.out
    file.write_text("listeners=PLAINTEXT://256.0.0.1:1\nssl.key.password=x\n")
    for mode, told in ((0o644, True), (0o640, False), (0o600, False)):
        file.chmod(mode)
        done = run("broker", "start", "--config", file, "--data", tmp_path / "data")
        assert done.code == 1
        assert ("holds passwords, and everybody on this machine may read" in done.err) == told


@pytest.mark.parametrize(("mode", "told"), [(0o644, True), (0o600, False)])
def test_a_clients_and_a_services_file_that_others_may_read_are_told_too(
    broker: Broker, tmp_path: Path, mode: int, told: bool
) -> None:
    file, plain = tmp_path / "client.properties", tmp_path / "plain.properties"
    file.write_text(f"bootstrap.servers={broker.address}\nssl.key.password=x\n")
    plain.write_text(f"bootstrap.servers={broker.address}\n")
    for path in (file, plain):
        path.chmod(mode)
    warned = f"warning: {file} holds passwords, and everybody on this machine may read or write it: chmod 600 it\n"
    listed = run("topic", "list", "--command-config", file)
    assert listed.code == 0 and listed.err.count(warned) == told
    assert "everybody" not in run("topic", "list", "--command-config", plain).err
    for service in ("registry", "rest"):
        started = run(service, "start", "--config", file, "--set", "listeners=nonsense")
        assert started.code == 2 and started.err.count(warned) == told


def test_every_file_with_secrets_that_others_may_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    modules, secrets = tmp_path / "jaas.conf", tmp_path / "secrets.properties"
    modules.write_text("KafkaServer { PlainLoginModule required user_a=x; };\n")
    secrets.write_text("key=x\n")
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={modules}")
    given = {
        "listeners": "PLAINTEXT://256.0.0.1:1",
        "log.dirs": str(tmp_path / "data"),
        "config.providers": "file",
        "config.providers.file.class": PROVIDER,
        "ssl.key.password": f"${{file:{secrets}:key}}",
    }
    for mode, told in ((0o644, True), (0o600, False)):
        for path in (modules, secrets):
            path.chmod(mode)
        done = run("broker", "start", *(part for name, text in given.items() for part in ("--set", f"{name}={text}")))
        assert done.code == 1
        assert (f"{modules} holds login modules, and everybody on this machine" in done.err) == told
        assert (f"{secrets} holds what settings refer to, and everybody" in done.err) == told


KERBEROS = 'KafkaServer { Krb5LoginModule required keyTab="%s" principal="kafka/a@B"; };'


@pytest.mark.parametrize(("mode", "told"), [(0o644, True), (0o600, False)])
def test_a_key_table_that_others_may_read_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, told: bool
) -> None:
    modules, keytab = tmp_path / "jaas.conf", tmp_path / "kafka.keytab"
    modules.write_text(KERBEROS % keytab)
    keytab.write_bytes(b"keys")
    keytab.chmod(mode)
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={modules}")
    listeners = "listeners=PLAINTEXT://256.0.0.1:1,SASL_PLAINTEXT://127.0.0.1:0"
    done = run("broker", "start", "--set", listeners, "--data", tmp_path / "data")
    assert done.code == 1
    assert (f"{keytab} holds Kerberos keys, and everybody on this machine" in done.err) == told


@pytest.mark.parametrize(
    "added",
    [
        f"SCRAM-SHA-512=[password={PASSWORD}]",
        f"SCRAM-SHA-256=[iterations=many,password={PASSWORD}]",
        f"SCRAM-SHA-256={PASSWORD}",
        f"SCRAM-SHA-256=[password=a],SCRAM-SHA-512={PASSWORD}",
    ],
)
@pytest.mark.parametrize("is_there", [True, False])
def test_kafka_configs_does_not_repeat_a_password(broker: Broker, added: str, is_there: bool, tmp_path: Path) -> None:
    server = broker.address if is_there else "127.0.0.1:1"
    arguments = ["--bootstrap-server", server, "--alter", "--entity-type", "users", "--entity-name", "a"]
    done = our_tool("kafka-configs", [*arguments, "--add-config", added], "", tmp_path)
    assert PASSWORD not in done.err + done.out
    assert done.code == (0 if is_there and "[password=never" in added else 1)


def test_kafka_configs_shows_the_arguments_that_are_no_secrets(tmp_path: Path) -> None:
    name = "listener.name.client.ssl.key.password"
    arguments = ["--bootstrap-server", "127.0.0.1:1", "--alter", "--broker", "1"]
    done = our_tool("kafka-configs", [*arguments, "--add-config", f"num.io.threads=4,{name}={PASSWORD}"], "", tmp_path)
    assert f"--broker 1 --add-config num.io.threads=4,{name}=[hidden]'" in done.err
    assert PASSWORD not in done.err + done.out


def test_the_measuring_producer_does_not_repeat_a_property_that_it_refuses(tmp_path: Path) -> None:
    login = f"sasl.jaas.config=PlainLoginModule required password={PASSWORD};"
    arguments = ["--topic", "a", "--num-records", "1", "--record-size", "1", "--throughput", "-1"]
    done = our_tool("kafka-producer-perf-test", [*arguments, "--command-property", login], "", tmp_path)
    assert done.code == 1 and "Invalid property: sasl.jaas.config=[hidden]" in done.err
    assert PASSWORD not in done.err + done.out


def test_a_password_that_is_set_is_not_repeated(broker: Broker) -> None:
    name = "listener.name.client.ssl.key.password"
    environment = {"MOLDAU_BOOTSTRAP_SERVERS": broker.address}
    done = run("config", "set", "broker", "1", f"{name}={PASSWORD}", "--dry-run", environment=environment)
    assert (done.code, done.out) == (0, f"broker 1: would have set {name}=[hidden]\n")


def test_a_secret_that_is_not_there_stops_the_start(tmp_path: Path) -> None:
    given = {
        "config.providers": "file",
        "config.providers.file.class": PROVIDER,
        "ssl.key.password": f"${{file:{tmp_path}/none:key}}",
    }
    done = run("broker", "start", *(part for name, text in given.items() for part in ("--set", f"{name}={text}")))
    assert done.code == 2
    assert f"ssl.key.password: ${{file:{tmp_path}/none:key}}: {tmp_path}/none: No such file" in done.err
