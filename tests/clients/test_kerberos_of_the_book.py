"""SX-14, SX-15, SX-16: a broker and a tool that show Kerberos tickets over TLS (SASL_SSL), started as the book prints
it: login modules and `krb5.conf` are named in KAFKA_OPTS, and nowhere else.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_jaas_file import StartedByKafkasName
from tests.clients.test_key_stores_of_the_book import PASSWORD, make_stores
from tests.support.kdc import REALM, Kdc, is_expected, running_kdc
from tests.support.process import free_port

pytestmark = pytest.mark.skipif(not is_expected(), reason="no Kerberos server here (Debian: krb5-kdc)")

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
SERVER = f"""
KafkaServer {{
    {MODULE} required
    useKeyTab=true
    storeKey=true
    keyTab="{{keytab}}"
    principal="kafka/localhost@{REALM}";
}};

Client {{
    {MODULE} required
    useKeyTab=true
    storeKey=true
    keyTab="{{keytab}}"
    principal="kafka/localhost@{REALM}";
}};
"""
CLIENT = f"""
KafkaClient {{
    {MODULE} required
    useKeyTab=true
    storeKey=true
    keyTab="{{keytab}}"
    principal="kafkaclient@{REALM}";
}};
"""
CLIENT_PROPERTIES = """
security.protocol=SASL_SSL
sasl.kerberos.service.name=kafka
ssl.truststore.location={folder}/kafka.client.truststore.jks
ssl.truststore.password={password}
"""


class Book:
    def __init__(self, folder: Path, kdc: Kdc) -> None:
        self.folder, self.kdc = folder, kdc
        self.address = f"localhost:{free_port()}"
        make_stores(folder, "PKCS12")
        self.properties = folder / "client.properties"
        self.properties.write_text(CLIENT_PROPERTIES.format(folder=folder, password=PASSWORD))
        self.properties.chmod(0o600)
        self.client_file = self.written("client_jaas.conf", CLIENT, kdc.keytab("kafkaclient"))

    def written(self, name: str, text: str, keytab: Path) -> Path:
        file = self.folder / name
        file.write_text(text.replace("{keytab}", str(keytab)))
        file.chmod(0o600)
        return file

    def environment(self, modules: Path, krb5_conf: Path) -> dict[str, str]:
        flags = f"-Djava.security.auth.login.config={modules} -Djava.security.krb5.conf={krb5_conf}"
        found = os.environ | {"KAFKA_OPTS": f"{flags} -Dsun.security.krb5.debug=true"}
        found.pop("KRB5_CONFIG", None)
        return found

    def broker(self) -> StartedByKafkasName:
        stores = {
            f"ssl.{store}.{part}": value
            for store, file in (
                ("keystore", "kafka.broker0.keystore.jks"),
                ("truststore", "kafka.server.truststore.jks"),
            )
            for part, value in (("location", self.folder / file), ("password", PASSWORD))
        }
        return StartedByKafkasName(
            self.folder / "broker",
            {
                "listeners": f"PLAINTEXT://127.0.0.1:0,SASL_SSL://{self.address}",
                "sasl.kerberos.service.name": "kafka",
                "ssl.key.password": PASSWORD,
                "connection.failed.authentication.delay.ms": 10,
                **stores,
            },
        )

    def asks(self, modules: Path, krb5_conf: Path) -> subprocess.CompletedProcess[str]:
        tool = [sys.executable, "-m", "moldau.cli.kafka.entry", "kafka-broker-api-versions"]
        return subprocess.run(
            [*tool, "--bootstrap-server", self.address, "--command-config", str(self.properties)],
            env=self.environment(modules, krb5_conf), capture_output=True, text=True, timeout=90, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def book(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Book]:
    with running_kdc(tmp_path_factory.mktemp("kdc")) as kdc, pytest.MonkeyPatch.context() as patch:
        made = Book(tmp_path_factory.mktemp("book"), kdc)
        modules = made.written("broker0_jaas.conf", SERVER, kdc.keytab("kafka/localhost"))
        patch.delenv("KRB5_CONFIG", raising=False)
        patch.setenv("KAFKA_OPTS", made.environment(modules, kdc.folder / "krb5.conf")["KAFKA_OPTS"])
        with made.broker() as broker:
            yield made
            assert "Traceback" not in broker.output(), broker.output()


def test_a_client_with_its_key_table_gets_in(book: Book) -> None:
    done = book.asks(book.client_file, book.kdc.folder / "krb5.conf")
    assert done.returncode == 0, done.stderr
    assert "Produce(0)" in done.stdout


def test_a_client_without_a_ticket_is_refused(book: Book, tmp_path: Path) -> None:
    nowhere = book.written("no_jaas.conf", CLIENT, tmp_path / "nowhere.keytab")
    assert book.asks(nowhere, book.kdc.folder / "krb5.conf").returncode == 1
    empty = tmp_path / "krb.conf"
    empty.write_text("[libdefaults]\n dns_lookup_kdc = false\n")
    done = book.asks(book.client_file, empty)
    assert done.returncode == 1, "nobody knows where its Kerberos server is"
