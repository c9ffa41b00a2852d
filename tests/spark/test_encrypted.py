"""A cluster that is reached through TLS only: the driver, the tasks and the sink all go there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.reading import Reads, run, run_to_end
from tests.support.broker import Broker
from tests.support.process import free_port
from tests.support.tls import make_certificates, tls_proxy


@dataclass(frozen=True)
class Encrypted:
    address: str
    options: dict[str, str]


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Encrypted]:
    """Clients that come through the proxy, which asks them for a certificate, are told to come that way again."""
    folder = tmp_path_factory.mktemp("encrypted")
    certificates = make_certificates(folder)
    plain, behind_proxy = free_port(), free_port()
    with tls_proxy(f"127.0.0.1:{behind_proxy}", certificates, ask_client=True) as address:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{plain},ENCRYPTED://127.0.0.1:{behind_proxy}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},ENCRYPTED://{address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,ENCRYPTED:PLAINTEXT",
        }
        broker = Broker(folder / "broker", settings)
        broker.start()
        options = {
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(certificates.certificate),
            "kafka.ssl.keystore.type": "PEM",
            "kafka.ssl.keystore.certificate.chain": certificates.certificate.read_text(),
            "kafka.ssl.keystore.key": certificates.key.read_text(),
        }
        yield Encrypted(address, options)
        assert broker.stop() == 0


def test_rows_go_to_a_topic_and_come_back(
    spark: SparkSession, encrypted: Encrypted, topic: str, tmp_path: Path
) -> None:
    to = {"kafka.bootstrap.servers": encrypted.address, **encrypted.options}
    numbers = spark.range(1000).selectExpr("cast(id as string) as value")
    numbers.write.format("moldau").options(topic=topic, **to).mode("append").save()
    reads = Reads(spark, encrypted.address)
    rows = reads.batch(subscribe=topic, **encrypted.options).collect()
    assert sorted(int(row.value) for row in rows) == list(range(1000))

    frame = reads.stream(subscribe=topic, startingOffsets="earliest", **encrypted.options).select("value")
    copy = f"{topic}-copy"
    writer = frame.writeStream.format("moldau").options(topic=copy, checkpointLocation=str(tmp_path / "copied"), **to)
    run(writer.trigger(availableNow=True))
    again = reads.stream(subscribe=copy, startingOffsets="earliest", **encrypted.options)
    streamed = run_to_end(again, tmp_path / "streamed")
    assert sorted(int(value) for value in streamed.values()) == list(range(1000))
