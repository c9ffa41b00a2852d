"""Key and trust stores as openssl and Java's keytool have written them (password changeit, the JKS key's keypass12)."""

from __future__ import annotations

import ssl
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import CertificateBuilder, Name, NameAttribute
from cryptography.x509.oid import NameOID

from moldau.config.tls import TlsSettings
from moldau.tls.contexts import TlsError, client_context, openssl_name, server_context, unknown_suites
from moldau.tls.names import BadRuleError, distinguished_name, mapping_of
from moldau.tls.stores import StoreError, read_keys, read_trusted

DATA = Path(__file__).parent / "data"
CERTIFICATE = (DATA / "b.pem").read_text().strip()
AUTHORITY = (DATA / "ca.pem").read_text().strip()

STORES = {
    "broker.pem": (None, None),
    "encrypted.pem": (None, "keypass12"),
    "broker.p12": ("changeit", None),
    "broker.jks": ("changeit", "keypass12"),
}


def contents(name: str) -> bytes:
    return (DATA / name).read_bytes()


@pytest.mark.parametrize("name", STORES)
def test_keys_are_read_whatever_their_form(name: str) -> None:
    store_password, key_password = STORES[name]
    keys = read_keys(contents(name), store_password, key_password)
    assert CERTIFICATE in keys.text
    settings = TlsSettings(str(DATA / name), store_password, key_password)
    assert isinstance(server_context(settings), ssl.SSLContext)


@pytest.mark.parametrize(("name", "password"), [("trust.jks", "changeit"), ("trust.p12", "changeit"), ("ca.pem", None)])
def test_trusted_certificates_are_read_whatever_their_form(name: str, password: str | None) -> None:
    assert AUTHORITY in read_trusted(contents(name), password)
    context = client_context(TlsSettings(truststore_location=str(DATA / name), truststore_password=password))
    assert [dict(pair[0] for pair in found["subject"])["commonName"] for found in context.get_ca_certs()] == ["Test CA"]


@pytest.mark.parametrize(
    ("name", "store_password", "key_password", "reason"),
    [
        ("broker.jks", "wrong", "keypass12", "wrong password"),
        ("broker.jks", "changeit", "wrong", "wrong password for its key"),
        ("broker.jks", None, None, "a password is needed"),
        ("broker.p12", "wrong", None, "PKCS12"),
        ("encrypted.pem", None, None, "there is no password"),
        ("ca.pem", None, None, "no PEM private key"),
        ("trust.jks", "changeit", None, "no private key"),
        ("trust.p12", "changeit", None, "no private key"),
    ],
)
def test_a_store_that_cannot_be_used_says_why(
    name: str, store_password: str | None, key_password: str | None, reason: str
) -> None:
    with pytest.raises(StoreError, match=reason):
        read_keys(contents(name), store_password, key_password)


@pytest.mark.parametrize("name", ["broker.jks", "trust.jks"])
def test_every_beginning_of_a_store_is_refused(name: str) -> None:
    data = contents(name)
    for end in range(0, len(data), 7):
        with pytest.raises(StoreError):
            read_keys(data[:end], None, "keypass12")


def test_settings_that_do_not_fit_are_named() -> None:
    base = TlsSettings(str(DATA / "encrypted.pem"), key_password="keypass12")
    for changed, said in (
        (replace(base, keystore_location=str(DATA / "missing.pem")), "ssl.keystore.location"),
        (replace(base, key_password="wrong"), "ssl.keystore"),
        (replace(base, keystore_location=None), "needs a private key"),
        (replace(base, cipher_suites=("TLS_NO_SUCH_SUITE",)), "ssl.cipher.suites"),
        (replace(base, keystore_key="x"), "ssl.keystore.certificate.chain"),
        (replace(base, client_auth="required", truststore_location=str(DATA / "missing")), "ssl.truststore.location"),
    ):
        with pytest.raises(TlsError, match=said) as refused:
            server_context(changed)
        assert "keypass12" not in str(refused.value)
    assert "keypass12" not in repr(base)


def test_versions_and_ciphers_are_limited() -> None:
    settings = TlsSettings(
        str(DATA / "broker.pem"),
        enabled_protocols=("TLSv1.2",),
        cipher_suites=("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",),
    )
    context = server_context(settings)
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    offered = [cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"]
    assert offered == ["ECDHE-RSA-AES256-GCM-SHA384"]
    assert openssl_name("TLS_RSA_WITH_AES_128_CBC_SHA") == "AES128-SHA"
    assert openssl_name("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256") == "ECDHE-RSA-CHACHA20-POLY1305"


@pytest.mark.parametrize(
    ("suites", "first", "last"),
    [
        ((), "TLSv1_2", "TLSv1_3"),
        (("TLS_AES_256_GCM_SHA384",), "TLSv1_3", "TLSv1_3"),
        (("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",), "TLSv1_2", "TLSv1_2"),
        (("TLS_CHACHA20_POLY1305_SHA256", "ECDHE-RSA-AES256-GCM-SHA384"), "TLSv1_2", "TLSv1_3"),
    ],
)
def test_a_version_without_a_suite_is_not_spoken(suites: tuple[str, ...], first: str, last: str) -> None:
    """Else a client could choose an older version with any suite, whatever is named."""
    context = server_context(TlsSettings(str(DATA / "broker.pem"), cipher_suites=suites))
    assert (context.minimum_version.name, context.maximum_version.name) == (first, last)


def test_suites_that_no_enabled_version_knows_are_refused() -> None:
    settings = TlsSettings(
        str(DATA / "broker.pem"), enabled_protocols=("TLSv1.2",), cipher_suites=("TLS_AES_256_GCM_SHA384",)
    )
    with pytest.raises(TlsError, match=r"none of TLS_AES_256_GCM_SHA384 is for TLSv1\.2"):
        server_context(settings)


def test_suites_that_are_not_known_are_told() -> None:
    known = ("TLS_AES_256_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES128-GCM-SHA256")
    strange = ("TLS_AES_512_GCM_SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA385")
    assert unknown_suites(TlsSettings(str(DATA / "broker.pem"), cipher_suites=(*known, *strange))) == list(strange)


def test_a_subject_is_written_as_java_does() -> None:
    """Seen from Java's X500Principal.getName() for the same certificate."""
    der = ssl.PEM_cert_to_DER_cert((DATA / "c.pem").read_text())
    email = "1.2.840.113549.1.9.1=#16056140622e63"
    assert distinguished_name(der) == f"{email},CN=Alice Liddell,{UNITS},O=Acme\\, Inc.,ST=Saxony,C=DE"


@pytest.mark.parametrize(("count", "length"), [(127, "7f"), (128, "8180"), (255, "81ff"), (256, "820100")])
def test_a_long_attribute_without_a_name_is_written_in_der(count: int, length: str) -> None:
    name = Name([NameAttribute(NameOID.PSEUDONYM, "x" * count, _validate=False)])
    key, now = generate_private_key(SECP256R1()), datetime(2026, 1, 1, tzinfo=UTC)
    made = CertificateBuilder(name, name, key.public_key(), 1, now, now).sign(key, SHA256())
    assert distinguished_name(made.public_bytes(Encoding.DER)) == f"2.5.4.65=#0c{length}{'78' * count}"


UNITS = "OU=X+OU=Data"
NAME = "CN=kafka-client,OU=Data,O=Acme"


@pytest.mark.parametrize(
    ("rules", "name"),
    [
        ("DEFAULT", NAME),
        ("", NAME),
        ("RULE:^CN=(.*?),.*$/$1/", "kafka-client"),
        ("RULE:^CN=(.*?),OU=(.*?),.*$/$1@$2/U", "KAFKA-CLIENT@DATA"),
        ("RULE:^CN=x$/$1/,RULE:^CN=([^,]+),.*$/$1/L,DEFAULT", "kafka-client"),
        ("RULE:^CN=x(.*)$/$1/, DEFAULT", NAME),
    ],
)
def test_a_name_is_mapped_by_the_first_rule_that_fits(rules: str, name: str) -> None:
    if rules.startswith("RULE:^CN=x$"):
        rules = rules.replace("^CN=x$/$1/", "^CN=(x)$/$1/")
    assert mapping_of(rules)(NAME) == name


def test_who_fits_no_rule_is_nobody() -> None:
    """As Kafka's own mapper, which raises NoMatchingRule."""
    assert mapping_of("RULE:^CN=(.*),OU=Other.*$/$1/,RULE:^UID=(.*)$/$1/")(NAME) is None


@pytest.mark.parametrize(
    "rules", ["RULE:", "RULE:a", "RULE:a/b", "SOMETHING", "RULE:(/b/", "RULE:a/$1/", "RULE:a/b/,,x"]
)
def test_a_rule_that_is_none_is_refused(rules: str) -> None:
    with pytest.raises(BadRuleError):
        mapping_of(rules)
