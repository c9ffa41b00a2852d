"""Whatever is wrong is one line that says so and what to do, with an exit code that is not 0 and no traceback."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Moldau
from tests.support.command import run
from tests.support.process import free_port

COMMANDS = [
    ["topic", "list"],
    ["topic", "describe", "orders"],
    ["topic", "create", "orders"],
    ["group", "list"],
    ["group", "describe", "billing"],
    ["config", "get", "topic", "orders"],
    ["config", "get", "brokers"],
    ["cluster", "describe"],
    ["cluster", "health"],
    ["txn", "list"],
    ["txn", "describe", "id"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nobody_listens(command: list[str]) -> None:
    refused = run(*command, "-b", f"127.0.0.1:{free_port()}")
    assert refused.code == 3
    assert "Connection refused" in refused.complaint and "--bootstrap-server" in refused.complaint


def test_a_host_that_does_not_exist() -> None:
    refused = run("topic", "list", "-b", "no-such-host.invalid:9092")
    assert refused.code == 3 and "no-such-host.invalid:9092" in refused.complaint


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Somebody listens there and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_port_where_no_broker_is(silent_port: int) -> None:
    refused = run("topic", "list", "-b", f"127.0.0.1:{silent_port}", "-X", "default.api.timeout.ms=1000")
    assert refused.code == 3 and "no broker answers" in refused.complaint


def test_a_broker_without_tls(moldau: Moldau) -> None:
    refused = moldau("topic", "list", "-X", "security.protocol=SSL")
    assert refused.code == 3 and "SSL" in refused.complaint


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["tpic", "list"], 2, "Did you mean 'topic'"),
        (["topic", "lst"], 2, "Did you mean 'list'"),
        (["topic", "list", "--outputt", "json"], 2, "--outputt"),
        (["topic", "list", "--output", "xml"], 2, "'xml'"),
        (["topic", "describe"], 2, "TOPIC"),
        (["topic", "create"], 2, "no topic was named"),
        (["topic", "create", "t", "--partitions", "many"], 2, "'many'"),
        (["topic", "create", "t", "--partitions", "0"], 2, "0 is not in the range"),
        (["topic", "create", "t", "--set", "retention.ms"], 2, "KEY=VALUE"),
        (["topic", "create", "t", "--replication-factor", "9"], 1, "moldau cluster describe"),
        (["topic", "create", "not a name"], 2, "contains one or more characters"),
        (["topic", "create", "x" * 300], 2, "249"),
        (["topic", "create", ".."], 2, "'..' is not allowed"),
        (["topic", "create", ""], 2, "empty"),
        (["topic", "alter", "t"], 2, "--partitions"),
        (["topic", "truncate", "t", "--before", "1", "--before-time", "-1h"], 2, "exclude each other"),
        (["topic", "list", "--config", "nonsense"], 2, "KEY=VALUE"),
        (["topic", "list", "--config", "no.such.property=1"], 2, "no.such.property"),
        (["topic", "list", "--config", "retention.ms=1"], 2, "--set"),
        (["topic", "list", "--config", "socket.timeout.ms=soon"], 2, "socket.timeout.ms"),
        (["topic", "list", "--config", "default.api.timeout.ms=soon"], 2, "default.api.timeout.ms"),
        (["topic", "list", "-b", "localhost"], 2, "host:port"),
        (["topic", "list", "-b", ""], 2, "host:port"),
        (["topic", "list", "-p", "nowhere"], 4, "moldau profile set nowhere"),
        (["topic", "list", "--command-config", "/no/such/file"], 2, "No such file"),
        (["topic", "create", "--from-file", "/no/such/file"], 2, "No such file"),
        (["group", "list", "--state", "Stabel"], 2, "did you mean 'stable'?"),
        (["group", "list", "--type", "new"], 2, "classic, consumer"),
        (["group", "reset", "g", "--from-file", "/no/such/file"], 2, "No such file"),
        (["config", "get", "topics"], 2, "'topics'"),
        (["config", "get", "topic", "no-such-topic-here"], 4, "does not exist"),
        (["txn", "abort"], 2, "TRANSACTIONAL_ID"),
        (["txn", "list", "--longer-than", "long"], 2, "is no duration"),
        (
            ["txn", "list", "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=OAUTHBEARER"],
            2,
            "knows no OAUTHBEARER",
        ),
        (
            ["topic", "list", "-X", "security.protocol=SASL_PLAINTEXT"],
            2,
            "GSSAPI, Kafka's default where no mechanism is given, is not in this build of confluent-kafka",
        ),
        (
            ["topic", "list", "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=SCRAM-SHA-1"],
            2,
            "'SCRAM-SHA-1' is none of PLAIN, SCRAM-SHA-256",
        ),
        (["txn", "list", "-X", "security.protocol=SSL", "-X", "ssl.keystore.location=/me.p12"], 2, "No such file"),
        (["profile", "show", "nowhere"], 4, "no profile 'nowhere'"),
        (["profile", "set", "p", "bootstrap.servers"], 2, "KEY=VALUE"),
        (["profile", "set", "p", "no.such.property=1"], 2, "no.such.property"),
        (["profile", "set", "p", "ssl.truststore.location=/no/ca.pem"], 2, "there is no /no/ca.pem"),
        (["topic", "list", "-X", "ssl.truststore.location=ca.jks"], 2, "there is no ca.jks"),
    ],
    ids=lambda value: " ".join(value)[:60] if isinstance(value, list) else None,
)
def test_wrong_arguments(moldau: Moldau, arguments: list[str], code: int, said: str) -> None:
    refused = moldau(*arguments)
    assert refused.code == code
    assert said in refused.complaint
    assert refused.out == ""


def test_kerberos_needs_its_package(moldau: Moldau, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moldau.client.settings.can_have_tickets", lambda: False)
    refused = moldau("txn", "list", "-X", "security.protocol=SASL_PLAINTEXT")
    assert refused.code == 2
    assert "pip install 'moldau[kerberos]'" in refused.complaint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is not JSON"),
        ('"orders"', "item 0 is no object"),
        ("[]", "empty list"),
        ('[{"partitions": 1}]', "'name' is missing"),
        ('[{"name": "x", "partitions": "3"}]', "'partitions' must be a whole number"),
        ('[{"name": "x", "partition": 3}]', "did you mean 'partitions'?"),
        ('[{"name": "x", "config": [1]}]', "'config' must be an object"),
        ('[{"name": "x", "config": {"retention.ms": null}}]', "must be a text"),
    ],
)
def test_malformed_json(moldau: Moldau, tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "topics.json"
    file.write_text(content)
    refused = moldau("topic", "create", "--from-file", file)
    assert refused.code == 2 and said in refused.complaint and str(file) in refused.complaint


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[{]", "is not JSON"),
        ('{"group": "g"}', "'offsets' is missing"),
        ('[{"group": "a", "offsets": []}, {"group": "b", "offsets": []}]', "several groups"),
        ('{"group": "g", "offsets": [{"topic": "t", "partition": "0", "offset": 1}]}', "'partition' must be"),
        ('{"group": "g", "offsets": [7]}', "is no object"),
        ("orders,0\n", "line 1: expected topic,partition,offset"),
        ("orders,0,last\n", "line 1: expected topic,partition,offset"),
        ("", "no offsets"),
    ],
)
def test_malformed_offsets(moldau: Moldau, content: str, said: str) -> None:
    refused = moldau("group", "reset", "g", "--from-file", "-", stdin=content)
    assert refused.code == 2 and said in refused.complaint


def test_malformed_properties(moldau: Moldau, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\nclient.id=\\u00zz\n")
    refused = moldau("topic", "list", "--command-config", file)
    assert refused.code == 2 and "line 2" in refused.complaint and str(file) in refused.complaint


def test_profiles_that_are_no_toml(address: str, tmp_path: Path) -> None:
    file = tmp_path / "profiles.toml"
    for content, said in [
        ("current =", "is not TOML"),
        ("profiles = 3", "[profiles.NAME]"),
        ("current = 3", "current"),
    ]:
        file.write_text(content)
        refused = run("topic", "list", environment={"MOLDAU_CONFIG": str(file)})
        assert refused.code == 2 and said in refused.complaint
        assert run("topic", "list", "-b", address, environment={"MOLDAU_CONFIG": str(file)}).code == 0


def test_a_profile_in_use_that_is_gone(tmp_path: Path) -> None:
    (tmp_path / "profiles.toml").write_text('current = "gone"\n')
    refused = run("topic", "list", environment={"MOLDAU_CONFIG": str(tmp_path / "profiles.toml")})
    assert refused.code == 4 and "no profile 'gone'" in refused.complaint
