"""kafka-storage: a cluster is formed with its users before its first start."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from moldau.cli.kafka.entry import run
from tests.support.broker import Broker
from tests.support.process import free_port

CLUSTER_ID = "MkU3OEVBNTcwNTJENDM2Qk"
ADMIN = "SCRAM-SHA-256=[name=admin,password=secret]"


def properties(folder: Path, *more: str) -> str:
    file = folder / "server.properties"
    file.write_text("\n".join(["node.id=1", f"log.dirs={folder / 'a'},{folder / 'b'}", *more]) + "\n")
    return str(file)


def test_a_broker_starts_on_what_was_formatted_and_its_users_log_in(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config, port = properties(tmp_path), free_port()
    users = ["--add-scram", ADMIN, "-S", 'SCRAM-SHA-512=[name=admin,iterations=8192,password="quoted"]']
    assert run("kafka-storage.sh", ["format", "--config", config, "--cluster-id", CLUSTER_ID, *users]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"Formatting metadata directory {tmp_path / 'a'} with metadata.version 4.3-IV0.",
        f"Formatting data directory {tmp_path / 'b'} with metadata.version 4.3-IV0.",
    ]
    settings = {
        "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}",
        "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:{port}",
        "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
    }
    with Broker(tmp_path / "broker", settings):
        for mechanism, password in (("SCRAM-SHA-256", "secret"), ("SCRAM-SHA-512", "quoted")):
            login = {"sasl.mechanism": mechanism, "sasl.username": "admin", "sasl.password": password}
            address = {"bootstrap.servers": f"127.0.0.1:{port}", "security.protocol": "SASL_PLAINTEXT"}
            assert AdminClient(address | login).list_topics(timeout=10).cluster_id == CLUSTER_ID


def test_keys_and_login_modules_may_come_after_the_folders_are_formatted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    locked = "CLIENTS://localhost:9094,SASL_PLAINTEXT://localhost:9092,SSL://localhost:9093,CONTROLLER://localhost:9095"
    between = ["inter.broker.listener.name=SASL_PLAINTEXT", "controller.listener.names=CONTROLLER"]
    kinds = "listener.security.protocol.map=CLIENTS:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT"
    config = properties(tmp_path, f"listeners={locked}", f"advertised.listeners={locked}", *between, kinds)
    assert run("kafka-storage", ["format", "-c", config, "-t", CLUSTER_ID, "--standalone", "-S", ADMIN]) == 0
    assert run("kafka-storage", ["info", "-c", config]) == 0
    capsys.readouterr()
    assert run("kafka-storage", ["info", "-c", properties(tmp_path, "listeners=SSL//localhost:9093")]) == 1
    assert "Expected NAME://host:port" in capsys.readouterr().err


def test_what_is_formatted_is_left_alone_unless_told_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = properties(tmp_path)
    form = ["format", "-c", config, "-t", CLUSTER_ID]
    assert run("kafka-storage", form) == 0
    before = (tmp_path / "a" / "meta.properties").read_bytes()
    assert run("kafka-storage", form) == 1
    assert f"Log directory {tmp_path / 'a'} is already formatted. Use --ignore-formatted" in capsys.readouterr().err
    assert run("kafka-storage", [*form, "-g", "-S", ADMIN]) == 0
    said = capsys.readouterr()
    assert said.out == "All of the log directories are already formatted.\n"
    assert "users are left as they are" in said.err
    assert (tmp_path / "a" / "meta.properties").read_bytes() == before
    assert run("kafka-storage", ["format", "-c", config, "-g", "-t", "another-cluster-of-mine"]) == 1
    assert "Invalid cluster.id in" in capsys.readouterr().err


def test_what_is_interrupted_after_the_metadata_is_gone_on_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = properties(tmp_path)
    form = ["format", "-c", config, "-t", CLUSTER_ID, "-S", ADMIN]
    assert run("kafka-storage", form) == 0
    for folder in "ab":
        (tmp_path / folder / "meta.properties").unlink()
    assert run("kafka-storage", [*form[:4], "other"]) == 1
    assert f"The metadata belong to cluster {CLUSTER_ID}, not to other" in capsys.readouterr().err
    assert run("kafka-storage", form) == 0
    assert run("kafka-storage", ["info", "-c", config]) == 0
    assert f"cluster.id={CLUSTER_ID}" in capsys.readouterr().out


def test_info_tells_folders_and_what_is_wrong_with_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = properties(tmp_path)
    (tmp_path / "a").mkdir()
    assert run("kafka-storage", ["info", "-c", config]) == 1
    out = capsys.readouterr().out
    assert out == (
        f"Found log directory:\n  {tmp_path / 'a'}\n\n"
        f"Found problems:\n  {tmp_path / 'a'} is not formatted.\n  {tmp_path / 'b'} does not exist\n\n"
    )


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument"),
        ("SCRAM-SHA-1=[name=a,password=secret]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ("SCRAM-SHA-256=name=a,password=secret", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a,password=secret", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[password=secret]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=c2VjcmV0]", "You must supply 'salt' with 'saltedpassword'"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=100]", "The 'iterations' value must be >= 4096"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=16385]", "The 'iterations' value must be <= 16384"),
        ("SCRAM-SHA-256=[name=a,password=secret,iterations=many]", "Failed to parse iterations count: many"),
        ("SCRAM-SHA-256=[name=a,password=secret,salt=!]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,secret]", "No equals sign found in SCRAM component"),
        ("SCRAM-SHA-256=[name=a,password=secret,colour=red]", "Unknown SCRAM configurations: colour"),
    ],
)
def test_a_user_that_cannot_be_added_is_told_without_its_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argument: str, said: str
) -> None:
    config = properties(tmp_path)
    assert run("kafka-storage", ["format", "-c", config, "-t", CLUSTER_ID, "-S", argument]) == 1
    told = capsys.readouterr()
    assert said in told.err
    assert "secret" not in told.out + told.err
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "too few arguments"),
        (("format", "-t", "x"), "argument --config/-c is required"),
        (("format", "-c", "{config}"), "argument --cluster-id/-t is required"),
        (("format", "-c", "/no/such/file", "-t", "x"), "No such file"),
        (("format", "-c", "{config}", "-t", "x", "-f", "group.version"), "Can't parse feature=level string"),
        (("format", "-c", "{config}", "-t", "x", "-f", "colour=1"), "Unsupported feature: colour"),
        (
            ("format", "-c", "{config}", "-t", "x", "-f", "group.version=9"),
            "No feature:group.version with",
        ),
    ],
)
def test_what_cannot_be_used_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str
) -> None:
    config = properties(tmp_path)
    assert run("kafka-storage", [each.format(config=config) for each in arguments]) == 1
    assert said in capsys.readouterr().err


def test_a_random_id_is_one_that_format_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("kafka-storage", ["random-uuid"]) == 0
    unique = capsys.readouterr().out.strip()
    assert len(unique) == 22
    assert run("kafka-storage", ["format", "-c", properties(tmp_path), "-t", unique, "-N"]) == 0
