"""SX-14, SX-16: brokers and tools that are started as the book prints it, with their login modules in a file that
KAFKA_OPTS names."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.broker import Broker
from tests.support.command import run
from tests.support.process import BrokerFailed, free_port

AUTHORIZER = "kafka.security.auth.SimpleAclAuthorizer"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f"""
KafkaServer {{
    {MODULE} required
    user_franz="franz-secret";
}};

Client {{
    com.sun.security.auth.module.Krb5LoginModule required
    useKeyTab=true
    keyTab="/var/kafka_server0.keytab";
}};
"""


class StartedByKafkasName(Broker):
    def _command(self) -> list[str]:
        file = self.directory / "server.properties"
        settings = {"log.dirs": self.data, **self.settings}
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return [sys.executable, "-m", "moldau.cli.kafka.entry", "kafka-server-start", str(file)]


def options_of(file: Path) -> str:
    return (
        f"-Djava.security.auth.login.config={file} -Djava.security.krb5.conf=/var/krb.conf "
        "-Dsun.security.krb5.debug=true"
    )


@pytest.fixture
def settings() -> dict[str, object]:
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{free_port()}",
        "sasl.enabled.mechanisms": "PLAIN",
        "connection.failed.authentication.delay.ms": 10,
    }


def test_its_users_log_in_and_others_do_not(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "broker0_jaas.conf"
    file.write_text(JAAS)
    monkeypatch.setenv("KAFKA_OPTS", options_of(file))
    address = str(settings["listeners"]).rpartition("/")[2]
    client = {"bootstrap.servers": address, "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    with StartedByKafkasName(tmp_path / "broker", settings):
        right = AdminClient(client | {"sasl.username": "franz", "sasl.password": "franz-secret"})
        assert right.list_topics(timeout=60).cluster_id
        wrong = AdminClient(client | {"sasl.username": "franz", "sasl.password": "guessed", "log_level": 0})
        with pytest.raises(KafkaException):
            wrong.list_topics(timeout=3)


def test_tools_log_in_as_their_section_says(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both clients: librdkafka under `topic`, our own under `kafka-acls`."""
    server, client = tmp_path / "server_jaas.conf", tmp_path / "client_jaas.conf"
    server.write_text(JAAS.replace("franz-secret", r"s\"\\e"))
    monkeypatch.setenv("KAFKA_OPTS", options_of(server))
    with StartedByKafkasName(
        tmp_path / "broker", settings | {"authorizer.class.name": AUTHORIZER, "super.users": "User:franz"}
    ) as broker:
        address = str(settings["listeners"]).rpartition("/")[2]
        file = tmp_path / "client.properties"
        file.write_text("security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n")
        to = ("--bootstrap-server", address, "--command-config", str(file))
        monkeypatch.setenv("KAFKA_OPTS", options_of(client))
        for password, gets_in in ((r"s\"\\e", True), ("guessed", False)):
            client.write_text(f'KafkaClient {{ {MODULE} required username="franz" password="{password}"; }};')
            assert (run("topic", "list", *to).code == 0) is gets_in
            assert (run("security", "acl", "list", *to).code == 0) is gets_in
        client.write_text("KafkaClient { half a module")
        done = run("topic", "list", *to)
        assert f"java.security.auth.login.config={client}: " in done.complaint
        assert broker.running


def test_a_file_that_is_not_there_is_named(
    settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_OPTS", options_of(tmp_path / "missing.conf"))
    with pytest.raises(BrokerFailed, match=r"java\.security\.auth\.login\.config=.*missing\.conf: .*No such file"):
        StartedByKafkasName(tmp_path / "broker", settings).start()
