"""Settings of clients: the worker's, a connector's, and which of them a connector may have."""

from __future__ import annotations

from pathlib import Path

from moldau.connect.configuration import make_job
from moldau.connect.worker.herder import Herder
from moldau.connect.worker.settings import WorkerSettings
from moldau.connect.worker.store import MemoryStore
from moldau.web import ApiError

CONNECTOR = {"name": "out", "connector.class": "FileStreamSink", "file": "f", "topics": "t"}
LOGIN = {"producer.override.security.protocol": "SSL", "admin.override.sasl.jaas.config": "x y;"}
OTHER = {"consumer.override.max.poll.records": "5", "producer.override.linger.ms": "7"}


def worker(folder: Path, **more: str) -> WorkerSettings:
    given = {
        "key.converter": "StringConverter",
        "value.converter": "StringConverter",
        "offset.storage.file.filename": str(folder / "offsets"),
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return WorkerSettings.of(given, distributed=False)


def refused(folder: Path, overrides: dict[str, str], **more: str) -> list[str]:
    settings = worker(folder, **more)
    herder = Herder(
        settings, MemoryStore(lambda _: None), None, "", lambda: None, lambda: 0, lambda: None, lambda: 0  # type: ignore[arg-type]
    )  # fmt: skip
    try:
        herder._check({**CONNECTOR, **overrides})
    except ApiError as error:
        return [line for line in error.message.splitlines() if "policy" in line]
    return []


def told(policy: str, *names: str) -> list[str]:
    wrong = "policy does not allow '{}' to be overridden in the connector configuration."
    return [f"The '{policy}' {wrong.format(name)}" for name in names]


def test_a_policy_says_what_a_connector_may_set(tmp_path: Path) -> None:
    name = "connector.client.config.override.policy"
    overrides = {**LOGIN, **OTHER}
    assert refused(tmp_path, overrides) == []
    assert refused(tmp_path, overrides, **{name: "All"}) == []
    found = told("None", "security.protocol", "sasl.jaas.config", "max.poll.records", "linger.ms")
    assert refused(tmp_path, overrides, **{name: "None"}) == found
    assert refused(tmp_path, overrides, **{name: "Principal"}) == told("Principal", "max.poll.records", "linger.ms")
    listed = {name: "Allowlist", "connector.client.config.override.allowlist": "linger.ms, sasl.jaas.config"}
    assert refused(tmp_path, overrides, **listed) == told("Allowlist", "security.protocol", "max.poll.records")
    assert refused(tmp_path, {}, **{name: "None"}) == []


def test_a_connectors_settings_come_before_the_workers(tmp_path: Path) -> None:
    settings = worker(
        tmp_path,
        producer_linger_ms="1",
        producer_acks="1",
        consumer_max_partition_fetch_bytes="2",
        admin_client_id="the worker's",
        admin_request_timeout_ms="3",
        listeners="http://:1",
        admin_listeners="http://:1",
    )
    overrides = {
        **OTHER,
        "consumer.override.security.protocol": "SSL",
        "consumer.override.client.id": "mine",
        "admin.override.client.id": "the connector's",
        "admin.override.security.protocol": "SASL_PLAINTEXT",
    }
    job = make_job({**CONNECTOR, **overrides}, settings.defaults)
    assert job.producer == {"linger.ms": "7", "acks": "1"}
    assert job.admin == {
        "client.id": "the connector's", "request.timeout.ms": "3", "security.protocol": "SASL_PLAINTEXT",
    }  # fmt: skip
    assert job.kafka_options(job.consumer) == {
        "kafka.bootstrap.servers": "localhost:9092",
        "kafka.max.partition.fetch.bytes": "2",
        "kafka.max.poll.records": "5",
        "kafka.security.protocol": "SSL",
        "kafka.client.id": "mine",
    }
    assert job.consumer_kafka == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SSL",
        "client.id": "mine",
    }
    assert job.admin_kafka == {"bootstrap.servers": "localhost:9092", **job.admin}
    assert job.admin_client.client_id == "the connector's"
