"""A broker that asks who is there: the driver, the tasks and the exactly-once sink say it, with each mechanism."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion
from pyspark.sql import SparkSession

from moldau.tls.authority import issue, open_authority
from tests.spark.reading import Reads, run
from tests.support.broker import Broker
from tests.support.process import free_port
from tests.support.token_server import AUDIENCE, ISSUER, token_server

USER, PASSWORD = "alice", "alice-secret"
MODULES = "org.apache.kafka.common.security"
SCRAM = {"SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256, "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512}
ROWS = 300
WAYS = ("SSL", "PLAIN", *SCRAM, "OAUTHBEARER")


@dataclass(frozen=True)
class Secured:
    open_address: str
    options: Mapping[str, Mapping[str, str]]
    """By mechanism; SSL stands for a certificate of the client's own."""


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    now = datetime.now(UTC)
    authority = open_authority(folder, now)
    of_broker, of_client = issue(authority, "broker", now, ["127.0.0.1"]), issue(authority, USER, now)
    mutual, login = (f"127.0.0.1:{free_port()}" for _ in range(2))
    with token_server({USER: PASSWORD}) as tokens:
        settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:0,MUTUAL://{mutual},LOGIN://{login}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,MUTUAL:SSL,LOGIN:SASL_SSL",
            "ssl.keystore.location": of_broker,
            "ssl.truststore.location": authority.certificate_file,
            "listener.name.mutual.ssl.client.auth": "required",
            "sasl.enabled.mechanisms": ",".join(("PLAIN", *SCRAM, "OAUTHBEARER")),
            "listener.name.login.plain.sasl.jaas.config": (
                f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
            ),
            "sasl.oauthbearer.jwks.endpoint.url": tokens.keys_url,
            "sasl.oauthbearer.expected.issuer": ISSUER,
            "sasl.oauthbearer.expected.audience": AUDIENCE,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER};User:CN={USER}",
        }
        broker = Broker(folder / "broker", settings)
        with broker:
            make_scram_users(broker.address)
            common = {"kafka.ssl.truststore.location": str(authority.certificate_file)}
            yield Secured(
                broker.address,
                {
                    "SSL": {
                        "kafka.bootstrap.servers": mutual,
                        "kafka.security.protocol": "SSL",
                        "kafka.ssl.keystore.location": as_pkcs12(of_client),
                        "kafka.ssl.keystore.password": PASSWORD,
                        **common,
                    },
                    **{
                        mechanism: {
                            "kafka.bootstrap.servers": login,
                            "kafka.security.protocol": "SASL_SSL",
                            "kafka.sasl.mechanism": mechanism,
                            **logs_in_by(mechanism, tokens.token_url),
                            **common,
                        }
                        for mechanism in WAYS[1:]
                    },
                },
            )
            assert broker.stop() == 0, broker.output()


def make_scram_users(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    for kind in SCRAM.values():
        wanted = UserScramCredentialUpsertion(USER, ScramCredentialInfo(kind, 4096), PASSWORD.encode())
        for future in admin.alter_user_scram_credentials([wanted]).values():
            future.result(60)


def as_pkcs12(keys: Path) -> str:
    """As keytool writes a key store since Java 9."""
    store = keys.with_suffix(".jks")
    command = ["openssl", "pkcs12", "-export", "-in", str(keys), "-out", str(store), "-passout", f"pass:{PASSWORD}"]
    subprocess.run(command, check=True, capture_output=True)
    return str(store)


def logs_in_by(mechanism: str, token_url: str) -> dict[str, str]:
    if mechanism == "OAUTHBEARER":
        module = f'{MODULES}.oauthbearer.OAuthBearerLoginModule required clientId="{USER}" clientSecret="{PASSWORD}"'
        return {
            "kafka.sasl.oauthbearer.token.endpoint.url": token_url,
            "kafka.sasl.jaas.config": f'{module} scope="kafka";',
        }
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    login = f'{MODULES}.{module} required username="{USER}" password="{PASSWORD}";'
    return {"kafka.sasl.jaas.config": login}


@pytest.mark.parametrize("way", WAYS)
def test_rows_go_to_a_topic_and_come_back(
    spark: SparkSession, secured: Secured, topic: str, tmp_path: Path, way: str
) -> None:
    options, copy = dict(secured.options[way]), f"{topic}-copy"
    numbers = spark.range(ROWS).selectExpr("cast(id as string) as value")
    numbers.write.format("moldau").options(topic=topic, **options).mode("append").save()

    source = spark.readStream.format("moldau").options(subscribe=topic, startingOffsets="earliest", **options).load()
    writer = source.select("value").writeStream.format("moldau").options(topic=copy, **options)
    run(writer.option("checkpointLocation", str(tmp_path / "copied")).trigger(availableNow=True))

    rows = spark.read.format("moldau").options(subscribe=copy, **options).load().collect()
    assert sorted(int(row.value) for row in rows) == list(range(ROWS))
    behind_the_door = Reads(spark, secured.open_address).batch(subscribe=copy).collect()
    assert sorted(bytes(row.value) for row in behind_the_door) == sorted(bytes(row.value) for row in rows)
