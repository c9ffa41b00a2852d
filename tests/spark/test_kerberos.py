"""A cluster behind Kerberos and TLS: driver, tasks and both sinks show tickets that they get with a key table."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from moldau.tls.authority import issue, open_authority
from tests.spark.reading import Reads, run
from tests.support.broker import Broker
from tests.support.kdc import REALM, is_expected, running_kdc
from tests.support.process import free_port

pytestmark = pytest.mark.skipif(not is_expected(), reason="no Kerberos server here (Debian: krb5-kdc)")

MODULE = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"


@pytest.fixture(scope="module")
def options(kerberos_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder, port = tmp_path_factory.mktemp("kerberos"), free_port()
    authority = open_authority(folder / "authority", datetime.now(UTC))
    with running_kdc(kerberos_folder) as kdc:
        broker = Broker(
            folder / "broker",
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,CLIENTS://localhost:{port}",
                "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL",
                "ssl.keystore.location": str(issue(authority, "broker", datetime.now(UTC), ("localhost",))),
                "sasl.enabled.mechanisms": "GSSAPI",
                "listener.name.clients.gssapi.sasl.jaas.config": (
                    f'{MODULE} keyTab="{kdc.keytab("kafka/localhost")}" principal="kafka/localhost@{REALM}";'
                ),
                "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
                "super.users": "User:alice",
            },
        )
        broker.start()
        yield {
            "kafka.bootstrap.servers": f"localhost:{port}",
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "GSSAPI",
            "kafka.sasl.kerberos.service.name": "kafka",
            "kafka.sasl.jaas.config": f'{MODULE} keyTab="{kdc.keytab("alice")}" principal="alice@{REALM}";',
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(authority.certificate_file),
        }
        assert broker.stop() == 0


def test_rows_are_written_read_and_copied_exactly_once(
    spark: SparkSession, options: dict[str, str], topic: str, tmp_path: Path
) -> None:
    numbers = spark.range(100).selectExpr("cast(id as string) as value")
    numbers.write.format("moldau").options(topic=topic, **options).mode("append").save()
    reads = Reads(spark, options["kafka.bootstrap.servers"])
    frame = reads.stream(subscribe=topic, startingOffsets="earliest", **options).select("value")
    copy = f"{topic}-copy"
    to = {"topic": copy, "delivery": "exactly-once", "checkpointLocation": str(tmp_path / "copied"), **options}
    run(frame.writeStream.format("moldau").options(**to).trigger(availableNow=True))
    rows = reads.batch(subscribe=copy, **options).collect()
    assert sorted(int(row.value) for row in rows) == list(range(100))
