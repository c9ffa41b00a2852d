"""kafka-configs for users, clients and addresses, and a login with what it made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from moldau.cli.kafka import configs
from moldau.cli.kafka.connecting import close_all
from tests.support.broker import Broker
from tests.support.process import free_port

NAMED = ("--entity-type", "users", "--entity-name", "franz")


@pytest.fixture(scope="module")
def login_port() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory, login_port: int) -> Iterator[Broker]:
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,CLIENT://127.0.0.1:{login_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENT:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "connection.failed.authentication.delay.ms": 10,
    }
    with Broker(tmp_path_factory.mktemp("users"), settings) as running:
        yield running
    close_all()


@pytest.fixture
def tool(broker: Broker, capsys: pytest.CaptureFixture[str]) -> Iterator[object]:
    def run(*arguments: str) -> str:
        assert configs.main(["--bootstrap-server", broker.address, *arguments]) == 0
        close_all()
        return capsys.readouterr().out

    return run  # type: ignore[return-value]


def logs_in(port: int, password: str) -> bool:
    login = {"sasl.mechanism": "SCRAM-SHA-512", "sasl.username": "franz", "sasl.password": password, "log_level": 0}
    address = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT"}
    try:
        return bool(AdminClient({**address, **login}).list_topics(timeout=3).cluster_id)
    except KafkaException:
        return False


def test_a_user_is_made_logs_in_and_is_removed(tool: object, login_port: int) -> None:
    assert callable(tool)
    assert not logs_in(login_port, "kafka")
    made = tool("--alter", *NAMED, "--add-config", "SCRAM-SHA-512=[iterations=8192,password=kafka]")
    assert made == "Completed updating config for user franz.\n"
    told = "SCRAM credential configs for user-principal 'franz' are SCRAM-SHA-512=iterations=8192\n"
    assert tool("--describe", *NAMED) == told
    assert logs_in(login_port, "kafka")
    assert not logs_in(login_port, "Kafka")
    tool("--alter", *NAMED, "--delete-config", "SCRAM-SHA-512")
    assert not logs_in(login_port, "kafka")


def test_both_mechanisms_of_a_user_are_set_and_removed_with_one_command(tool: object) -> None:
    assert callable(tool)
    both = "SCRAM-SHA-256=[iterations=8192,password=kafka],SCRAM-SHA-512=[password=kafka]"
    tool("--alter", *NAMED, "--add-config", both)
    assert tool("--describe", *NAMED) == (
        "SCRAM credential configs for user-principal 'franz' are "
        "SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096\n"
    )
    tool("--alter", *NAMED, "--delete-config", "SCRAM-SHA-256,SCRAM-SHA-512")
    assert tool("--describe", *NAMED) == ""


def test_quotas_of_users_clients_and_addresses(tool: object) -> None:
    """SX-27 and SX-29: set, shown, and gone."""
    assert callable(tool)
    tool("--alter", *NAMED, "--add-config", "producer_byte_rate=1048576")
    tool("--alter", "--entity-type", "clients", "--entity-default", "--add-config", "consumer_byte_rate=2000000")
    tool("--alter", "--entity-type", "ips", "--entity-name", "127.0.0.9", "--add-config", "connection_creation_rate=5")
    assert tool("--describe", *NAMED) == "Quota configs for user-principal 'franz' are producer_byte_rate=1048576.0\n"
    assert tool("--describe", "--entity-type", "clients", "--entity-default") == (
        "Quota configs for the default client-id are consumer_byte_rate=2000000.0\n"
    )
    assert tool("--describe", "--entity-type", "ips") == (
        "Quota configs for ip '127.0.0.9' are connection_creation_rate=5.0\n"
    )
    tool("--alter", *NAMED, "--delete-config", "producer_byte_rate")
    assert tool("--describe", *NAMED) == ""
