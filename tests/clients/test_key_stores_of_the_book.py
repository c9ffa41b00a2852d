"""SX-03, SX-04, SX-05, SX-06, SX-07, SX-08, SX-09, SX-10, SX-11: key stores made with keytool and openssl as the book
prints it, a broker that uses them, and clients with the file that the book gives them.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from moldau import Consumer, Producer
from moldau.cli.connection import read_properties
from moldau.client.cluster import Cluster
from moldau.client.errors import ClientError
from moldau.client.settings import ClientSettings
from moldau.clients.records import TopicPartition
from tests.cli.kafka_tools.player import our_tool
from tests.support.broker import Broker
from tests.support.command import run
from tests.support.names import own_name
from tests.support.process import free_port

PASSWORD = "masquerade"
NAME = "CN=kia.manning.com, OU=TEST, O=MASQUERADE, L=Portland, S=Or, C=US"
JAVA = Path(shutil.which("java") or "java").resolve()
KEYTOOL = shutil.which("keytool") or JAVA.parent / "keytool"
"""It comes with the Java that the set-up brings."""


def call(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def keytool(folder: Path, *arguments: str) -> None:
    call(folder, str(KEYTOOL), *arguments, "-storepass", PASSWORD, "-noprompt")


def make_authority(folder: Path, kind: str) -> None:
    """Listing 10.2, and the first step of 10.3: clients trust it."""
    call(
        folder, "openssl", "req", "-new", "-x509", "-keyout", "cakey.crt", "-out", "ca.crt", "-days", "365",
        "-subj", "/CN=localhost/OU=TEST/O=MASQUERADE/L=Portland/ST=Or/C=US", "-passout", f"pass:{PASSWORD}",
    )  # fmt: skip
    client = "kafka.client.truststore.jks"
    keytool(folder, "-keystore", client, "-alias", "CARoot", "-import", "-file", "ca.crt", "-storetype", kind)


def make_stores(folder: Path, kind: str) -> None:
    """Listings 10.1 to 10.3; the host's address is added to the certificate, since clients look for it."""
    broker, truststore = "kafka.broker0.keystore.jks", "kafka.server.truststore.jks"
    keytool(
        folder, "-genkey", "-alias", "localhost", "-dname", NAME, "-keystore", broker, "-keyalg", "RSA",
        "-keypass", PASSWORD, "-validity", "365", "-storetype", kind,
    )  # fmt: skip
    make_authority(folder, kind)
    keytool(folder, "-keystore", truststore, "-alias", "CARoot", "-import", "-file", "ca.crt", "-storetype", kind)
    keytool(folder, "-keystore", broker, "-alias", "localhost", "-certreq", "-file", "cert-file")
    (folder / "hosts").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    call(
        folder, "openssl", "x509", "-req", "-CA", "ca.crt", "-CAkey", "cakey.crt", "-in", "cert-file",
        "-out", "ca-signed.crt", "-days", "365", "-CAcreateserial", "-passin", f"pass:{PASSWORD}", "-extfile", "hosts",
    )  # fmt: skip
    keytool(folder, "-keystore", broker, "-alias", "CARoot", "-import", "-file", "ca.crt")
    keytool(folder, "-keystore", broker, "-alias", "localhost", "-import", "-file", "ca-signed.crt")


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_messages_go_by_tls_with_the_files_of_the_book_and_a_wrong_authority_is_refused(
    tmp_path: Path, kind: str
) -> None:
    make_stores(tmp_path, kind)
    port = free_port()
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:0,SSL://localhost:{port}",
        "ssl.truststore.location": tmp_path / "kafka.server.truststore.jks",
        "ssl.truststore.password": PASSWORD,
        "ssl.keystore.location": tmp_path / "kafka.broker0.keystore.jks",
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
    }
    with Broker(tmp_path / "broker", settings) as broker:
        topic, file = own_name("encrypted"), client_file(tmp_path, tmp_path)
        to = ["--bootstrap-server", f"localhost:{port}", "--topic", topic]
        sent = our_tool("kafka-console-producer", [*to, "--producer.config", str(file)], "a clue\n", tmp_path)
        assert sent.code == 0, sent
        reading = ["--from-beginning", "--max-messages", "1", "--timeout-ms", "60000"]
        read = our_tool("kafka-console-consumer", [*to, "--consumer.config", str(file), *reading], "", tmp_path)
        assert read.out.splitlines()[-1:] == ["a clue"], read
        assert topic in run("topic", "list", "--bootstrap-server", broker.address).out

        properties = read_properties(file) | {"bootstrap.servers": f"localhost:{port}"}
        assert_clients_of_ours_read(properties, topic)

        (tmp_path / "other").mkdir()
        make_authority(tmp_path / "other", kind)
        file = client_file(tmp_path, tmp_path / "other")
        refused = run("topic", "list", "--bootstrap-server", f"localhost:{port}", "--command-config", file)
        assert refused.code != 0 and "certificate verify failed" in refused.complaint


def test_a_client_shows_a_certificate_of_its_own_from_a_java_key_store(tmp_path: Path) -> None:
    make_stores(tmp_path, "JKS")
    port = free_port()
    store = {
        "ssl.keystore.location": str(tmp_path / "kafka.broker0.keystore.jks"),
        "ssl.keystore.password": PASSWORD,
        "ssl.key.password": PASSWORD,
    }
    trust = {
        "ssl.truststore.location": str(tmp_path / "kafka.server.truststore.jks"),
        "ssl.truststore.password": PASSWORD,
    }
    listeners = {"listeners": f"PLAINTEXT://127.0.0.1:0,SSL://localhost:{port}", "ssl.client.auth": "required"}
    client = {"bootstrap.servers": f"localhost:{port}", "security.protocol": "SSL", **trust}
    with Broker(tmp_path / "broker", {**listeners, **store, **trust}) as broker:
        topic = own_name("mutual")
        assert run("topic", "create", topic, "--bootstrap-server", broker.address).code == 0
        with Producer(client | store) as producer:
            producer.send(topic, b"a clue").result(60)
        assert_clients_of_ours_read(client | store, topic)
        with (
            pytest.raises(ClientError),
            Cluster(ClientSettings.from_properties(client | {"default.api.timeout.ms": "3000"})) as nameless,
        ):
            nameless.topic(topic)


def client_file(folder: Path, stores: Path) -> Path:
    """Listing 10.5."""
    file = folder / "custom-ssl.properties"
    file.write_text(
        "security.protocol=SSL\n"
        f"ssl.truststore.location={stores / 'kafka.client.truststore.jks'}\n"
        f"ssl.truststore.password={PASSWORD}\n"
    )
    file.chmod(0o600)
    return file


def assert_clients_of_ours_read(properties: dict[str, str], topic: str) -> None:
    with Consumer(properties | {"auto.offset.reset": "earliest"}) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert next(consumer.records(60)).value == b"a clue"
    with Cluster(ClientSettings.from_properties(properties)) as cluster:
        assert cluster.topic(topic).name == topic
